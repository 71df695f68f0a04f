package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/run"
)

func TestReportsGoOnlyWhereTheCallerPointed(t *testing.T) {
	dir := t.TempDir()
	ours, err := os.Create(filepath.Join(dir, "database")) // closed on exec, as all that Go opens
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	own := strconv.Itoa(int(ours.Fd()))
	for _, to := range []string{own, "/dev/fd/" + own, "/proc/self/fd/" + own, "-1", "99999", filepath.Join(dir, "none", "x"), dir, ours.Name() + "/x"} {
		if w, err := openReport(to); err == nil {
			w.Close()
			t.Errorf("%s is accepted", to)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	given := func(f *os.File) int {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 10) // without close-on-exec, as an inherited one
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	reading := given(r)
	defer unix.Close(reading)
	if _, err := openReport(strconv.Itoa(reading)); err == nil || !strings.Contains(err.Error(), "for writing") {
		t.Errorf("one for reading: %v", err)
	}
	fd := given(w)
	w.Close()
	to, err := openReport(strconv.Itoa(fd))
	if err != nil {
		t.Fatal(err)
	}
	// The number may mean something else by the time of the report.
	unix.Close(fd)
	if now, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, fd); err != nil || now != fd {
		t.Fatalf("descriptor %d instead of %d: %v", now, fd, err)
	}
	defer unix.Close(fd)
	rep := report{Key: "k", Outcome: run.Succeeded}
	if err := rep.write(t.Context(), to, 0); err != nil {
		t.Fatal(err)
	}
	to.Close()
	got, _ := io.ReadAll(r)
	if !bytes.HasPrefix(got, []byte(`{"key":"k","outcome":"succeeded"`)) || !bytes.HasSuffix(got, []byte("}\n")) {
		t.Errorf("%q", got)
	}
	if info, _ := ours.Stat(); info.Size() != 0 {
		t.Error("a file of ours was written to")
	}
}

func TestAReportsFileIsMadeAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.json")
	to, err := openReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("made before the end: %v", err)
	}
	if err := (report{Key: "k", Outcome: run.Succeeded}).write(t.Context(), to, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(b, []byte(`{"key":"k"`)) {
		t.Errorf("%q, %v", b, err)
	}
}

func TestCellsCannotForgeRows(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"a\nFORGED\tx", "\x1b[2Jé ü\u202e\xff\v"}, {"b", `back\slash 'quoted'`}}
	if err := (env{stdout: &out}).table("A B", rows); err != nil {
		t.Fatal(err)
	}
	want := `A             B
a\nFORGED\tx  \x1b[2Jé ü\u202e\xff\v
b             back\slash 'quoted'
`
	if got := out.String(); got != want {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// A report follows no link and waits for no pipe that another user may have put into its place: root may write it.
func TestAReportFollowsNobodysLink(t *testing.T) {
	dir := t.TempDir()
	other, own := filepath.Join(dir, "open"), filepath.Join(dir, "own")
	secret := filepath.Join(dir, "secret")
	err := errors.Join(os.Mkdir(other, 0o700), os.Chmod(other, 0o1777), os.Mkdir(own, 0o700), os.WriteFile(secret, []byte("secret"), 0o600),
		os.Symlink(secret, filepath.Join(other, "link")), os.Symlink(filepath.Join(dir, "made"), filepath.Join(other, "dangling")),
		unix.Mkfifo(filepath.Join(other, "pipe"), 0o666), os.Link(secret, filepath.Join(other, "hard")), os.Mkdir(filepath.Join(other, "sub"), 0o700),
		os.WriteFile(filepath.Join(other, "plain"), []byte("an older and longer one"), 0o644), os.Symlink(secret, filepath.Join(own, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "dangling", "pipe", "hard", "sub"} {
		if _, err := unopened(filepath.Join(other, name)).Write([]byte("{}\n")); err == nil {
			t.Errorf("%s: it was written", name)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the file behind the links: %q, %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "made")); err == nil {
		t.Error("a file was made behind a link")
	}
	for path, at := range map[string]string{"open/plain": "open/plain", "open/new": "open/new", "own/new": "own/new", "own/link": "secret"} {
		_, err := unopened(filepath.Join(dir, path)).Write([]byte("{}\n"))
		b, readErr := os.ReadFile(filepath.Join(dir, at))
		if err != nil || readErr != nil || string(b) != "{}\n" {
			t.Errorf("%s: %q, %v, %v", path, b, err, readErr)
		}
	}
}
