//go:build linux

package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// games is a group, and member a user of it, who are nobody else's.
const (
	gamesGroup = 60
	member     = 5
)

// attackerEnv makes this test binary plant something, as a member of the group.
const attackerEnv = "DIBS_TEST_PLANT"

// plant is the attacker's script: it puts something in the place of a file, by the means of who may
// write to the directory. secret is a file that it cannot read or write.
func plant(kind, path, secret string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	switch kind {
	case "link to a file":
		return os.Symlink(secret, path)
	case "link to nothing":
		return os.Symlink(secret+"-made", path)
	case "link to a directory":
		return os.Symlink(filepath.Dir(secret), path)
	case "fifo":
		return unix.Mkfifo(path, 0o666)
	case "directory":
		return os.Mkdir(path, 0o777)
	case "open to all":
		if err := os.WriteFile(path, []byte("{}\n"), 0o666); err != nil {
			return err
		}
		return os.Chmod(path, 0o666)
	case "huge":
		if err := os.WriteFile(path, nil, 0o660); err != nil {
			return err
		}
		return errors.Join(os.Chmod(path, 0o660), os.Truncate(path, 1<<40))
	}
	return fmt.Errorf("%q is no way to plant", kind)
}

var plants = []string{"link to a file", "link to nothing", "link to a directory", "fifo", "directory", "open to all", "huge", "hard link"}

// asMember plants as the member of the group; a hard link, which the kernel keeps from it where it
// protects them, is made for it.
func asMember(t *testing.T, kind, path, secret string) {
	t.Helper()
	if kind == "hard link" {
		if err := errors.Join(os.RemoveAll(path), os.Link(secret, path)); err != nil {
			t.Fatal(err)
		}
		return
	}
	c := exec.Command("/proc/self/exe")
	c.Env = []string{attackerEnv + "=" + strings.Join([]string{kind, path, secret}, "\n")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: member, Gid: gamesGroup}}
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("plant %s at %s: %v: %s", kind, path, err, b)
	}
}

// everything does what dibs does in a directory: leases, requests, breaks, runs with and without a tick,
// the import of the journal, history, tasks. Errors are expected, and no matter here.
func everything(path string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := configAt(path, true)
	s, err := OpenConfig(ctx, c)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	for _, key := range []lease.Key{"k", "torn"} {
		r, err := s.Leases.Acquire(ctx, []lease.AcquireRequest{requestFor(key, lease.DefaultTTL)})
		if err != nil || r.Answers[0].Status != lease.OK {
			continue
		}
		ref := r.Answers[0].Record.Ref()
		id := run.NewID()
		_ = beginRun(s, ref, id)
		_, _ = s.Leases.RequestRelease(ctx, ref, lease.Holder{ID: lease.NewNonce(), Host: "h", PID: 1})
		_, _ = s.Leases.Break(ctx, ref, lease.Broken{By: "somebody"})
		_, _ = s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
		_, _ = s.Ticks.Close(ctx, []tick.CloseRequest{{Run: run.Record{ID: id, Owner: ref.Owner, Token: ref.Token, Outcome: run.Succeeded}, Release: ref}})
		_, _ = s.Leases.Release(ctx, []lease.Ref{ref})
	}
	_, _ = s.Leases.List(ctx, "", true)
	_, _ = s.Leases.Read(ctx, []lease.Key{"k"})
	_ = s.History.Append(ctx, []history.Event{{Kind: "test"}})
	_, _ = s.History.Runs(ctx, history.Query{Limit: 10})
	_, _ = s.Leases.Break(ctx, lease.Ref{Key: "torn"}, lease.Broken{By: "somebody", Now: true})
}

// sharedDir is a directory of root's that a group shares, as docs/how-to/operations.md sets one up. The secret beside
// it has the group's id, but its mode gives the group nothing: only what it is and where says that it
// is not dibs's.
func sharedDir(t *testing.T) (path, secret string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can act as another user")
	}
	top := t.TempDir()
	for _, d := range []string{filepath.Dir(top), top} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, secret = filepath.Join(top, "dibs"), filepath.Join(top, "roots", "secret")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 0, gamesGroup), os.Chmod(path, 0o2770),
		os.Mkdir(filepath.Dir(secret), 0o700), os.WriteFile(secret, []byte("root's own, and not JSON\n"), 0o600),
		os.Chown(secret, 0, gamesGroup)); err != nil {
		t.Fatal(err)
	}
	return path, secret
}

