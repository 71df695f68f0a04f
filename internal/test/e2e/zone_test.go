//go:build linux

package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// zoneFile is a compiled zone with one constant offset, in the first version of the format.
func zoneFile(offset time.Duration) string {
	b := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []uint32{0, 0, 0, 0, 1, 4} { // one type, and a name of four bytes
		b = binary.BigEndian.AppendUint32(b, count)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(offset/time.Second))
	return string(append(b, 0, 0, 'A', 'T', 'L', 0))
}

// zipped is an archive with one file, without compression.
func zipped(t *testing.T, name, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	if cerr := z.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return b.String()
}

// A zone vanishes from the host's database: the server that has it goes on, through a reload too; whoever reads
// the manifest anew refuses it, by name; and the other jobs' operators are not kept from looking.
func TestAZoneThatVanishes(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	// Package time looks there for zones that neither the host nor the program has.
	if err := os.MkdirAll(w.path("go/lib/time"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "GOROOT="+w.path("go"))
	zone := w.write("go/lib/time/zoneinfo.zip", zipped(t, "Atlantis/Capital", zoneFile(90*time.Minute)))
	m := w.manifest("job", "* * * * * *", "", "job", work{})
	plain, err := os.ReadFile(m)
	if err != nil {
		t.Fatal(err)
	}
	m = w.write("zoned.json", strings.Replace(string(plain), `"schedule":`, `"timezone": "Atlantis/Capital", "schedule":`, 1))
	server := w.serve(m)
	n := len(w.hears(patience, 2, "start", "job"))
	if err := os.Remove(zone); err != nil {
		t.Fatal(err)
	}
	server.signal(syscall.SIGHUP)
	eventually(t, patience, func() bool { return strings.Contains(server.stderr(), "event=reloaded") }, server.String)
	w.hears(patience, n+3, "start", "job")

	const want = `zone "Atlantis/Capital" is unknown`
	w.dibs("validate", m).exits(2, patience).says(want)
	w.serve(m).exits(2, patience).says(want)
	if told := w.must("job", "list"); !strings.Contains(told, "app/job") || !strings.Contains(told, "unreadable") {
		t.Errorf("dibs job list says\n%s", told)
	}
	w.must("job", "pause", "app/job", "--reason", "a test")
	stop(server)
}
