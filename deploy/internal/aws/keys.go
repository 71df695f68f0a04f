package aws

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// instead is the cure for all ways to credentials that are not built in.
const instead = `; hand them over with: eval "$(aws configure export-credentials --format env)"`

// Find finds credentials where AWS's own tools do, in their order: the environment, the profile in the shared files,
// a container's endpoint, the instance's. What it does not know (single sign-on, roles to assume, programs) is an
// error with the cure, rather than a step to the next.
func Find(ctx context.Context) (Keys, error) {
	k := Keys{ID: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: os.Getenv("AWS_SECRET_ACCESS_KEY"), Token: os.Getenv("AWS_SESSION_TOKEN")}
	switch {
	case k.ID != "" && k.Secret != "":
		return k, nil
	case k.ID != "" || k.Secret != "":
		return Keys{}, errors.New("AWS credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together, and one of them is missing")
	}
	p, err := profile()
	if err != nil {
		return Keys{}, err
	}
	if k, ok, err := p.keys(); ok || err != nil {
		return k, err
	}
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" {
		return Keys{}, errors.New("AWS credentials: AWS_WEB_IDENTITY_TOKEN_FILE is set, and dibs does not exchange such tokens" + instead)
	}
	if k, ok, err := fromContainer(ctx); ok || err != nil {
		return k, err
	}
	k, err = fromInstance(ctx)
	if err != nil {
		return Keys{}, fmt.Errorf("no AWS credentials: none in the environment (AWS_ACCESS_KEY_ID), in %s, of a container or of this instance (%w)%s", p.where, err, instead)
	}
	return k, nil
}

// Region is the one that the environment or the profile names; empty if none does.
func Region() string {
	named := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if named != "" {
		return named
	}
	p, err := profile()
	if err != nil {
		return ""
	}
	return p.values["region"]
}

// A section is one profile of the shared files.
type section struct {
	name, where string
	values      map[string]string
}

// profile reads the profile that AWS_PROFILE names, from the file of credentials and that of the configuration.
func profile() (section, error) {
	p := section{name: cmp.Or(os.Getenv("AWS_PROFILE"), "default"), values: map[string]string{}}
	home, _ := os.UserHomeDir()
	found := false
	for _, file := range []struct{ variable, usual, section string }{
		{"AWS_CONFIG_FILE", "config", "profile " + p.name},
		{"AWS_SHARED_CREDENTIALS_FILE", "credentials", p.name}, // its values count where both have one
	} {
		path := cmp.Or(os.Getenv(file.variable), filepath.Join(home, ".aws", file.usual))
		p.where = path
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return p, fmt.Errorf("AWS credentials: %w", err)
		}
		found = p.read(data, file.section) || found
	}
	if !found && os.Getenv("AWS_PROFILE") != "" {
		return p, fmt.Errorf("AWS credentials: no file has the profile %q, which AWS_PROFILE names", p.name)
	}
	return p, nil
}

func (p section) read(data []byte, wanted string) (found bool) {
	in := false
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := lines.Text()
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "[") {
			name := strings.TrimSpace(strings.Trim(trimmed, "[]"))
			in = name == wanted || name == p.name && name == "default"
			found = found || in
			continue
		}
		name, value, assigned := strings.Cut(line, "=")
		if in && assigned && !strings.ContainsAny(line[:1], " \t#;") { // an indented line belongs to the one above
			p.values[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(value)
		}
	}
	return found
}

// elsewhere are settings of a profile by which its credentials are to be had from somewhere else.
var elsewhere = []string{"sso_session", "sso_start_url", "role_arn", "credential_process", "web_identity_token_file", "login_session"}

func (p section) keys() (k Keys, ok bool, err error) {
	for _, name := range elsewhere {
		if p.values[name] != "" {
			return k, false, fmt.Errorf("AWS credentials: the profile %q says %s, and dibs does not follow it%s", p.name, name, instead)
		}
	}
	k = Keys{p.values["aws_access_key_id"], p.values["aws_secret_access_key"], p.values["aws_session_token"]}
	if (k.ID == "") != (k.Secret == "") {
		return Keys{}, false, fmt.Errorf("AWS credentials: the profile %q has one of aws_access_key_id and aws_secret_access_key, and not the other", p.name)
	}
	return k, k.ID != "", nil
}