// names are all that dibs makes in a directory: those that are there after it did everything, and those
// that are there for a moment only.
func names(t *testing.T, path string) []string {
	t.Helper()
	s := openAt(t, path)
	everything(path)
	ns := filepath.Join("ns", "dibs")
	found := map[string]bool{
		filepath.Join(ns, badName): true, filepath.Join(ns, journalName): true, filepath.Join(ns, "journal-x.jsonl"): true, filepath.Join(ns, lockName): true,
		filepath.Join(ns, leasesName, lockFile("k")): true, filepath.Join(ns, leasesName, lockFile("k")+requestSuffix): true,
	}
	for _, name := range databaseNames {
		found[filepath.Join(ns, name)] = true
	}
	err := filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(path, p); rel != "." {
			found[rel] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	var all []string
	for name := range found {
		all = append(all, name)
	}
	return all
}

// state is all that is beside the directory: names, modes, owners and contents.
func state(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		var sum [32]byte
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(text)
		}
		fmt.Fprintf(&b, "%s %o %d:%d %s\n", p, st.Mode, st.Uid, st.Gid, hex.EncodeToString(sum[:8]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Fault: a member of the group that shares a directory had root write, make and widen files anywhere. Here
// each name that dibs makes is planted in each way, and then root's dibs does all that it does:
// nothing outside changes, nothing hangs, and nothing of root's is read into the directory.
// Holds: promise 28.
func TestNothingThatAMemberPlantsIsFollowed(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	path, secret := sharedDir(t)
	all := names(t, path)
	for _, name := range all {
		for _, kind := range plants {
			fresh(t, path)
			at := filepath.Join(path, name)
			if _, err := os.Lstat(filepath.Dir(at)); err != nil {
				continue // its directory is made only later
			}
			asMember(t, kind, at, secret)
			before := state(t, filepath.Dir(secret))
			done := make(chan struct{})
			go func() { everything(path); close(done) }()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatalf("%s at %s: it hangs", kind, name)
			}
			if after := state(t, filepath.Dir(secret)); after != before {
				t.Fatalf("%s at %s: outside there is now\n%s\nand was\n%s", kind, name, after, before)
			}
			quoted(t, kind, name, path)
		}
	}
}

// fresh makes the directory anew, as it is in use.
func fresh(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenConfig(context.Background(), configAt(path, true))
	if err != nil {
		t.Fatal(err)
	}
	ref := granted(t, s, "k")
	if _, err := s.Leases.Release(context.Background(), []lease.Ref{ref}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

// quoted looks whether the secret came into a file that the group reads.
func quoted(t *testing.T, kind, name, path string) {
	t.Helper()
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err != nil || info.Size() > 16<<20 || info.Sys().(*syscall.Stat_t).Nlink > 1 {
			return nil
		}
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("root's own")) {
			t.Errorf("%s at %s: %s quotes what root alone may read", kind, name, p)
		}
		return nil
	})
}

// What is refused says what it is, and what to do.
func TestWhatIsPlantedIsNamed(t *testing.T) {
	path, secret := sharedDir(t)
	fresh(t, path)
	s := openAt(t, path)
	at := inside(s).leases.lockPath("k")
	asMember(t, "link to a file", at, secret)
	_, err := tryAcquire(s, requestFor("k", lease.DefaultTTL))
	wantFault(t, "Acquire", err, at, "symbolic link")
}

// The owner of a directory decides whether root uses it.
// Holds: promise 28.
func TestADirectorysOwnerDecidesWhoSharesIt(t *testing.T) {
	path, _ := sharedDir(t)
	if err := os.Chown(path, member, gamesGroup); err != nil {
		t.Fatal(err)
	}
	_, err := OpenConfig(t.Context(), configAt(path, true))
	wantFault(t, "of another user", err, path, "chown root")

	link := filepath.Join(filepath.Dir(path), "link")
	if err := errors.Join(os.Chown(path, 0, gamesGroup), os.Symlink(path, link), os.Lchown(link, member, member)); err != nil {
		t.Fatal(err)
	}
	_, err = OpenConfig(t.Context(), configAt(link, true))
	wantFault(t, "by another user's link", err, link, "symbolic link of user")
	if err := os.Lchown(link, 0, 0); err != nil {
		t.Fatal(err)
	}
	openAt(t, link)
}

// Members and root use a shared directory together, whoever makes a file first.
func TestAGroupSharesADirectory(t *testing.T) {
	path, _ := sharedDir(t)
	for i, as := range []uint32{member, 0, member, 7} {
		c := exec.Command("/proc/self/exe", path)
		c.Env = []string{roleEnv + "=share"}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as, Gid: gamesGroup}}
		if b, err := c.CombinedOutput(); err != nil || !strings.Contains(string(b), "shared") {
			t.Errorf("user %d, process %d: %v: %s", as, i, err, b)
		}
	}
}

// roleShare uses all of it.
func roleShare(s *store.Store) error {
	ctx := context.Background()
	a, err := tryAcquire(s, requestFor("k", lease.DefaultTTL))
	if err != nil || a.Status != lease.OK {
		return fmt.Errorf("acquire: %v %w", a.Status, err)
	}
	ref, id := a.Record.Ref(), run.NewID()
	if err := beginRun(s, ref, id); err != nil {
		return err
	}
	if _, err := s.Leases.RequestRelease(ctx, ref, lease.Holder{ID: lease.NewNonce(), Host: "h", PID: 1}); err != nil {
		return err
	}
	if _, err := s.Ticks.Close(ctx, []tick.CloseRequest{{Run: run.Record{ID: id, Owner: ref.Owner, Token: ref.Token, Outcome: run.Succeeded}, Release: ref}}); err != nil {
		return err
	}
	runs, err := s.History.Runs(ctx, history.Query{Limit: 100})
	if err != nil || len(runs) == 0 {
		return fmt.Errorf("history: %d runs, %w", len(runs), err)
	}
	fmt.Println("shared")
	return nil
}
