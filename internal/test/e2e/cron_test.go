//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// cronHost is a host's part of the test of a real cron: sh -c cronHost sh DIR NAME, in namespaces of its own. It has
// nothing of this machine's configuration of cron, and its own /run, spool and host name.
const cronHost = `set -eu
mount --make-rprivate /
for path in /run /var/spool/cron; do mount -t tmpfs tmpfs "$path"; done
mkdir -p /var/spool/cron/crontabs
mount --bind "$1/cron.d" /etc/cron.d
[ ! -e /etc/crontab ] || mount --bind /dev/null /etc/crontab
hostname "$2"
exec cron -f`

// An applied manifest under a real cron daemon on three hosts with one store: each tick is run by exactly one of them,
// one of them is killed and comes back, and no minute is left out.
func TestCronFiresWhatWasApplied(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		uncovered.Skip(t, "cron on three hosts", "it needs root")
	}
	for _, program := range []string{"cron", "unshare", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			uncovered.Skip(t, "cron on three hosts", err.Error())
		}
	}
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	address := w.url
	if !strings.Contains(address, "reach=") {
		address += "&reach=fleet"
	}
	if !strings.Contains(address, "?") {
		address = strings.Replace(address, "&", "?", 1)
	}
	w.env = append(w.env, "DIBS_STORE_FILE="+w.write("store", address+"\n"))
	if err := os.Chmod(w.path("store"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := w.path("ran")
	m := w.write("jobs.yaml", fmt.Sprintf(`version: 1
app: shop
defaults: {policy: {concurrency_scope: global}}
jobs:
  - {name: minutely, schedule: '* * * * *', command: {shell: 'echo "minutely $DIBS_TICK" >> %s'}}
  - {name: friday, schedule: '* * * * FRIL', command: {shell: 'echo "friday $DIBS_TICK" >> %s'}}
`, log, log))
	boot := func(n int) *process {
		dir := w.path(fmt.Sprint("web-", n))
		if err := os.MkdirAll(filepath.Join(dir, "cron.d"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := w.command("unshare", "--mount", "--pid", "--fork", "--uts", "--kill-child", "--mount-proc", "sh", "-c", cronHost, "sh", dir, fmt.Sprint("web-", n))
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return w.start(cmd)
	}
	var hosts []*process
	for n := range 3 {
		hosts = append(hosts, boot(n))
		w.env = append(w.env, "DIBS_DIR="+w.path(fmt.Sprint("host-", n)))
		w.asCron("apply", m, "--to", "crontab:"+w.path(fmt.Sprintf("web-%d/cron.d/dibs-shop", n))).exits(0, patience)
	}
	ran := func() (ticks []string) {
		b, _ := os.ReadFile(log)
		for line := range strings.Lines(string(b)) {
			if tick, ok := strings.CutPrefix(strings.TrimSpace(line), "minutely "); ok {
				ticks = append(ticks, tick)
			}
		}
		return ticks
	}
	minutes := rounds(2, 10)
	for n := 1; n <= minutes; n++ {
		eventually(t, patience, func() bool { return len(ran()) >= n }, func() string {
			return strings.Join(ran(), "\n") + "\n" + w.dibs("history", "shop/minutely", "--store", address).exits(0, patience).stdout()
		})
		switch n {
		case (minutes + 1) / 2: // no cron is at work now: the minute's tick has been run
			hosts[1].signal(syscall.SIGKILL)
			hosts[1].wait(patience)
		case (minutes+1)/2 + 1:
			hosts[1] = boot(1)
		}
	}
	ticks := ran()
	for i, tick := range ticks {
		at, err := time.Parse(time.RFC3339, tick)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			before, _ := time.Parse(time.RFC3339, ticks[i-1])
			if at.Sub(before) != time.Minute {
				t.Errorf("%s was run after %s: want each minute, once", tick, ticks[i-1])
			}
		}
	}
	if b := text(t, log); strings.Contains(b, "friday") && time.Now().UTC().Weekday() != time.Friday {
		t.Errorf("a tick that is not due was run:\n%s", b)
	}
	for _, h := range hosts {
		if !h.running() {
			t.Errorf("a host's cron has ended: %s", h)
		}
	}
}
