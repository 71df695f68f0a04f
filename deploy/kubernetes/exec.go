package kubernetes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// An execPlugin is a program that answers credentials, as the kubeconfigs of clouds name one.
type execPlugin struct {
	Version string   `yaml:"apiVersion"`
	Command string   `yaml:"command"`
	Args    []string `yaml:"args"`
	Env     []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	InstallHint string `yaml:"installHint"`
	Cluster     bool   `yaml:"provideClusterInfo"`
}

// execTime is how long a plugin may take: it may ask a cloud, and no person, since it has no terminal.
const execTime = 60 * time.Second

// run asks the program once. What it answers is good for as long as a plan or an apply takes.
func (p *execPlugin) run(ctx context.Context) (*user, error) {
	if !strings.HasPrefix(p.Version, "client.authentication.k8s.io/") || p.Command == "" {
		return nil, fmt.Errorf("its exec plugin has the apiVersion %q and the command %q: want client.authentication.k8s.io/v1 and a program", p.Version, p.Command)
	}
	if p.Cluster {
		return nil, errors.New("its exec plugin asks for provideClusterInfo, which is not supported")
	}
	ctx, cancel := context.WithTimeout(ctx, execTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Command, p.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), `KUBERNETES_EXEC_INFO={"apiVersion":"`+p.Version+`","kind":"ExecCredential","spec":{"interactive":false}}`)
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		msg := fmt.Sprintf("%s gives no credentials: %v: %s", p.Command, err, clean(strings.TrimSpace(errs.String())))
		if errors.Is(err, exec.ErrNotFound) && p.InstallHint != "" {
			msg += " " + clean(p.InstallHint)
		}
		return nil, errors.New(msg)
	}
	var answer struct {
		Status struct {
			Token string `json:"token"`
			Cert  string `json:"clientCertificateData"`
			Key   string `json:"clientKeyData"`
		} `json:"status"`
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.Status.Token == "" && answer.Status.Cert == "" {
		return nil, fmt.Errorf("%s answers no credentials", p.Command)
	}
	u := &user{Token: answer.Status.Token}
	if answer.Status.Cert != "" {
		u.CertData = base64.StdEncoding.EncodeToString([]byte(answer.Status.Cert))
		u.KeyData = base64.StdEncoding.EncodeToString([]byte(answer.Status.Key))
	}
	return u, nil
}
