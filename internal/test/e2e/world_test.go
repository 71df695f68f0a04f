//go:build linux

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// A world is a store and a host for processes to meet in.
type world struct {
	t    *testing.T
	dir  string // for the log, manifests and results
	name string // of the store
	url  string // of the store
	ttl  time.Duration
	env  []string
	user *syscall.Credential // who runs dibs; nil: this process's user
}

const (
	// usualTTL is what people have, with the margins that a busy machine needs: those of a shorter one shrink.
	usualTTL = lease.DefaultTTL
	// longTTL shows that something does not wait for a lease to lapse: such a lease outlasts the patience of the test.
	longTTL = 5 * patience
)

// newWorld makes a world around a store's address, and prepares the store.
func newWorld(t *testing.T, store, address string, ttl time.Duration) *world {
	t.Helper()
	room.For(t)
	w := &world{t: t, dir: t.TempDir(), name: store, ttl: ttl}
	if store == "file" {
		address = "file://" + w.host()
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("ttl", ttl.String())
	q.Set("namespace", "e2e-"+strings.ToLower(rand.Text()))
	u.RawQuery = q.Encode()
	w.url = u.String()
	t.Cleanup(w.nothingLeft)
	w.must("init")
	return w
}

// as has a user run dibs from now on, to whom the world's directory belongs then. Nil: nothing changes.
func (w *world) as(user *syscall.Credential) {
	if user == nil {
		return
	}
	w.t.Helper()
	w.user = user
	err := os.Chmod(filepath.Dir(w.dir), 0o755) // the testing package's own
	if err == nil {
		err = filepath.WalkDir(w.dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// host is the embedded directory of the world's host.
func (w *world) host() string { return filepath.Join(w.dir, "host") }

// fileWorld is a world on the embedded directory.
func fileWorld(t *testing.T) *world { return newWorld(t, "file", "", usualTTL) }

// servers are the stores that are servers: one to share, and one of a test's own.
var servers = []struct {
	name   string
	shared func(testing.TB) string
	own    func(testing.TB, ...string) *testserver.Server
}{
	{"redis", testserver.Redis, testserver.StartRedis},
	{"postgres", testserver.Postgres, testserver.StartPostgres},
	{"mariadb", testserver.MariaDB, testserver.StartMariaDB},
}

// onEveryStore runs a test on each store, side by side.
func onEveryStore(t *testing.T, ttl time.Duration, test func(*testing.T, *world)) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		test(t, newWorld(t, "file", "", ttl))
	})
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, s.name, s.shared(t), ttl))
		})
	}
}

// onOwnServers runs a test on a server of its own of each kind, to hurt.
func onOwnServers(t *testing.T, ttl time.Duration, test func(*testing.T, *world, *testserver.Server)) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			own := s.own(t)
			test(t, newWorld(t, s.name, own.URL, ttl), own)
		})
	}
}

// environ is the environment of the world's processes; later settings win.
func (w *world) environ(more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TZ=UTC", "DIBS_DIR=" + w.host(), "DIBS_STORE=" + w.url}
	return append(append(env, w.env...), more...)
}

// work is a command whose log is the world's.
func (w *world) work(name string, some work) []string {
	some.Dir, some.Name = w.dir, name
	return some.args()
}

// path is a file in the world's directory.
func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// create makes an empty file, for a work that waits for it.
func (w *world) create(name string) { w.write(name, "") }

func (w *world) write(name, text string) string {
	w.t.Helper()
	// Renamed into place: whoever watches the file never sees half of it.
	if err := os.WriteFile(w.path(name+".new"), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.path(name+".new"), w.path(name)); err != nil {
		w.t.Fatal(err)
	}
	return w.path(name)
}

// hears waits until n entries of a kind are in the log.
func (w *world) hears(bound time.Duration, n int, what, name string) []said {
	w.t.Helper()
	var some []said
	eventually(w.t, bound, func() bool { some = which(heard(w.t, w.dir), what, name); return len(some) >= n },
		func() string { return fmt.Sprintf("%d × %s %s; the log has\n%s", n, name, what, w.log()) })
	return some
}

// worksWithFamily waits until a work and its family live, and returns their pids.
func (w *world) worksWithFamily(name string) (pids []int) {
	w.t.Helper()
	for _, s := range append(w.hears(patience, family-1, "born", name), w.hears(patience, 1, "start", name)...) {
		pids = append(pids, s.PID)
	}
	return pids
}

