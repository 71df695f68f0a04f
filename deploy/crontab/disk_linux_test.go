package crontab

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/deploy"
)

// A file system that is really full, and one that is read-only: the old file stays, and nothing else is there.
func TestSmallDisk(t *testing.T) {
	dir := folder(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8k,mode=755"); err != nil {
		t.Skipf("NOT COVERED: mounting a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	f := fileAt(t, dir, "table")
	old := "# mine\n" + strings.Repeat("#", 3000) + "\n"
	write(t, f.String(), old)
	var many []deploy.Entry
	for _, job := range strings.Fields("a b c d e f g h i j k l m n o p q r") {
		many = append(many, wanted(job, "0 7 * * *"))
	}
	if _, err := deploy.Apply(context.Background(), f, install(many...), ""); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 || read(t, f.String()) != old {
		t.Errorf("%v", names)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := deploy.Apply(context.Background(), f, install(many[0]), ""); !errors.Is(err, unix.EROFS) || read(t, f.String()) != old {
		t.Errorf("%v", err)
	}
}
