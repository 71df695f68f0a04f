//go:build linux

package file

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// wantFault checks that an error is the store's, names the path and says what to do.
func wantFault(t *testing.T, what string, err error, path, cure string) {
	t.Helper()
	if !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), cure) {
		t.Errorf("%s: %v; want lease.ErrUnavailable naming %s and %q", what, err, path, cure)
	}
}

// A damaged database is unavailable, with the cure, and is left as it is.
// Holds: promise 7.
func TestDamagedDatabase(t *testing.T) {
	s := openAt(t, t.TempDir())
	path := inside(s).path
	garbage := bytes.Repeat([]byte("not a database. "), 1000)
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	ref := granted(t, s, "k") // locks do not depend on it
	_, err := s.Ticks.Claim(context.Background(), []tick.ClaimRequest{{Job: "j", At: time.Now(), Lease: ref}})
	wantFault(t, "Claim", err, path, "the database is damaged")
	_, err = s.History.Runs(context.Background(), history.Query{})
	wantFault(t, "Runs", err, path, "move it aside")
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, garbage) {
		t.Errorf("it was changed: %v", err)
	}
	id := ran(t, s, "other")
	if err := os.Remove(path); err != nil { // the cure
		t.Fatal(err)
	}
	if runs := runsOf(t, s, id); len(runs) != 1 {
		t.Errorf("a run that ended meanwhile: %+v", runs)
	}
}

func TestDamagedIdentity(t *testing.T) {
	for _, name := range []string{"host.json", "ns/dibs/namespace.json"} {
		for _, text := range []string{"", "{", "{}"} {
			dir := t.TempDir()
			openAt(t, dir)
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenConfig(context.Background(), configAt(dir, false))
			wantFault(t, name+" with "+text, err, path, "put back a copy")
		}
	}
}

// A record that a loss of power damaged tells nothing, and keeps nobody from working.
func TestDamagedRecord(t *testing.T) {
	s := openAt(t, t.TempDir())
	first := granted(t, s, "k")
	if _, err := s.Leases.Release(context.Background(), []lease.Ref{first}); err != nil {
		t.Fatal(err)
	}
	path := inside(s).leases.lockPath("k")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[20] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Leases.List(context.Background(), "", true); err != nil || len(r.Answers) != 0 {
		t.Errorf("List: %+v, %v", r, err)
	}
	if next := granted(t, s, "k"); next.Token <= first.Token {
		t.Errorf("token %d after %d", next.Token, first.Token)
	}
}

// mounted is a small file system of its own, or the test is skipped.
func mounted(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("NOT COVERED: a full disk and a read-only one: this user cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// On a full disk leases are renewed, and what cannot be written is unavailable, with the cure.
// Holds: promise 7.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := mounted(t, "size=1m,mode=0700")
	s := openAt(t, dir)
	ref, old := granted(t, s, "k"), granted(t, s, "old")
	id := run.NewID()
	if err := beginRun(s, ref, id); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "filler")
	fill(t, full)

	if _, err := s.Leases.Renew(context.Background(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}}); err != nil {
		t.Errorf("Renew on a full disk: %v", err)
	}
	_, err := tryAcquire(s, requestFor("new", lease.DefaultTTL))
	wantFault(t, "Acquire", err, dir, "free some space")
	_, err = s.Ticks.Claim(context.Background(), []tick.ClaimRequest{{Job: "j", At: time.Now(), Lease: old}})
	wantFault(t, "Claim", err, dir, "full")
	wantFault(t, "Close", endRun(s, ref, id), dir, "free some space")
	if a := acquire(t, s, "k"); a.Status != lease.Held {
		t.Errorf("the lease of the run that could not be closed: %v", a.Status)
	}

	// A process that another test is just starting may have the file open: its name alone frees nothing.
	if err := errors.Join(os.Truncate(full, 0), os.Remove(full)); err != nil {
		t.Fatal(err)
	}
	if err := endRun(s, ref, id); err != nil {
		t.Error(err)
	}
	granted(t, s, "new")
	ran(t, s, "another")
	wantRuns(t, s, 2)
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := mounted(t, "size=1m,mode=0700")
	s := openAt(t, dir)
	granted(t, s, "k")
	if _, err := s.Leases.Release(context.Background(), []lease.Ref{granted(t, s, "free")}); err != nil {
		t.Fatal(err)
	}
	l := inside(s).leases
	l.mu.Lock()
	l.letGo(l.holds["k"]) // an open file would keep the file system writable
	l.mu.Unlock()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	again, err := OpenConfig(context.Background(), configAt(dir, false))
	if err != nil {
		t.Fatal(err)
	}
	_, err = tryAcquire(again, requestFor("k", lease.DefaultTTL))
	wantFault(t, "Acquire", err, dir, "read-only")
	if r, err := again.Leases.List(context.Background(), "", true); err != nil || len(r.Answers) != 2 {
		t.Errorf("List: %+v, %v", r, err)
	}
}