// gone waits until none of the processes lives, and returns when that was seen. None may be seen
// alive later than bound after from.
func (w *world) gone(from time.Time, bound time.Duration, pids []int) time.Time {
	w.t.Helper()
	for {
		looked := time.Now()
		var left []int
		for _, pid := range pids {
			if alive(pid) {
				left = append(left, pid)
			}
		}
		switch {
		case len(left) == 0:
			return time.Now()
		case looked.Sub(from) > bound:
			w.t.Fatalf("processes %v live after %s; they must be gone within %s; the log has\n%s", left, looked.Sub(from), bound, w.log())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// noOverlap checks what the observer saw.
func (w *world) noOverlap() {
	w.t.Helper()
	for _, s := range heard(w.t, w.dir) {
		if s.Overlap {
			w.t.Errorf("two held the key at once:\n%s", w.log())
			return
		}
	}
}

func (w *world) log() string {
	var b strings.Builder
	for _, s := range heard(w.t, w.dir) {
		fmt.Fprintln(&b, "  "+s.String())
	}
	return b.String()
}

// nothingLeft checks, once all that was started was killed, that no command outlived its dibs.
func (w *world) nothingLeft() {
	var left []string
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if left = mentioning(w.dir); len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			w.t.Errorf("left behind after the test: %v", left)
			return
		}
	}
}

// mentioning lists the processes with a text in their arguments.
func mentioning(text string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if bytes.Contains(b, []byte(text)) && pid != os.Getpid() && alive(pid) {
			found = append(found, fmt.Sprintf("%d %s", pid, bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// entry is what `dibs history -o json` says.
type entry struct {
	Job, Outcome, Reason string
	Tick                 *time.Time
	Count                int
	Inferred, Unsettled  bool
	Runs                 []struct {
		RunID                 string `json:"run_id"`
		Token                 int64
		Host, Outcome, Reason string
		Inferred              bool
		Started, Ended        time.Time
		Attempts              []struct {
			N       int
			Outcome string
			Status  int
		}
	}
}

func (w *world) history(args ...string) (all []entry) {
	w.t.Helper()
	w.recall(&all, args...)
	return all
}

// unheard is what history says of a name that is not registered yet, and of which nothing is on record.
const unheard = "no history and no registered job has that name"

// unprepared is what a command that reads says of a store that nobody has used yet.
const unprepared = "this store is not prepared"

// recall is dibs history as JSON: nothing, of a name that the store has not heard of yet.
func (w *world) recall(to any, args ...string) {
	w.t.Helper()
	p := w.dibs(append([]string{"history", "-n", "10000", "-o", "json"}, args...)...)
	if status := p.wait(patience); status == 1 && strings.Contains(p.stderr(), unheard) || status == 69 && strings.Contains(p.stderr(), unprepared) {
		return
	}
	p.exits(0, patience)
	if err := json.Unmarshal([]byte(p.stdout()), to); err != nil {
		w.t.Fatalf("dibs history %v: %v in %s", args, err, p.stdout())
	}
}

// event is what `dibs history --events -o json` says.
type event struct {
	Event, Key, Job, Reason string
	RunID                   string `json:"run_id"`
}

func (w *world) events(kind string) (some []event) {
	w.t.Helper()
	var all []event
	w.decode(&all, "history", "--events", "-n", "1000", "-o", "json")
	for _, e := range all {
		if e.Event == kind {
			some = append(some, e)
		}
	}
	return some
}

// leaseView is what `dibs lease show -o json` says.
type leaseView struct {
	Key, State string
	Token      int64
	Holder     struct {
		Host, Command string
		PID           int
		RunID         string `json:"run_id"`
	}
}

// holder waits until a key is held, and says by whom.
func (w *world) holder(key string) (v leaseView) {
	w.t.Helper()
	eventually(w.t, patience, func() bool {
		p := w.dibs("lease", "show", key, "-o", "json")
		return p.wait(patience) == 0 && json.Unmarshal([]byte(p.stdout()), &v) == nil && v.State == "held"
	}, func() string { return fmt.Sprintf("%s held: %+v", key, v) })
	return v
}

func (w *world) decode(to any, args ...string) {
	w.t.Helper()
	out := w.must(args...)
	if err := json.Unmarshal([]byte(out), to); err != nil {
		w.t.Fatalf("dibs %v: %v in %s", args, err, out)
	}
}

// halfMinutes is an expression with a tick at an instant, and every half a minute.
func halfMinutes(at time.Time) string {
	return fmt.Sprintf("%d,%d * * * * *", at.Second(), (at.Second()+30)%60)
}

// dueNow is an expression with a tick in the minute that has just begun: due for five minutes.
func dueNow() string {
	now := time.Now().UTC()
	return fmt.Sprintf("%d %d * * *", now.Minute(), now.Hour())
}
