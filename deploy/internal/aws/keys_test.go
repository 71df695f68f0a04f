package aws

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// alone clears what the environment says of AWS, and gives shared files.
func alone(t *testing.T, config, credentials string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for name, text := range map[string]string{"config": config, "credentials": credentials} {
		if text == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, ".aws"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".aws", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Keys come from where AWS's tools look first, and what is not supported says so with the cure.
func TestKeys(t *testing.T) {
	const files = "[default]\naws_access_key_id = AKID1\naws_secret_access_key= SECRET1\n\n[ci]\naws_access_key_id=AKID2\naws_secret_access_key=SECRET2\naws_session_token=TOKEN2\n"
	const config = "[default]\nregion = eu-north-1\ns3 =\n  role_arn = nested\n[profile sso]\nsso_session = corp\n[profile role]\nrole_arn = arn:aws:iam::1:role/x\n[profile half]\naws_access_key_id = AKID3\n"
	for _, c := range []struct {
		name string
		env  map[string]string
		want Keys
		fail string
	}{
		{name: "environment", env: map[string]string{"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "S", "AWS_SESSION_TOKEN": "T", "AWS_PROFILE": "sso"}, want: Keys{"A", "S", "T"}},
		{name: "half of it", env: map[string]string{"AWS_ACCESS_KEY_ID": "A"}, fail: "go together"},
		{name: "default profile", want: Keys{"AKID1", "SECRET1", ""}},
		{name: "a profile", env: map[string]string{"AWS_PROFILE": "ci"}, want: Keys{"AKID2", "SECRET2", "TOKEN2"}},
		{name: "no such profile", env: map[string]string{"AWS_PROFILE": "none"}, fail: `no file has the profile "none"`},
		{name: "single sign-on", env: map[string]string{"AWS_PROFILE": "sso"}, fail: "says sso_session, and dibs does not follow it; hand them over with: eval"},
		{name: "a role", env: map[string]string{"AWS_PROFILE": "role"}, fail: "says role_arn"},
		{name: "half a profile", env: map[string]string{"AWS_PROFILE": "half"}, fail: "and not the other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, config, files)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			k, err := Find(context.Background())
			if c.fail == "" && (err != nil || k != c.want) || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
				t.Errorf("%q %q %q, %v; want %q", k.ID, k.Secret, k.Token, err, c.fail)
			}
			if text := fmt.Sprint(k, err); strings.Contains(text, "SECRET1") || strings.Contains(text, "SECRET2") || strings.Contains(text, "TOKEN2") {
				t.Errorf("it is printed: %s", text)
			}
		})
	}
	alone(t, config, files)
	if r := Region(); r != "eu-north-1" {
		t.Errorf("region %q", r)
	}
}

// Without keys of its own a process asks its container, and then its instance, each within bounds.
func TestKeysOfThePlace(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := r.Header.Get("X-Aws-Ec2-Metadata-Token"); {
		case r.URL.Path == "/container" && r.Header.Get("Authorization") == "let me":
			fmt.Fprint(w, `{"AccessKeyId":"C","SecretAccessKey":"SECRET","Token":"T","Expiration":"2030-01-01T00:00:00Z"}`)
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			fmt.Fprint(w, "v2")
		case token == "v2" && r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "deployer")
		case token == "v2" && r.URL.Path == "/latest/meta-data/iam/security-credentials/deployer":
			fmt.Fprint(w, `{"AccessKeyId":"I","SecretAccessKey":"SECRET","Token":"T"}`)
		default:
			http.Error(w, `{"SecretAccessKey":"SECRET"}`, http.StatusForbidden)
		}
	}))
	defer s.Close()
	find := func(env map[string]string) (Keys, error) {
		alone(t, "", "")
		for name, value := range env {
			t.Setenv(name, value)
		}
		return Find(context.Background())
	}
	if k, err := find(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": s.URL + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "let me"}); err != nil || k.ID != "C" || k.Token != "T" {
		t.Error(k.ID, err)
	}
	if _, err := find(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": s.URL + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": ""}); err == nil || !strings.Contains(err.Error(), "status 403") || strings.Contains(err.Error(), "SECRET") {
		t.Error(err)
	}
	if _, err := find(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://198.51.100.7/"}); err == nil || !strings.Contains(err.Error(), "no TLS") {
		t.Error(err)
	}
	if k, err := find(map[string]string{"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": s.URL}); err != nil || k.ID != "I" {
		t.Error(k.ID, err)
	}
	if _, err := find(nil); err == nil || !strings.Contains(err.Error(), "no AWS credentials") || !strings.Contains(err.Error(), "export-credentials") {
		t.Error(err)
	}
	if _, err := find(map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}); err == nil || !strings.Contains(err.Error(), "does not exchange") {
		t.Error(err)
	}
}