// Holds: promise 25.
func TestRefusedDirectories(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, cure := range map[string]string{open: "chmod o-w", file: "name one", file + "/below": "name a directory", "/proc/1/none": ""} {
		_, err := OpenConfig(context.Background(), configAt(path, true))
		wantFault(t, path, err, path, cure)
	}
	if _, err := os.Stat(filepath.Join(open, "host.json")); !os.IsNotExist(err) {
		t.Errorf("something was made in a refused directory: %v", err)
	}
}

// Holds: promise 25.
func TestSharedFileSystemIsRefused(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	magic := int64(uint32(st.Type))
	if name, ok := shared[magic]; ok {
		t.Skipf("NOT COVERED: the temporary directory is itself on %s", name)
	}
	shared[magic] = "NFS" // as if it were
	defer delete(shared, magic)
	_, err := OpenConfig(context.Background(), configAt(dir, true))
	wantFault(t, "Open", err, dir+" (NFS)", "local disk")
}

func TestExpectedElsewhere(t *testing.T) {
	c := configAt(filepath.Join(t.TempDir(), "d"), true)
	c.Expect = lease.NewNonce().String()
	if _, err := OpenConfig(context.Background(), c); err == nil || !strings.Contains(err.Error(), c.Expect) {
		t.Error(err)
	}
	if _, err := os.Stat(c.URL.Path); !os.IsNotExist(err) {
		t.Errorf("it was made all the same: %v", err)
	}
}

func TestRemovedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	s := openAt(t, dir)
	ref := granted(t, s, "k")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, err := tryAcquire(s, requestFor("new", lease.DefaultTTL))
	wantFault(t, "Acquire", err, dir, "was removed")

	// Somebody makes it anew while the old lock is held: grants wait, unless it is said to be new.
	again, err := OpenConfig(context.Background(), configAt(dir, false))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if a := acquire(t, again, "k"); a.Status != lease.HeldBack || !a.Until.Equal(again.Properties.HoldUntil) {
		t.Errorf("Acquire in the new directory: %v", a.Status)
	}
	if a := acquire(t, s, "new"); a.Status != lease.HeldBack {
		t.Errorf("Acquire by who opened the old one: %v", a.Status)
	}
	r, err := s.Leases.Renew(context.Background(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
	if err != nil || r.Answers[0].Status != lease.Gone {
		t.Errorf("Renew of the old hold: %+v, %v", r, err)
	}
	if fresh := openAt(t, dir); len(fresh.Prepared) == 0 {
		t.Error("init does not say that it ended the waiting")
	}
	granted(t, s, "k")
}

func TestOddPathsAndNamespaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a ?b#c%41 [d] 'e' é")
	for _, namespace := range []string{"dibs", "..", ".", "a/b", "../x", "%2E", "é"} {
		c := configAt(dir, true)
		c.Namespace = namespace
		s, err := OpenConfig(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := filepath.Dir(namespaceOf(s)); got != filepath.Join(dir, "ns") {
			t.Errorf("namespace %q is kept in %s", namespace, namespaceOf(s))
		}
		ran(t, s, "k")
		wantRuns(t, s, 1)
		if _, err := os.Stat(inside(s).path); err != nil {
			t.Error(err)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir)
	if err := s.History.Append(context.Background(), []history.Event{{Kind: "x"}}); err != nil {
		t.Fatal(err)
	}
	p, err := inside(s).open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.writer.Exec("INSERT INTO dibs_schema VALUES (99, 99)"); err != nil {
		t.Fatal(err)
	}
	_, err = openAt(t, dir).History.Events(context.Background(), history.Query{})
	wantFault(t, "Events", err, "dibs.db", "upgrade dibs on this host")
}
