package command

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/dibs-run/dibs/internal/guardian"
)

// A User is the user that a command runs as.
type User struct {
	UID, GID uint32
	Groups   []uint32 // the supplementary ones, GID among them or not
	// Name and Home are what the command finds in its environment.
	Name, Home string
}

// LookupUser finds a user by name or number. group, if not empty, replaces the user's primary group and the
// supplementary ones. An empty name is this process's own user. If it returns nil without an error, this process
// already is that user, and the command runs as the process does. Only root can run a command as another user; else
// the result is an error.
func LookupUser(name, group string) (*User, error) {
	as, err := lookupUser(name, group)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 && int(as.UID) == os.Geteuid() && group == "" {
		return nil, nil
	}
	return as, as.check()
}

func lookupUser(name, group string) (*User, error) {
	var (
		u   *user.User
		err error
	)
	if name == "" {
		u, err = user.Current()
	} else if u, err = user.Lookup(name); err != nil {
		if byID, idErr := user.LookupId(name); idErr == nil {
			u, err = byID, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	as := &User{Name: u.Username, Home: u.HomeDir}
	if as.UID, err = number(u.Uid); err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	if group != "" {
		as.GID, err = lookupGroup(group)
		return as, err
	}
	if as.GID, err = number(u.Gid); err != nil {
		return nil, fmt.Errorf("user %q: %w", name, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("the groups of user %q: %w", name, err)
	}
	for _, id := range ids {
		g, err := number(id)
		if err != nil {
			return nil, fmt.Errorf("the groups of user %q: %w", name, err)
		}
		as.Groups = append(as.Groups, g)
	}
	return as, nil
}

func lookupGroup(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		if byID, idErr := user.LookupGroupId(name); idErr == nil {
			g, err = byID, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	return number(g.Gid)
}

func number(id string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	return uint32(n), err
}

// check finds what is wrong before anything is started.
func (u *User) check() error {
	switch {
	case os.Geteuid() != 0:
		return fmt.Errorf("only root can run a command as user %s or in another group", u.Name)
	case len(u.Groups) > guardian.MaxGroups:
		return fmt.Errorf("user %s has %d groups, and a command can have %d at most", u.Name, len(u.Groups), guardian.MaxGroups)
	}
	return nil
}

// environment is what a command that runs as u finds of it.
func (u *User) environment() []string {
	return []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name}
}
