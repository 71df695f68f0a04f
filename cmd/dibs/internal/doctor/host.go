package doctor

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/unit"
	"github.com/dibs-run/dibs/internal/spool"
)

// A Directory is an embedded directory, as store/file finds it.
type Directory struct {
	Path, ID string
	UID      int
	Mode     os.FileMode
	SharedFS string
}

// NoDirectory is the finding of a host whose directory was not needed yet.
func NoDirectory(path string) Finding {
	return found(Info, "directory", path, "", "This host's own directory does not exist yet; dibs creates it when it needs it.")
}

// Unreadable is the finding of a directory that cannot be looked at.
func Unreadable(path string, err error) Finding {
	return found(Error, "directory", path, cureOf(err, "Give this user the right to read and write there, or name another directory with DIBS_DIR."), "This host's own directory cannot be used: %v", err)
}

// HostDirectory judges this host's own directory (rule H1) for a process of user uid.
func HostDirectory(d Directory, uid int) []Finding {
	all := []Finding{found(Info, "directory", d.Path, "", "This host's own directory: id %s, owned by %s, mode %04o. Users and containers are one host only if they share it (DIBS_DIR).", id(d), owner(d.UID), d.Mode.Perm())}
	if d.SharedFS != "" {
		all = append(all, found(Error, "directory-network", d.Path, "Put it on a local disk: DIBS_DIR=/var/lib/dibs.", "It is on %s, whose locks are not reliable: dibs refuses it.", d.SharedFS))
	}
	switch perm := d.Mode.Perm(); {
	case perm&0o002 != 0:
		all = append(all, found(Error, "directory-mode", d.Path, "chmod o= "+d.Path, "Everybody may write to it (mode %04o), and so take or break any lease: dibs refuses it.", perm))
	case perm&0o007 != 0:
		all = append(all, found(Warning, "directory-mode", d.Path, "chmod o= "+d.Path, "Everybody may read it (mode %04o): who runs what, and when.", perm))
	}
	switch {
	case d.UID == uid, d.UID == 0 && d.Mode.Perm()&0o020 != 0:
	case uid == 0:
		all = append(all, found(Error, "directory-owner", d.Path, "Run dibs as that user, or chown root "+d.Path+" and share it with a group (chmod 0770, g+s).", "It belongs to %s, who could make root act there: dibs refuses it as root.", owner(d.UID)))
	case d.Mode.Perm()&0o020 == 0:
		all = append(all, found(Error, "directory-owner", d.Path, "Run dibs as its owner, share it through a group (chmod 0770, g+s), or name another with DIBS_DIR.", "It belongs to %s, and this process runs as %s.", owner(d.UID), owner(uid)))
	}
	return all
}

func id(d Directory) string {
	if d.ID == "" {
		return "not readable"
	}
	return d.ID
}

func owner(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}

// OtherDirectories warns of further directories on this host: who uses another one excludes nobody
// here (rule H1).
func OtherDirectories(mine string, others []Directory) (all []Finding) {
	for _, d := range others {
		all = append(all, found(Warning, "directory-other", d.Path, "If they should be one host, set DIBS_DIR="+mine+" for all of them; if nothing uses it, remove it.",
			"There is another dibs directory on this host, with id %s, owned by %s: jobs of scope host there and in %s do not exclude each other.", id(d), owner(d.UID), mine))
	}
	return all
}

// What a process needs of descriptors: dibs itself, and for each command that runs.
const (
	ownDescriptors = 64
	perCommand     = 8
)

// Descriptors judges how many descriptors a process may have that runs so many commands at once.
func Descriptors(limit uint64, commands int) []Finding {
	if need := ownDescriptors + perCommand*commands; limit < uint64(need) {
		return []Finding{found(Warning, "descriptors", "RLIMIT_NOFILE", fmt.Sprintf("Raise the limit to %d or more: ulimit -n, LimitNOFILE= of the unit.", need),
			"A process started from here may have %d descriptors: too few for the manifest's %d commands at once. This host would leave their ticks to other servers.", limit, commands)}
	}
	return nil
}

// Units judges how systemd stops the services that run dibs. Where dibs may ask for scopes, a stop does not reach its
// jobs.
func Units(units []unit.Unit) (all []Finding) {
	for _, u := range units {
		if u.KillMode != unit.ControlGroup || u.Scoped() {
			continue
		}
		all = append(all, found(Warning, "unit-kill-mode", u.Path, KillModeCure(u),
			"Its KillMode is control-group, and as %s dibs may not ask systemd for scopes: when the service stops, systemd also sends SIGTERM to every job. The jobs end at once, without the drain, as failed, and on_crash does not apply.", u.User))
	}
	return all
}

// KillModeCure is what to do about a unit that has systemd signal the jobs.
func KillModeCure(u unit.Unit) string {
	return "Set KillMode=mixed in its [Service] section (systemctl edit " + u.Name + "), then systemctl daemon-reload."
}

// ServiceGroup is the group of a package's services, which read the store's file.
const ServiceGroup = "dibs"

// StoreFile judges the file that names the store, with its password (rule H3). services is the group of the services
// that root lets read it; "" if it is another group, or another user's file.
func StoreFile(path string, mode os.FileMode, services string) []Finding {
	may := os.FileMode(0o600)
	if services != "" {
		may = 0o640
	}
	if mode.Perm()&^may == 0 {
		return nil
	}
	if services != "" {
		return []Finding{found(Error, "store-file-mode", path, "chmod 0640 "+path,
			"Its mode is %04o, and it may contain the store's password: only root and group %s may read it (rule H3).", mode.Perm(), services)}
	}
	return []Finding{found(Error, "store-file-mode", path, "chmod 0600 "+path, "Its mode is %04o, and it may contain the store's password: only its owner may read it (rule H3).", mode.Perm())}
}

// Spool tells what waits on this host to be delivered. current is the installation id and namespace,
// joined by a dash, of the store that was opened; "" if none was.
func Spool(backlogs []spool.Backlog, current string) (all []Finding) {
	for _, b := range backlogs {
		cure := "`dibs history` delivers them, and so does dibs serve on this host, once the store takes them."
		if b.Store != current {
			installation, namespace, _ := strings.Cut(b.Store, "-")
			cure = fmt.Sprintf("Run `dibs history` here with the address of the store whose installation is %s and ?namespace=%s.", installation, namespace)
		}
		since := "an unknown time"
		if !b.Since.IsZero() {
			since = b.Since.UTC().Format(time.RFC3339)
		}
		all = append(all, found(Warning, "spool", b.Path, cure, "%d outcomes on this host wait for delivery to the store, the oldest since %s.", b.Items, since))
	}
	return all
}
