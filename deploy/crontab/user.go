package crontab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/disk"
)

// patience is how long one call of crontab(1) may take.
const patience = 30 * time.Second

// A User is a user's crontab, read and written by crontab(1). It is safe for concurrent use.
type User struct {
	layout
	program string
	flags   []string
	home    string
	uid     int
}

var _ deploy.Target = (*User)(nil)

// NewUser returns the crontab of a user; an empty name is the user that runs this process. Only root may name
// another user. program is crontab(1); if it is empty, crontab is looked up in PATH.
func NewUser(name, program string, o Options) (*User, error) {
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	u := &User{layout: layout{Options: o, user: me.Username}, program: program, home: me.HomeDir, uid: os.Geteuid()}
	if program == "" {
		u.program = "crontab"
	}
	if name == "" || name == me.Username {
		return u, nil
	}
	who, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	u.layout.user, u.home, u.flags = who.Username, who.HomeDir, []string{"-u", who.Username}
	u.uid, err = strconv.Atoi(who.Uid)
	return u, err
}

// String names the crontab's user.
func (u *User) String() string { return "crontab of " + u.layout.user }

// Lock keeps out other applies to this table, of root and of the user.
func (u *User) Lock(ctx context.Context) (func(), error) {
	return disk.LockUser(ctx, u.layout.user, u.uid, u.home)
}

// Read runs `crontab -l`.
func (u *User) Read(ctx context.Context) (deploy.Image, error) {
	text, exists, err := u.list(ctx)
	if err != nil {
		return nil, err
	}
	return newImage(u.layout, u.String(), exists, text)
}

func (u *User) list(ctx context.Context) (text string, exists bool, err error) {
	out, complaint, err := u.run(ctx, "", "-l")
	var exit *exec.ExitError
	if errors.As(err, &exit) && out == "" && noTable(complaint) {
		return "", false, nil
	}
	return out, err == nil, err
}

// noTable reads what crontab(1) says where a user has none: Debian's and Red Hat's, and busybox's.
func noTable(complaint string) bool {
	return strings.Contains(complaint, "no crontab for") || strings.Contains(complaint, "can't open") && strings.Contains(complaint, "No such file")
}

// Write passes the text to `crontab -`, and checks that it is there now. A text that cron refuses changes nothing.
func (u *User) Write(ctx context.Context, from, to deploy.Image) error {
	was, is := from.Documents()[0], to.Documents()[0]
	text, exists, err := u.list(ctx)
	if err != nil {
		return err
	}
	if text != was.Text || exists != was.Exists {
		return fmt.Errorf("%w; nothing was written: plan again", deploy.ErrChanged)
	}
	arg := "-"
	if !is.Exists {
		arg = "-r"
	}
	if _, _, err := u.run(ctx, is.Text, arg); err != nil {
		return err
	}
	if text, exists, err = u.list(ctx); err != nil {
		return err
	}
	if text != is.Text || exists != is.Exists {
		return fmt.Errorf("%w: %s took the new table, and now lists another one; somebody saved it at the same moment, or another program changes it: look at it, and plan again", deploy.ErrChanged, u.program)
	}
	return nil
}

// limited keeps the first bytes, and fails behind them.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxSize {
		return 0, fmt.Errorf("more than %d bytes", maxSize)
	}
	return l.Buffer.Write(b)
}

func (u *User) run(ctx context.Context, input string, arg string) (out, complaint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.program, append(append([]string{}, u.flags...), arg)...)
	var stdout, stderr limited
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C") // its messages are read
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		complaint := strings.TrimSpace(stderr.String())
		return stdout.String(), complaint, fmt.Errorf("%s %s: %w: %.500q", u.program, arg, err, complaint)
	}
	return stdout.String(), stderr.String(), nil
}
