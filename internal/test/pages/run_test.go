//go:build linux

package pages

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/internal/test/testbin"
	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // cron's minute is waited for, and programs that are told to end
	code := testdirs.Run(m)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// built is the folder of the dibs that the tests built.
var built string

// theAddress is the one of a store that the pages show. It is all that the tests change in them: they put the address
// of a test's server in its place.
const theAddress = "mysql://app:secret@db/app"

// notRun is how many blocks of each page cannot be run: installing builds packages, which takes minutes, and changes
// the host; no cluster is at hand. A page without a line here has none.
var notRun = map[string]int{"README.md": 4, "cronix.md": 1, "deploy.md": 1, "go.md": 1, "install.md": 7}

// interpreters are what the hosts need for a page's application.
var interpreters = map[string]string{"node.md": "/usr/bin/node", "python.md": "/usr/bin/python3", "php.md": "/usr/bin/php"}

// patience ends the waiting of a test that fails. cron needs up to a minute, and a busy machine a while.
const patience = 7 * time.Minute

// Each block of the README, of the first steps and of the page for users of cronix does what the page says.
func TestPages(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, "docs/first-steps/*.md"))
	if err != nil || len(paths) < 3 {
		t.Fatal(paths, err)
	}
	for _, path := range append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "docs/how-to/cronix.md")) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			testPage(t, path)
		})
	}
}

func testPage(t *testing.T, path string) {
	room.For(t)
	page := read(t, path)
	blocks, err := Blocks(page)
	if err != nil {
		t.Fatal(err)
	}
	steps, skipped, err := Steps(blocks)
	if err != nil {
		t.Fatal(err)
	}
	if want := notRun[filepath.Base(path)]; skipped != want {
		t.Errorf("the page says not to run %d of its blocks: want %d", skipped, want)
	}
	without(t, os.Geteuid() != 0, "the pages' hosts, which need root")
	for _, tool := range []string{"unshare", "chroot", "ip"} {
		_, err := exec.LookPath(tool)
		without(t, err != nil, tool+", for the pages' hosts")
	}
	if program, ok := interpreters[filepath.Base(path)]; ok {
		_, err := os.Stat(program)
		without(t, err != nil, program)
	}
	f := newFleet(t, page)
	hosts := 1
	for _, s := range steps {
		if s.Cron {
			_, err := exec.LookPath("cron")
			without(t, err != nil, "cron, for the pages' crontabs")
			hosts = 3
		}
	}
	f.run(steps, hosts)
	for _, s := range steps {
		got, err := os.ReadFile(filepath.Join(f.dir, "web-1", "page", fmt.Sprintf("out.%d", s.Line)))
		if err != nil {
			t.Errorf("line %d was not run: %v", s.Line, err)
		} else if s.Wants != "" && Normal(string(got)) != Normal(s.Wants) {
			t.Errorf("line %d: %sprints\n%s\nand the page shows\n%s", s.Line, s.Script, Normal(string(got)), Normal(s.Wants))
		}
	}
	if hosts == 3 {
		f.onceEach()
	}
}

// A fleet is the hosts of a page.
type fleet struct {
	t           *testing.T
	dir, shared string
	address     string
	net         string
	mutex       sync.Mutex
	ended       []string
}

func newFleet(t *testing.T, page string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), net: "own"}
	f.shared = filepath.Join(f.dir, "shared")
	if err := os.Mkdir(f.shared, 0o777); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page, theAddress) {
		u, err := url.Parse(testserver.MariaDB(t))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("namespace", "pages-"+strings.ToLower(rand.Text()))
		q.Set("reach", "fleet") // the hosts have this machine's network, so its loopback is one for all of them
		u.RawQuery = q.Encode()
		f.address, f.net = u.String(), "shared"
	}
	return f
}

// helpers are programs of the hosts: a dibs that notes how it ends, and stand-ins for the reader's own. On a machine
// that does much else the store may be late for one minute. cron then mails that, and the next minute is another try.
// Nor is a job free there each time that a reader wants to see it run: that is status 4, and tried again as well.
var helpers = map[string]string{
	"dibs": "#!/bin/sh\nif [ \"$1 $2\" = 'job trigger' ]; then\n" +
		"while said=$(/usr/local/bin/dibs-itself \"$@\" 2>&1); status=$?; [ $status = 4 ]; do sleep 0.3; done\n" +
		"echo \"$said\"; exit $status\nfi\n" +
		"if [ \"$1\" != run ]; then exec /usr/local/bin/dibs-itself \"$@\"; fi\n" +
		"/usr/local/bin/dibs-itself \"$@\"\nstatus=$?\necho \"$(hostname) $status\" >> /shared/called\nexit $status\n",
	"php": "#!/bin/sh\ncase $1 in -*) exec /usr/bin/php \"$@\" ;; esac\n" +
		"echo \"$(hostname) $DIBS_TICK\" >> /shared/worked\n",
	"sendmail": "#!/bin/sh\nmail=$(cat)\ncase $mail in\n*'store is unavailable'*) echo late >> /shared/late ;;\n" +
		"*) echo \"$mail\" >> /shared/mail ;;\nesac\n",
}

