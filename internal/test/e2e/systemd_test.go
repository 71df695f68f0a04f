//go:build linux

package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// A booted is a systemd that is the first process of a pid namespace of its own, in a part of the control
// groups of its own. All it can write to is the world's directory: it knows no unit of this machine's, and must
// not act on any.
type booted struct {
	*world
	init  string // its pid, seen from here
	group string // its part of the control groups
}

// bootScript makes the namespace's view: the world's directory ($1) can be written to, /run is empty, all else
// is as on this machine and stays so. No unit of the machine's is known: its boot would clean this machine's
// /tmp. Then it becomes systemd.
const bootScript = `set -e
mount --make-rprivate /
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind "$1" "$1"
for d in /proc/sys /dev; do mount --bind $d $d; mount -o remount,bind,ro $d; done
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
cp "$1"/units/* /run/systemd/system/
exec setpriv --bounding-set -sys_time,-sys_module,-sys_rawio,-sys_boot,-mknod,-net_admin,-syslog \
	env -i container=other PATH="$PATH" SYSTEMD_UNIT_PATH=/run/systemd/system SYSTEMD_GENERATOR_PATH=/run/none "$2" --system --unit=default.target --log-target=null --show-status=no`

// boot boots a systemd whose only service, app.service, runs dibs with the arguments: the build that waits longer for
// systemd than people's does. more is for the [Service] section.
func (w *world) boot(more string, dibs ...string) *booted {
	w.t.Helper()
	systemd, why := systemdHere()
	notCovered(w.t, why != "", "dibs as a service of systemd", why)
	if err := os.Mkdir(w.path("units"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, target := range []string{"default", "sysinit", "basic", "shutdown"} {
		w.write("units/"+target+".target", "[Unit]\nDefaultDependencies=no\n")
	}
	var env strings.Builder
	for _, v := range w.environ() {
		fmt.Fprintf(&env, "Environment=%q\n", v)
	}
	w.write("units/app.service", fmt.Sprintf("[Service]\nExecStart=%s\n%sStandardOutput=append:%[3]s\nStandardError=append:%[3]s\nTimeoutStopSec=300\n%[4]s",
		strings.Join(append([]string{shiftedBinary}, dibs...), " "), env.String(), w.path("dibs.log"), more))
	b := &booted{world: w, group: filepath.Join(cgroup.Parent(), "dibs-e2e-"+strings.ToLower(rand.Text()))}
	if err := os.Mkdir(b.group, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		eventually(w.t, patience, func() bool { return cgroup.Remove(b.group) == nil }, func() string { return "the control group " + b.group + " is empty" })
	})
	// Cleanups come in reverse: by then everything in the namespace was killed with its first process.
	p := w.start(exec.Command("sh", "-c", `echo $$ > "$0"/cgroup.procs; exec unshare --fork --kill-child --pid --mount --uts --ipc --cgroup --mount-proc sh -c "$@"`,
		b.group, bootScript, "boot", w.dir, systemd))
	eventually(w.t, patience, func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Process.Pid))
		b.init = strings.TrimSpace(string(children))
		return b.init != "" && b.inside("systemctl", "is-system-running") == "running"
	}, p.String)
	b.inside("systemctl", "start", "app.service")
	return b
}

// systemdHere finds systemd's binary, or says why none can be booted.
var systemdHere = sync.OnceValues(func() (binary, why string) {
	if os.Geteuid() != 0 {
		return "", "root is needed to boot one"
	}
	for _, tool := range []string{"unshare", "nsenter", "setpriv", "systemctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err.Error()
		}
	}
	if !cgroup.Usable(cgroup.Parent()) {
		return "", "there is no cgroup2 in which groups can be made"
	}
	for _, binary := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(binary); err == nil {
			return binary, ""
		}
	}
	return "", "there is no systemd"
})

