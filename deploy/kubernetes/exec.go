package kubernetes

import (
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

// maxCredentials is the most that a plugin may print, in bytes.
const maxCredentials = 1 << 20

// A bounded buffer takes no more than that.
type bounded struct {
	data []byte
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.full = len(b.data)+len(p) > maxCredentials; b.full {
		return 0, errors.New("too much")
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// info is what a plugin is told, and where it asks for that, of the cluster.
func (p *execPlugin) info(cl *cluster, ca []byte) (string, error) {
	spec := object{"interactive": false}
	if p.Cluster {
		of := object{"server": cl.Server}
		for key, v := range map[string]string{"tls-server-name": cl.ServerName, "proxy-url": cl.Proxy, "certificate-authority-data": base64.StdEncoding.EncodeToString(ca)} {
			if v != "" {
				of[key] = v
			}
		}
		if cl.Insecure {
			of["insecure-skip-tls-verify"] = true
		}
		for _, e := range cl.Extensions {
			if e.Name == "client.authentication.k8s.io/exec" {
				of["config"] = e.Extension
			}
		}
		spec["cluster"] = of
	}
	b, err := json.Marshal(object{"apiVersion": p.Version, "kind": "ExecCredential", "spec": spec})
	return string(b), err
}

// run asks the program once. What it answers is good for as long as a plan or an apply takes.
func (p *execPlugin) run(ctx context.Context, cl *cluster, ca []byte) (*user, error) {
	if !strings.HasPrefix(p.Version, "client.authentication.k8s.io/") || p.Command == "" {
		return nil, fmt.Errorf("its exec plugin has the apiVersion %q and the command %q: want client.authentication.k8s.io/v1 and a program", p.Version, p.Command)
	}
	info, err := p.info(cl, ca)
	if err != nil {
		return nil, fmt.Errorf("what its cluster has for the exec plugin is no JSON: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, execTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Command, p.Args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+info)
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	var out, errs bounded
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if out.full || errs.full {
		return nil, fmt.Errorf("%s gives no credentials: it prints more than %d bytes", p.Command, maxCredentials)
	}
	if err != nil {
		msg := fmt.Sprintf("%s gives no credentials: %v: %s", p.Command, err, clean(strings.TrimSpace(string(errs.data))))
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
	if err := json.Unmarshal(out.data, &answer); err != nil || answer.Status.Token == "" && answer.Status.Cert == "" {
		return nil, fmt.Errorf("%s answers no credentials", p.Command)
	}
	u := &user{Token: answer.Status.Token}
	if answer.Status.Cert != "" {
		u.CertData = base64.StdEncoding.EncodeToString([]byte(answer.Status.Cert))
		u.KeyData = base64.StdEncoding.EncodeToString([]byte(answer.Status.Key))
	}
	return u, nil
}
