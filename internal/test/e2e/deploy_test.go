//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const shopJobs = `version: 1
app: shop
defaults: {policy: {concurrency_scope: host}}
jobs:
  - {name: invoices, schedule: '15 4 1 * *', command: [echo, '100%']}
  - {name: report, schedule: '0 18 * * FRIL', command: [echo, hi]}
`

// deploying is a world with a manifest and a crontab of its own, whose entries use the host's directory.
func deploying(t *testing.T, manifest string) (w *world, m, table, to string) {
	t.Parallel()
	w = fileWorld(t)
	w.env = append(w.env, "DIBS_STORE_FILE="+w.write("store", w.host()+"\n"))
	if err := os.Mkdir(w.path("cron.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	table = w.path("cron.d/dibs-shop")
	return w, w.write("jobs.yaml", manifest), table, "crontab:" + table
}

// asCron runs dibs without DIBS_STORE, which cron's entries do not have.
func (w *world) asCron(args ...string) *process {
	cmd := w.command(dibsBinary, args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "DIBS_STORE=") })
	return w.start(cmd)
}

// done is asCron, which must succeed, and returns what it prints.
func (w *world) done(args ...string) string {
	w.t.Helper()
	return w.asCron(args...).exits(0, patience).stdout()
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The way of a manifest into a crontab and out of it: plan, apply, a second apply that writes nothing, drift after an
// edit by hand, prune and eject. Each exit status is what the help says.
func TestDeployToACrontab(t *testing.T) {
	w, m, table, to := deploying(t, shopJobs)
	if _, err := os.Stat(table); err == nil {
		t.Fatal("the table is there")
	}
	plan := w.asCron("plan", m, "--to", to, "-o", "json").exits(2, patience)
	var p struct {
		Changes, Written bool
		Hash             string
	}
	if err := json.Unmarshal([]byte(plan.stdout()), &p); err != nil || !p.Changes || p.Written || p.Hash == "" {
		t.Fatal(err, plan)
	}
	w.asCron("apply", m, "--to", to, "--plan", "0123").exits(1, patience).says("the plan has changed to " + p.Hash)
	w.done("apply", m, "--to", to, "--dry-run")
	if _, err := os.Stat(table); err == nil {
		t.Error("plan, apply of another plan or apply --dry-run wrote")
	}
	w.done("apply", m, "--to", to, "--plan", p.Hash)
	was := text(t, table)
	for _, want := range []string{"\n15 4 1 * * root ", "\n0 18 * * * root ", " trigger shop/invoices --manifest " + m, "DIBS_STORE_FILE=" + w.path("store")} {
		if !strings.Contains(was, want) {
			t.Errorf("the table has no %q:\n%s", want, was)
		}
	}
	before := statOf(t, table)
	if out := w.done("apply", m, "--to", to); !strings.Contains(out, "nothing to do: 2 unchanged") {
		t.Error(out)
	}
	w.done("plan", m, "--to", to)
	w.done("drift", m, "--to", to)
	if statOf(t, table) != before {
		t.Error("an apply without changes wrote the file anew")
	}

	w.write("cron.d/dibs-shop", strings.Replace(was, "15 4", "16 4", 1))
	if out := w.asCron("drift", m, "--to", to).exits(5, patience).stdout(); !strings.Contains(out, "edited  shop/invoices#0") {
		t.Error(out)
	}
	w.asCron("apply", m, "--to", to).exits(5, patience) // it is kept
	w.done("apply", m, "--to", to, "--overwrite")
	if text(t, table) != was {
		t.Errorf("--overwrite left\n%s", text(t, table))
	}

	one, _, _ := strings.Cut(shopJobs, "  - {name: report")
	w.write("jobs.yaml", one)
	if out := w.done("apply", m, "--to", to); !strings.Contains(out, "stale   shop/report#0") || text(t, table) != was {
		t.Error(out)
	}
	w.done("prune", m, "--to", to)
	if now := text(t, table); strings.Contains(now, "report") || !strings.Contains(now, "shop/invoices#0") {
		t.Error(now)
	}
	w.done("eject", "shop", "--to", to)
	if now := text(t, table); strings.Contains(now, "dibs:entry") || !strings.Contains(now, "\n15 4 1 * * root ") {
		t.Error(now)
	}
	w.done("adopt", m, "--to", to)
	w.done("drift", m, "--to", to)
	w.done("prune", "--all", "shop", "--to", to)
	if now := text(t, table); strings.Contains(now, "trigger") {
		t.Error(now)
	}
}

func statOf(t *testing.T, path string) (ino uint64) {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

// An app that was renamed keeps its entries, in the file of its new name.
func TestDeployARenamedApp(t *testing.T) {
	w, m, table, to := deploying(t, shopJobs)
	w.done("apply", m, "--to", to)
	w.write("jobs.yaml", strings.Replace(shopJobs, "app: shop", "app: store", 1))
	w.done("apply", m, "--to", to, "--formerly", "shop")
	if now := text(t, table); strings.Contains(now, "shop/") || strings.Count(now, "dibs:entry store/") != 2 {
		t.Error(now)
	}
}

// The same manifest as timers of systemd, in a directory of its own.
func TestDeployToSystemd(t *testing.T) {
	w, m, _, _ := deploying(t, shopJobs)
	to := "systemd:" + w.path("cron.d")
	w.asCron("plan", m, "--to", to).exits(2, patience)
	w.done("apply", m, "--to", to)
	w.done("plan", m, "--to", to)
	timer := text(t, w.path("cron.d/dibs-shop.invoices.0.timer"))
	if !strings.Contains(timer, "\nOnCalendar=*-*-01 04:15:00 UTC\n") || strings.Contains(timer, "Persistent") {
		t.Error(timer)
	}
	service := text(t, w.path("cron.d/dibs-shop.invoices.0.service"))
	for _, want := range []string{"\nSuccessExitStatus=4 75\n", " trigger shop/invoices --manifest " + m, "Environment=DIBS_STORE_FILE="} {
		if !strings.Contains(service, want) {
			t.Errorf("the service has no %q:\n%s", want, service)
		}
	}
	w.write("cron.d/dibs-shop.report.0.service", "# dibs:entry shop/report#0\n[Service]\nExecStart=/bin/true\n")
	w.asCron("drift", m, "--to", to).exits(5, patience)
	w.done("apply", m, "--to", to, "--overwrite")
	w.done("drift", m, "--to", to)
	w.done("prune", "--all", "shop", "--to", to)
	if all, _ := filepath.Glob(w.path("cron.d/*shop*")); len(all) > 0 {
		t.Errorf("%q are left", all)
	}
}

// A crontab becomes a manifest, and adopt takes over exactly the lines that it was made from.
func TestImportAndAdopt(t *testing.T) {
	const lines = "# ours\nPATH=/usr/bin:/bin\n15 4 1 * * root cd /srv/shop && ./invoices --month=\\%m\n@reboot root warm-up\n*/5 9-17 * * MON-FRI root poll"
	w, m, _, _ := deploying(t, "")
	w.write("cron.d/old", lines)
	table := w.path("cron.d/old")
	p := w.asCron("import", "crontab", table, "--table", "system", "--app", "shop").exits(0, patience)
	p.says("line 4 is left: dibs runs nothing at the start of the machine")
	w.write("jobs.yaml", p.stdout())
	if out := w.done("adopt", m, "--to", "crontab:"+table); !strings.Contains(out, "2 adopted") {
		t.Error(out)
	}
	w.done("drift", m, "--to", "crontab:"+table)
	now := text(t, table)
	if !strings.HasPrefix(now, "# ours\nPATH=/usr/bin:/bin\n# dibs:entry shop/") || !strings.Contains(now, "\n@reboot root warm-up\n# dibs:entry ") {
		t.Error(now)
	}
	if strings.Contains(now, "./invoices") || !strings.Contains(now, "\n15 4 1 * * root ") {
		t.Error("the line was not taken over:\n", now)
	}

	// What differs stays, and the reason is shown.
	w.write("cron.d/old", strings.Replace(lines, "PATH=/usr/bin:/bin", "PATH=/elsewhere", 1))
	if out := w.asCron("adopt", m, "--to", "crontab:"+table).exits(5, patience).stdout(); !strings.Contains(out, "other values of PATH") || strings.Contains(out, "/elsewhere") {
		t.Error(out)
	}
}

// What an entry could not do under cron is refused before anything is written, with the job and the cure.
func TestDeployRefuses(t *testing.T) {
	w, m, table, to := deploying(t, shopJobs)
	redis := "redis://:sesame@127.0.0.1:1/0"
	w.asCron("apply", m, "--to", to, "--store", redis, "--default-scope", "global").exits(2, patience).says("it contains a password", "/etc/dibs/store")
	w.asCron("plan", m, "--to", "crontab:relative/x").exits(1, patience).says("want an absolute path")
	w.asCron("plan", m, "--to", "nomad").exits(1, patience).says("want crontab, crontab:/PATH, crontab:USER, systemd")
	w.asCron("apply", "https://shop.internal", "--to", to, "--secret", "env:CRON_SECRET").exits(2, patience).says("keep the secret in a file")
	w.asCron("apply", "-", "--to", to).exits(2, patience).says("standard input")
	for change, says := range map[string]string{
		"schedule: '*/10 * * * * *'":                                  "shop/invoices: */10 * * * * *: cron starts at whole minutes",
		"schedule: '15 4 1 * *', env_from: {TOKEN: 'env:SHOP_TOKEN'}": `shop/invoices: its secret "env:SHOP_TOKEN" is in the environment`,
		"schedule: '15 4 1 * *', env_from: {TOKEN: 'file:token'}":     "shop/invoices: its secret file:token has a relative path, and cron starts entries elsewhere: write file:" + filepath.Dir(m) + "/token",
		"schedule: '15 4 1 * *', dir: work":                           "shop/invoices: its dir work is relative, and cron starts entries elsewhere: write an absolute path",
	} {
		w.write("jobs.yaml", strings.Replace(shopJobs, "schedule: '15 4 1 * *'", change, 1))
		w.asCron("apply", m, "--to", to).exits(2, patience).says(says)
	}
	w.write("jobs.yaml", strings.Replace(shopJobs, "[echo, '100%']", "[bin/invoices]", 1))
	w.asCron("apply", m, "--to", to).exits(2, patience).says("shop/invoices: its program bin/invoices is relative")
	w.dibs("apply", w.write("jobs.yaml", shopJobs), "--to", to).exits(2, patience).says("entries do not get it")
	if _, err := os.Stat(table); err == nil {
		t.Error("something was written")
	}
}