// run runs the steps on the hosts, and fails the test where one of them does not get to the end.
func (f *fleet) run(steps []Step, hosts int) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range hosts {
		all.Go(func() { f.host(ctx, fmt.Sprintf("web-%d", i+1), Script(steps, i == 0), i == 0) })
	}
	go f.untilAllCalled(ctx, cancel, hosts)
	all.Wait()
	for _, s := range f.ended {
		f.t.Error(s)
	}
}

// untilAllCalled tells the hosts when cron has called dibs on each of them. If cron has something to mail, the line of
// the page is wrong, and dibs may never be called: that ends the hosts.
func (f *fleet) untilAllCalled(ctx context.Context, end func(), hosts int) {
	for ctx.Err() == nil {
		if mail, err := os.ReadFile(filepath.Join(f.shared, "mail")); err == nil && bytes.HasSuffix(mail, []byte("\n")) {
			end()
			return
		}
		called, _ := os.ReadFile(filepath.Join(f.shared, "called"))
		n := 0
		for i := range hosts {
			host := fmt.Sprintf("web-%d ", i+1)
			if bytes.Contains(called, []byte(host+"0\n")) || bytes.Contains(called, []byte(host+"75\n")) {
				n++
			}
		}
		if n == hosts {
			_ = os.WriteFile(filepath.Join(f.shared, "all-called"), nil, 0o644)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (f *fleet) host(ctx context.Context, name, script string, first bool) {
	dir := filepath.Join(f.dir, name)
	err := os.MkdirAll(filepath.Join(dir, "page"), 0o755)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "layer"), 0o755)
	}
	for file, text := range helpers {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "page", file), []byte(text), 0o755)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "page", "page.sh"), []byte(strings.ReplaceAll(script, theAddress, f.address)), 0o644)
	}
	if err != nil {
		f.fail(name, err.Error())
		return
	}
	args := []string{"--mount", "--pid", "--fork", "--uts", "--kill-child"}
	if f.net == "own" {
		args = append(args, "--net")
	}
	here, _ := filepath.Abs("host.sh")
	cmd := exec.CommandContext(ctx, "unshare", append(args, "bash", here, dir, name, binary(f.t), f.net, f.shared)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if first {
		_ = os.WriteFile(filepath.Join(f.shared, "done"), nil, 0o644)
	}
	if err != nil {
		at, _ := os.ReadFile(filepath.Join(dir, "page", "at"))
		said, _ := os.ReadFile(filepath.Join(dir, "page", "out."+strings.TrimSpace(string(at))))
		f.fail(name, fmt.Sprintf("line %s: %v\n%s%s", strings.TrimSpace(string(at)), err, said, out))
	}
}

func (f *fleet) fail(host, why string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.ended = append(f.ended, host+": "+why)
}

// onceEach: cron called on each host, one of them ran each tick, and nobody got a mail.
func (f *fleet) onceEach() {
	f.t.Helper()
	worked, _ := os.ReadFile(filepath.Join(f.shared, "worked"))
	called, _ := os.ReadFile(filepath.Join(f.shared, "called"))
	ticks := map[string]int{}
	for line := range strings.Lines(string(worked)) {
		_, tick, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ticks[tick]++; ticks[tick] > 1 {
			f.t.Errorf("the tick %q was worked %d times:\n%s", tick, ticks[tick], worked)
		}
	}
	for line := range strings.Lines(string(called)) {
		if _, status, _ := strings.Cut(strings.TrimSpace(line), " "); status != "0" && status != "75" && status != "69" {
			f.t.Errorf("dibs ended with status %s", status)
		}
	}
	if len(ticks) == 0 || !strings.Contains(string(called), " 0\n") {
		f.t.Errorf("nothing was worked; dibs was called\n%s", called)
	}
	if mail, err := os.ReadFile(filepath.Join(f.shared, "mail")); err == nil {
		f.t.Errorf("cron mailed\n%s", mail)
	}
}

// build builds dibs, once, in a folder that TestMain removes.
var build = sync.OnceValues(func() (string, error) {
	var err error
	if built, err = os.MkdirTemp("", "dibs-pages-"); err != nil {
		return "", err
	}
	return testbin.Dibs(built)
})

func binary(t *testing.T) string {
	path, err := build()
	if err != nil {
		t.Error(err)
	}
	return path
}

// without skips a test whose machine lacks something, and has make test list it.
func without(t *testing.T, lacks bool, what string) {
	t.Helper()
	if !lacks {
		return
	}
	uncovered.Skip(t, what, "not on this machine")
}
