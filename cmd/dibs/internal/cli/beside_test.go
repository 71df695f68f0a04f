package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/crontab"
)

// cronix writes /etc/crontab, and dibs a file of its own: both would fire.
func TestApplyLooksIntoTheSystemsTable(t *testing.T) {
	was := systemTable
	defer func() { systemTable = was }()
	dir := t.TempDir()
	systemTable = filepath.Join(dir, "crontab")
	text := "0 2 * * * /usr/local/bin/cronix trigger billing.settle\n# cronix:owned app=billing job=settle hash=0 idx=0\n"
	if err := os.WriteFile(systemTable, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := crontab.NewFile(filepath.Join(dir, "dibs-billing"), crontab.Options{Path: crontab.DefaultPath})
	if err != nil {
		t.Fatal(err)
	}
	e := deploy.Entry{ID: deploy.ID{App: "billing", Job: "settle"}, When: []string{"0 2 * * *"}, Command: []string{"/usr/bin/dibs", "trigger"}, User: "root"}
	r := deploy.Install{App: "billing", Entries: []deploy.Entry{e}}
	p, err := deploy.Prepare(t.Context(), own, r)
	if err != nil {
		t.Fatal(err)
	}
	o := deployOptions{}
	o.to, o.path = "crontab", crontab.DefaultPath
	got := o.beside(t.Context(), p, r)
	if len(got) != 1 || !strings.Contains(got[0], systemTable+" has another entry") || !strings.Contains(got[0], "line 1, cronix's") {
		t.Errorf("%q", got)
	}
}
