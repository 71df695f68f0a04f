package kubernetes

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dibs-run/dibs/internal/conffile"
)

// A kubeconfig is what kubectl reads too, as far as this package knows it.
type kubeconfig struct {
	Current  string         `yaml:"current-context"`
	Contexts []namedContext `yaml:"contexts"`
	Clusters []namedCluster `yaml:"clusters"`
	Users    []namedUser    `yaml:"users"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster   string `yaml:"cluster"`
		User      string `yaml:"user"`
		Namespace string `yaml:"namespace"`
	} `yaml:"context"`
}

type namedCluster struct {
	Name    string  `yaml:"name"`
	Cluster cluster `yaml:"cluster"`
}

type cluster struct {
	Server     string `yaml:"server"`
	CAFile     string `yaml:"certificate-authority"`
	CAData     string `yaml:"certificate-authority-data"`
	Insecure   bool   `yaml:"insecure-skip-tls-verify"`
	ServerName string `yaml:"tls-server-name"`
	Proxy      string `yaml:"proxy-url"`
	Extensions []struct {
		Name      string `yaml:"name"`
		Extension any    `yaml:"extension"`
	} `yaml:"extensions"`
}

type namedUser struct {
	Name string `yaml:"name"`
	User user   `yaml:"user"`
}

type user struct {
	Token     string      `yaml:"token"`
	TokenFile string      `yaml:"tokenFile"`
	CertFile  string      `yaml:"client-certificate"`
	CertData  string      `yaml:"client-certificate-data"`
	KeyFile   string      `yaml:"client-key"`
	KeyData   string      `yaml:"client-key-data"`
	Exec      *execPlugin `yaml:"exec"`
	Provider  *yaml.Node  `yaml:"auth-provider"`
	As        string      `yaml:"as"`
	Username  string      `yaml:"username"`
}

// maxConfig is the largest kubeconfig that is read, in bytes.
const maxConfig = 4 << 20

// files are the kubeconfigs: those of KUBECONFIG, else that of the user.
func configFiles() (files []string, said bool) {
	if list := os.Getenv("KUBECONFIG"); list != "" {
		return filepath.SplitList(list), true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, false
	}
	return []string{filepath.Join(home, ".kube", "config")}, false
}

// readConfigs reads the files as one: what an earlier one says counts. ok is false where none is there.
func readConfigs(files []string) (all kubeconfig, ok bool, err error) {
	for _, file := range files {
		if file == "" {
			continue
		}
		b, err := conffile.Read(file, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, false, fmt.Errorf("the kubeconfig: %w", err)
		}
		var c kubeconfig
		if err := yaml.Unmarshal(b, &c); err != nil {
			return all, false, fmt.Errorf("the kubeconfig %s is no YAML, or not of a kubeconfig's form", file) // the error may quote a secret
		}
		c.relativeTo(filepath.Dir(file))
		ok = true
		if all.Current == "" {
			all.Current = c.Current
		}
		all.Contexts = append(all.Contexts, c.Contexts...)
		all.Clusters = append(all.Clusters, c.Clusters...)
		all.Users = append(all.Users, c.Users...)
	}
	return all, ok, nil
}

// relativeTo finds the files that a kubeconfig names: they are beside it.
func (c *kubeconfig) relativeTo(dir string) {
	beside := func(files ...*string) {
		for _, f := range files {
			if *f != "" && !filepath.IsAbs(*f) {
				*f = filepath.Join(dir, *f)
			}
		}
	}
	for i := range c.Clusters {
		beside(&c.Clusters[i].Cluster.CAFile)
	}
	for i := range c.Users {
		u := &c.Users[i].User
		beside(&u.TokenFile, &u.CertFile, &u.KeyFile)
		if u.Exec != nil && strings.Contains(u.Exec.Command, "/") {
			beside(&u.Exec.Command)
		}
	}
}

func (c *kubeconfig) context(name string) (*namedContext, bool) {
	for i := range c.Contexts {
		if c.Contexts[i].Name == name {
			return &c.Contexts[i], true
		}
	}
	return nil, false
}

// chosen are the context, the cluster and the user of a name; "" is the current one.
func (c *kubeconfig) chosen(name string) (*namedContext, *cluster, *user, error) {
	if name == "" {
		if name = c.Current; name == "" {
			return nil, nil, nil, errors.New("the kubeconfig has no current context: name one, as in --to kubernetes:CONTEXT")
		}
	}
	ctx, ok := c.context(name)
	if !ok {
		var known []string
		for _, k := range c.Contexts {
			known = append(known, k.Name)
		}
		return nil, nil, nil, fmt.Errorf("the kubeconfig has no context %q; it has %s", name, strings.Join(known, ", "))
	}
	var cl *cluster
	for i := range c.Clusters {
		if c.Clusters[i].Name == ctx.Context.Cluster && cl == nil {
			cl = &c.Clusters[i].Cluster
		}
	}
	if cl == nil || cl.Server == "" {
		return nil, nil, nil, fmt.Errorf("the kubeconfig's context %s names no cluster with a server", name)
	}
	u := &user{}
	if ctx.Context.User != "" {
		at := slices.IndexFunc(c.Users, func(u namedUser) bool { return u.Name == ctx.Context.User })
		if at < 0 {
			return nil, nil, nil, fmt.Errorf("the kubeconfig has no user %q, whom its context %s names", ctx.Context.User, name)
		}
		u = &c.Users[at].User
	}
	return ctx, cl, u, nil
}

// inlineOr is what a field has in base64, or else its file.
func inlineOr(data, file string) ([]byte, error) {
	if data != "" {
		b, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, errors.New("the kubeconfig has a field …-data that is no base64")
		}
		return b, nil
	}
	if file == "" {
		return nil, nil
	}
	return conffile.Read(file, conffile.Bundle)
}