// inside runs a command in the namespaces, and returns what it prints.
func (b *booted) inside(args ...string) string {
	out, _ := exec.Command("nsenter", append([]string{"-t", b.init, "-m", "-p", "-u", "-i", "-C", "--"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out))
}

// said is dibs's own log.
func (b *booted) said() string {
	text, _ := os.ReadFile(b.path("dibs.log"))
	return string(text)
}

func (b *booted) says(text string) {
	b.t.Helper()
	eventually(b.t, patience, func() bool { return strings.Contains(b.said(), text) }, func() string { return text + " is said in\n" + b.said() })
}

// state is a property of a unit.
func (b *booted) state(unit, property string) string {
	return b.inside("systemctl", "show", "-P", property, unit)
}

// ended waits until the service has ended.
func (b *booted) ended() {
	b.t.Helper()
	eventually(b.t, patience, func() bool {
		s := b.state("app.service", "ActiveState")
		return s == "inactive" || s == "failed"
	}, func() string {
		return "the service has ended:\n" + b.inside("systemctl", "status", "app.service") + "\n" + b.said()
	})
}

// scopes lists the scopes of commands.
func (b *booted) scopes() []string {
	var names []string
	for line := range strings.Lines(b.inside("systemctl", "list-units", "--all", "--plain", "--no-legend", "dibs-*.scope")) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

// noScopes waits until all are gone, and their control groups.
func (b *booted) noScopes() {
	b.t.Helper()
	var left []string
	eventually(b.t, patience, func() bool {
		left, _ = filepath.Glob(b.group + "/system.slice/dibs-*")
		left = append(left, b.scopes()...)
		return len(left) == 0
	}, func() string { return fmt.Sprintf("no scope is left: %q", left) })
}

// scopeOf is the only scope that is there, which is named for a job.
func (b *booted) scopeOf(job string) string {
	b.t.Helper()
	var all []string
	// That of the trial at the start may still be about to go.
	eventually(b.t, patience, func() bool { all = b.scopes(); return len(all) == 1 }, func() string { return fmt.Sprintf("one scope: %q\n%s", all, b.said()) })
	if !strings.HasPrefix(all[0], "dibs-"+job+"-") {
		b.t.Errorf("the scope of %s is called %s", job, all[0])
	}
	return all[0]
}

// untouched checks that the work was not told to end.
func (b *booted) untouched(name string) {
	b.t.Helper()
	if told := which(heard(b.t, b.dir), "terminated", name); len(told) > 0 {
		b.t.Errorf("systemd told the work to end:\n%s\n%s", b.log(), b.said())
	}
}

// The stop of a service with systemd's usual KillMode is a stop of dibs alone: its job ends within the drain.
// Holds: promise 15.
func TestAServiceOfSystemdDrains(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot("", "serve", w.manifest("job", "@every 2s", "", "job", work{Until: w.path("go")}), "--drain", "4m")
	s := w.hears(patience, 1, "start", "job")[0]
	scope := b.scopeOf("app.job")
	if about := b.state(scope, "Description"); about != "dibs: app.job, run "+s.Env["DIBS_RUN_ID"] {
		t.Errorf("the scope is described as %q", about)
	}
	b.inside("systemctl", "stop", "--no-block", "app.service")
	b.says("event=draining")
	w.create("go")
	b.ended()
	b.untouched("job")
	if e := w.tickOf("app/job", s); e.Outcome != "succeeded" {
		t.Errorf("history has %+v\n%s", e, b.said())
	}
	b.noScopes()
}

// So it is when the whole host goes down: a scope is stopped after the service.
// Holds: promise 15.
func TestAHostThatGoesDownDrains(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot("", "serve", w.manifest("job", "@every 2s", "", "job", work{Until: w.path("go")}), "--drain", "4m")
	s := w.hears(patience, 1, "start", "job")[0]
	scope := b.scopeOf("app.job")
	b.inside("systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "shutdown.target")
	b.says("event=draining")
	if jobs := b.inside("systemctl", "list-jobs"); !strings.Contains(jobs, scope) {
		t.Errorf("the scope is not about to be stopped:\n%s", jobs)
	}
	w.create("go")
	b.ended()
	b.untouched("job")
	if e := w.tickOf("app/job", s); e.Outcome != "succeeded" {
		t.Errorf("history has %+v\n%s", e, b.said())
	}
}

// A dibs that is killed takes its command with it, in whatever scope that is, and on_crash applies: the tick
// has crashed, and is not taken for one that failed.
// Holds: promise 15.
func TestAServiceOfSystemdIsKilled(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot("", "serve", w.manifest("job", "@every 4s", `{"on_crash": "skip", "leftovers": "kill", "stop_grace_seconds": 1}`, "job",
		work{Until: w.path("go"), Family: true, Deaf: true}))
	first := w.hears(patience, 1, "start", "job")[0]
	w.hears(patience, family-1, "born", "job")
	b.scopeOf("app.job")
	b.inside("systemctl", "kill", "--signal=KILL", "--kill-who=main", "app.service")
	b.ended()
	b.noScopes() // so nobody of it lives
	w.create("go")
	b.inside("systemctl", "reset-failed", "app.service")
	b.inside("systemctl", "start", "app.service")
	w.hears(patience, 2, "start", "job")
	var e entry
	eventually(t, patience, func() bool { e = w.tickOf("app/job", first); return e.Outcome == "crashed" }, func() string { return fmt.Sprintf("history has %+v\n%s", e, b.said()) })
	w.noOverlap()
	b.inside("systemctl", "stop", "app.service")
	b.noScopes()
}

// A worker drains as a server does.
// Holds: promise 15.
func TestAWorkerOfSystemdDrains(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.must("task", "enqueue", "k")
	command := w.work("task", work{Until: w.path("go")})
	script := w.write("task.sh", "exec "+command[0]+" "+command[1]+" '"+command[2]+"'\n")
	b := w.boot("", "work", "default", "--grace", "4m", "--", "/bin/sh", script)
	w.hears(patience, 1, "start", "task")
	b.scopeOf("default.k")
	b.inside("systemctl", "stop", "--no-block", "app.service")
	eventually(t, patience, func() bool { return b.state("app.service", "ActiveState") == "deactivating" }, b.said)
	w.create("go")
	b.ended()
	b.untouched("task")
	if all := w.tasks("--state", "succeeded"); len(all) != 1 {
		t.Errorf("tasks: %+v\n%s", w.tasks(), b.said())
	}
	b.noScopes()
}

// A unit's bounds and fences by its control group hold in the scopes too.
// Holds: promise 15.
func TestAScopeInheritsWhatTheUnitKeepsIn(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot(`TasksMax=321
MemoryMax=1G
MemorySwapMax=0
CPUQuota=50%
CPUWeight=idle
AllowedCPUs=0
IOReadBandwidthMax=/dev/null 5M
DevicePolicy=closed
DeviceAllow=/dev/null rw
DeviceAllow=char-pts r
IPAddressDeny=any
IPAddressAllow=localhost
SocketBindDeny=ipv4:tcp:1-1000
RestrictNetworkInterfaces=~eth7
Slice=app-jobs.slice
`, "serve", w.manifest("job", "@every 2s", "", "job", work{Until: w.path("go")}))
	w.hears(patience, 1, "start", "job")
	scope := b.scopeOf("app.job")
	for _, p := range []string{"TasksMax", "MemoryMax", "MemorySwapMax", "CPUQuotaPerSecUSec", "CPUWeight", "AllowedCPUs", "IOReadBandwidthMax", "DevicePolicy", "DeviceAllow", "IPAddressDeny",
		"IPAddressAllow", "SocketBindDeny", "RestrictNetworkInterfaces", "Slice"} {
		want, got := strings.Fields(b.state("app.service", p)), strings.Fields(b.state(scope, p))
		slices.Sort(want) // lists are turned round each time that systemd is told them
		slices.Sort(got)
		if !slices.Equal(want, got) || len(got) == 0 {
			t.Errorf("the service has %s=%q, and the scope %q", p, want, got)
		}
	}
	w.create("go")
	b.inside("systemctl", "stop", "app.service")
}

// A systemd that does not answer keeps no job from starting, and is asked again.
func TestASystemdThatDoesNotAnswerKeepsNoJob(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot("", "serve", w.manifest("job", "@every 2s", "", "job", work{}))
	b.says("event=scopes")
	n := len(w.hears(patience, 1, "end", "job"))
	pid, err := strconv.Atoi(b.init)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	w.hears(patience, n+2, "end", "job") // one was under way
	b.says("event=scope-failed")
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.says("event=scope-resumed")
	b.inside("systemctl", "stop", "app.service")
	b.noScopes()
	for _, e := range w.history("app/job") {
		if len(e.Runs) > 0 && e.Outcome != "succeeded" {
			t.Errorf("history has %+v\n%s", e, b.said())
		}
	}
}

// A user who may not ask the system's manager is told so once, with the cure, and its jobs run.
func TestAServiceOfAUserIsWarned(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	// A command that anybody may execute: this test's own program lies where the user may not go.
	m := w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": "job", "schedule": "@every 2s",
		"command": {"shell": "echo ran >> %s"}, "policy": {"concurrency_scope": "host"}}]}`, w.path("ran")))
	if os.Geteuid() == 0 { // else boot skips the test
		w.as(&syscall.Credential{Uid: 65534, Gid: 65534})
	}
	b := w.boot("User=65534\nGroup=65534\n", "serve", m)
	eventually(t, patience, func() bool {
		ran, _ := os.ReadFile(w.path("ran"))
		return strings.Count(string(ran), "ran") > 1
	}, func() string { return "the job has run twice:\n" + b.said() })
	if said := b.said(); strings.Count(said, "event=unit-kill-mode") != 1 || !strings.Contains(said, "systemctl edit app.service") {
		t.Error(said)
	}
	if some := b.scopes(); len(some) > 0 {
		t.Errorf("scopes: %q", some)
	}
	b.inside("systemctl", "stop", "app.service")
}

// A unit that says mixed needs no scopes, and gets none.
func TestAServiceThatIsStoppedAloneNeedsNoScope(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	b := w.boot("KillMode=mixed\n", "serve", w.manifest("job", "@every 2s", "", "job", work{Until: w.path("go")}), "--drain", "4m")
	s := w.hears(patience, 1, "start", "job")[0]
	if some := b.scopes(); len(some) > 0 {
		t.Errorf("scopes: %q", some)
	}
	b.inside("systemctl", "stop", "--no-block", "app.service")
	b.says("event=draining")
	w.create("go")
	b.ended()
	b.untouched("job")
	if e := w.tickOf("app/job", s); e.Outcome != "succeeded" {
		t.Errorf("history has %+v\n%s", e, b.said())
	}
	if strings.Contains(b.said(), "unit-kill-mode") {
		t.Error(b.said())
	}
}
