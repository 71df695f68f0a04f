package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy/applied"
)

// A record means the same cluster when the kubeconfig's current context is another one, and says so when it cannot.
func TestARecordNamesItsCluster(t *testing.T) {
	dir := t.TempDir()
	write := func(file, current, namespace string) {
		t.Helper()
		text := "{current-context: " + current + ", contexts: [{name: test, context: {cluster: c, user: u, namespace: " + namespace +
			"}}, {name: other, context: {cluster: c, user: u}}], " +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	write("config", "test", "shop")
	t.Setenv("KUBECONFIG", "config")
	t.Setenv("AWS_PROFILE", "shop")
	o := &deployOptions{}
	cmd := &cobra.Command{}
	o.flags(cmd)
	if err := cmd.ParseFlags([]string{"--to=kubernetes", "--image=i"}); err != nil {
		t.Fatal(err)
	}
	at, err := o.targetOptions.open("shop")
	if err != nil {
		t.Fatal(err)
	}
	r, err := o.record(wanted{app: "shop", from: "/shop.yaml", target: at})
	if err != nil {
		t.Fatal(err)
	}
	if r.To != "kubernetes:test/shop" || r.Env["KUBECONFIG"] != filepath.Join(dir, "config") || r.Env["AWS_PROFILE"] != "shop" {
		t.Errorf("%+v", r)
	}
	write("config", "other", "shop")
	write("config2", "other", "shop")
	t.Setenv("KUBECONFIG", filepath.Join(dir, "config2"))
	opened := func(r applied.Record) (name string) {
		t.Helper()
		was, err := rememberedOptions(r)
		if err != nil {
			t.Fatal(err)
		}
		underVariables(r.Env, func() {
			now, err := was.targetOptions.open(r.App)
			if err != nil {
				t.Fatal(err)
			}
			name = now.String()
		})
		return name
	}
	if now := opened(r); now != r.Target {
		t.Errorf("%s has become %s", r.Target, now)
	}
	r.Args = []string{"--to=kubernetes"} // as what it meant when it was applied
	if _, err := imageOf(context.Background(), r); err == nil || !strings.Contains(err.Error(), "kubernetes:test/shop is now kubernetes:other/default") {
		t.Errorf("another cluster is read: %v", err)
	}
}
