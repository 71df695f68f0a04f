//go:build linux

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A damaged database in the embedded directory: said with its path and the cure, and not made worse.
func TestDamagedDirectory(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.run("before", nil, []string{"true"}).exits(0, patience)
	if all := w.history("before"); len(all) != 1 {
		t.Fatalf("history has %+v", all)
	}
	db := w.database()
	whole, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"garbage": bytes.Repeat([]byte("no database at all "), 2000), "cut": whole[:len(whole)/2]} {
		// Neither a journal nor a reader of before may be left to heal it.
		for _, more := range []string{"-wal", "-shm"} {
			if err := os.Remove(db + more); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(db, text, 0o600); err != nil {
			t.Fatal(err)
		}
		p := w.dibs("history")
		if status := p.wait(patience); status == 0 || status > 127 {
			t.Errorf("%s: exit status %d: %s", name, status, p)
		}
		p.says(db, "damaged")
		// A tick needs the database: nothing is started.
		p = w.run("tick", []string{"--once-per", dueNow()}, w.work("tick", work{})).exits(69, patience).says(db, "damaged")
		if n := len(heard(t, w.dir)); n > 0 {
			t.Errorf("%s: started: %s", name, p)
		}
		if now, err := os.ReadFile(db); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s: the damaged file was changed, %v", name, err)
		}
		// A lock does not: the kernel decides, and the outcome waits in the journal.
		w.run("meanwhile "+name, nil, []string{"true"}).exits(0, patience)
	}
	if err := os.WriteFile(db, whole, 0o600); err != nil { // the cure: a copy put back
		t.Fatal(err)
	}
	for _, key := range []string{"before", "meanwhile garbage", "meanwhile cut"} {
		if all := w.history(key); len(all) != 1 || all[0].Outcome != "succeeded" {
			t.Errorf("history of %q has %+v", key, all)
		}
	}
}

// database finds the SQLite file of the world's directory.
func (w *world) database() (path string) {
	w.t.Helper()
	err := filepath.WalkDir(w.host(), func(at string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		head := make([]byte, 16)
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		if n, _ := f.Read(head); string(head[:n]) == "SQLite format 3\x00" {
			path = at
		}
		return nil
	})
	if err != nil || path == "" {
		w.t.Fatalf("no database in %s: %v", w.host(), err)
	}
	return path
}

// A full disk: said with the path, nothing lost that was recorded, and all is well once there is room.
func TestFullDirectory(t *testing.T) {
	notCovered(t, os.Geteuid() != 0, "a full embedded directory", "root is needed to mount a small file system")
	t.Parallel()
	w := fileWorld(t)
	if err := os.RemoveAll(w.host()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.host(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("dibs-e2e", w.host(), "tmpfs", 0, "size=1m,mode=700"); err != nil {
		notCovered(t, true, "a full embedded directory", err.Error())
	}
	// In its own turn: before the directory is removed, after all processes are gone.
	t.Cleanup(func() {
		if err := syscall.Unmount(w.host(), syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", w.host(), err)
		}
	})
	w.must("init")
	recorded := map[string]string{} // run id to outcome
	for range 3 {
		p := w.run("k", nil, []string{"true"}).exits(0, patience)
		recorded[p.result().RunID] = "succeeded"
	}
	running := w.run("running", nil, w.work("running", work{Until: w.path("go")}))
	w.hears(patience, 1, "start", "running")
	w.fill()

	p := w.run("new", []string{"--once-per", dueNow()}, w.work("new", work{})).exits(69, patience).says(w.host())
	if !strings.Contains(p.stderr(), "full") && !strings.Contains(p.stderr(), "no space") {
		t.Errorf("does not say what is wrong: %s", p)
	}
	if n := len(which(heard(t, w.dir), "start", "new")); n > 0 {
		t.Errorf("started: %s", p)
	}
	// One that runs goes on, and holds its key.
	w.run("running", nil, []string{"true"}).exits(75, patience)
	w.create("go")
	running.exits(0, patience)

	if err := os.Remove(filepath.Join(w.host(), "ballast")); err != nil {
		t.Fatal(err)
	}
	p = w.run("k", nil, []string{"true"}).exits(0, patience)
	recorded[p.result().RunID] = "succeeded"
	for id, outcome := range recorded {
		w.recorded("k", id, outcome)
	}
	t.Logf("of the run that ended on the full disk, history has %+v", w.history("running"))
	w.run("new", []string{"--once-per", dueNow()}, w.work("new", work{})).exits(0, patience)
}

// fill leaves no byte free in the world's directory.
func (w *world) fill() {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.host(), "ballast"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
