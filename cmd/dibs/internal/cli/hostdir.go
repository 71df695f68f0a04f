package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hostDir is the embedded directory: this host's own (rule H1); "" where there is none.
func hostDir() string {
	dir, _ := hostPlace()
	return dir
}

// hostPlace is hostDir, with the reason why there is none.
func hostPlace() (string, error) { return placeOf(os.Geteuid()) }

func placeOf(uid int) (string, error) {
	if dir := os.Getenv("DIBS_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if uid == 0 {
		return "/var/lib/dibs", nil
	}
	home, err := homeOf(uid)
	if err != nil {
		return "", fmt.Errorf("%w, so there is no place for this host's own locks: name a directory with DIBS_DIR, the same for all that this user runs", err)
	}
	return filepath.Join(home, ".local", "state", "dibs"), nil
}

// passwd is the file of users.
var passwd = "/etc/passwd"

// homeOf is a user's home directory by the host's users, whatever HOME and XDG_STATE_HOME say: cron, supervisors and
// shells set them differently, and two processes of one user must find the same locks.
func homeOf(uid int) (string, error) {
	id := strconv.Itoa(uid)
	if runtime.GOOS != "linux" {
		u, err := user.LookupId(id)
		if err != nil {
			return "", err
		}
		return u.HomeDir, nil
	}
	text, _ := os.ReadFile(passwd)
	home, ok := homeIn(string(text), id)
	if !ok {
		home, ok = homeIn(serviced(), id)
	}
	if info, err := os.Stat(home); !ok || err != nil || !info.IsDir() {
		return "", fmt.Errorf("user %s has no home directory in %s", id, passwd)
	}
	return home, nil
}

// serviced is what a directory service says of this user: those users are not in the file.
var serviced = sync.OnceValue(func() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "getent", "passwd", strconv.Itoa(os.Geteuid())).Output()
	return string(out)
})

// homeIn finds a user's home directory in lines of passwd(5).
func homeIn(text, id string) (home string, ok bool) {
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimRight(line, "\n"), ":"); len(f) >= 7 && f[2] == id {
			return f[5], filepath.IsAbs(f[5])
		}
	}
	return "", false
}
