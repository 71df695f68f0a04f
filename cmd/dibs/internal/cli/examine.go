package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/cmd/dibs/internal/unit"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/tick"
)

// examination collects what dibs doctor finds.
type examination struct {
	doctorOptions
	env
	findings []doctor.Finding

	address address
	jobs    []job.Spec
	loaded  bool // a manifest was given, and is valid
	// registered are the jobs of the store, and of this host's directory where that is another one.
	registered map[job.Scope][]tick.Job
	// noQueue are the scopes whose store keeps no queues, with its name.
	noQueue map[job.Scope]string
	// spool is this store's, as doctor.Spool names it.
	spool string
}

func (x *examination) found(all ...doctor.Finding) { x.findings = append(x.findings, all...) }

func (x *examination) examine(ctx context.Context) {
	x.registered, x.noQueue = map[job.Scope][]tick.Job{}, map[job.Scope]string{}
	x.storeFile()
	x.manifest(ctx)
	var err error
	if x.address, err = resolve(x.store); err != nil {
		x.found(doctor.Unusable("address", err))
		x.host(hostDir())
		return
	}
	x.lookAtStore(ctx)
	if x.address.OnlyHost {
		x.found(doctor.OnlyHost(x.address.String())...)
	}
	if own, err := x.address.host(); err != nil {
		x.host("")
	} else if own.URL.Scheme == "file" {
		x.host(own.URL.Path)
	}
	if x.address.shared() {
		x.hostJobs(ctx)
		x.found(doctor.Loopback(x.address.String(), x.address.Config, true, x.global())...)
	}
	if x.loaded {
		x.lookAtJobs()
	}
}

// storeFile looks at the file that names the store, used or not.
func (x *examination) storeFile() {
	path := cmp.Or(os.Getenv("DIBS_STORE_FILE"), storeFile)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		x.found(doctor.StoreFile(path, os.FileMode(st.Mode).Perm(), readers(st))...)
	}
}

// readers is the group of services that may read a file of root's: that of the package, or one that has no name, as in
// a container that has nobody else in it. Any other group may have anybody in it.
func readers(st unix.Stat_t) (group string) {
	if st.Uid != 0 || st.Gid == 0 {
		return ""
	}
	g, err := user.LookupGroupId(strconv.Itoa(int(st.Gid)))
	switch {
	case errors.As(err, new(user.UnknownGroupIdError)):
		return strconv.Itoa(int(st.Gid))
	case err == nil && g.Name == doctor.ServiceGroup:
		return g.Name
	}
	return ""
}

func (x *examination) manifest(ctx context.Context) {
	if x.source == "" {
		return
	}
	from, err := x.open(x.env, x.source)
	var m *manifest.Manifest
	if err == nil {
		if g := from.Grants(); g != nil {
			x.found(doctor.Granted(x.source, g.Origin, g.String()))
		}
		m, err = from.Load(ctx)
	}
	if err != nil {
		x.found(doctor.Invalid(x.source, err)...)
		return
	}
	if g := from.Grants(); g != nil && len(g.Apps) == 0 {
		x.found(doctor.AppUnsaid(x.source, m.App))
	}
	x.jobs, x.loaded = m.Jobs, true
}

// lookAtStore opens the store and asks it what matters. A directory that is not there is not made.
func (x *examination) lookAtStore(ctx context.Context) {
	where := x.address.String()
	if x.address.URL.Scheme == "file" && missing(x.address.URL.Path) {
		return // host says so
	}
	p, err := open(ctx, x.address.Config, logTo(x.env))
	switch {
	case errors.Is(err, store.ErrNotPrepared):
		x.found(doctor.Unprepared(where, err))
		return
	case err != nil:
		x.found(doctor.Unusable(where, err))
		return
	}
	defer p.close()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	x.spool = spool.Name(p.store.Properties.InstallationID, x.address.Namespace)
	x.found(doctor.Opened(where, p.store)...)
	x.found(doctor.Trial(ctx, where, p.store.Leases, p.Keeper.Margin().TTL)...)
	x.found(doctor.Weaknesses(where, p.store.Properties)...)
	x.found(doctor.Margin(where, p.Keeper.Margin()))
	if x.address.shared() { // a directory's clock is this host's
		switch offset, uncertain, err := doctor.Clock(ctx, p.store, clock.System); {
		case err != nil:
			x.found(doctor.Unusable(where, fmt.Errorf("its clock cannot be read: %w", err)))
		default:
			x.found(doctor.Offset(where, offset, uncertain))
		}
	}
	x.register(ctx, p, where, x.scopes()...)
	x.queues(ctx, p, where)
}

// queues looks at what waits in a store's queues, if it keeps any.
func (x *examination) queues(ctx context.Context, p *opened, where string) {
	if p.store.Tasks == nil {
		return
	}
	now, err := p.store.Now(ctx)
	if err == nil {
		var all []doctor.Finding
		all, err = doctor.Queues(ctx, where, p.store.Tasks, now)
		x.found(all...)
	}
	if err != nil {
		x.found(doctor.Unusable(where, fmt.Errorf("its queues cannot be read: %w", err)))
	}
}

// scopes are those whose jobs are in the store: of a host's own directory, both.
func (x *examination) scopes() []job.Scope {
	if x.address.shared() {
		return []job.Scope{job.Global}
	}
	return []job.Scope{job.Global, job.Host}
}

func (x *examination) register(ctx context.Context, p *opened, where string, scopes ...job.Scope) {
	for _, s := range scopes {
		if p.store.Queue == nil {
			x.noQueue[s] = where
		}
	}
	if p.Ticks == nil {
		return
	}
	known, err := tick.Registry(ctx, p.Ticks, "")
	if err != nil {
		x.found(doctor.Unusable(where, fmt.Errorf("its registered jobs cannot be read: %w", err)))
		return
	}
	known = mirror.Own(known)
	for _, s := range scopes {
		x.registered[s] = known
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		x.found(doctor.Unusable(where, fmt.Errorf("its clock cannot be read: %w", err)))
		return
	}
	x.found(doctor.Ahead(where, known, now)...)
	switch c, err := census(ctx, p); {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		x.found(doctor.Unusable(where, err))
	default:
		x.found(doctor.Fleet(where, c, known)...)
	}
}

// hostJobs reads what is registered in this host's directory beside a shared store, if there is one.
func (x *examination) hostJobs(ctx context.Context) {
	own, ok := x.address.besides()
	if !ok || !x.loaded {
		return
	}
	p, err := open(ctx, own.Config, logTo(x.env))
	switch {
	case errors.Is(err, store.ErrNotPrepared):
		return // it has no jobs yet
	case err != nil:
		x.found(doctor.Unusable(own.String(), err))
		return
	}
	defer p.close()
	x.register(ctx, p, own.String(), job.Host)
	x.queues(ctx, p, own.String())
}

// host looks at this host's own directory, those that could be meant by mistake, and the spools.
func (x *examination) host(path string) {
	if _, err := hostPlace(); path == "" {
		x.found(doctor.Unreadable("DIBS_DIR", err))
		return
	}
	refused := false // what is wrong with the directory is said once
	d, err := file.Inspect(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.found(doctor.NoDirectory(path))
	case err != nil:
		x.found(doctor.Unreadable(path, err))
	default:
		about := doctor.HostDirectory(doctor.Directory(d), os.Geteuid())
		refused = slices.ContainsFunc(about, func(f doctor.Finding) bool { return f.Severity == doctor.Error })
		x.found(about...)
	}
	var others []doctor.Directory
	for _, at := range elsewhere() {
		if d, err := file.Inspect(at); err == nil && !sameFile(at, path) && (d.ID != "" || unreadable(at)) {
			others = append(others, doctor.Directory(d))
		}
	}
	x.found(doctor.OtherDirectories(path, others)...)
	backlogs, err := spool.Waiting(hostDir())
	if err != nil && !refused {
		x.found(doctor.Unreadable(hostDir(), err))
	}
	x.found(doctor.Spool(backlogs, x.spool)...)
	x.found(doctor.Units(unit.Find("/"))...)
}

// elsewhere are the places where an embedded directory is by default: root's, and each user's.
func elsewhere() []string {
	all := []string{hostDir(), "/var/lib/dibs", "/root/.local/state/dibs"}
	homes, _ := filepath.Glob("/home/*/.local/state/dibs")
	all = append(all, homes...)
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(home, ".local", "state", "dibs"))
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		all = append(all, filepath.Join(state, "dibs"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// unreadable says that something of dibs's is there, for others to read. It opens nothing: in the place of another
// user's file may be a link to a device, and to open one can do something.
func unreadable(dir string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, filepath.Join(dir, "host.json"), unix.R_OK, unix.AT_SYMLINK_NOFOLLOW)
	return errors.Is(err, fs.ErrPermission)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// global names the jobs that rely on the store's reach: those of the manifest, and those that the
// store holds.
func (x *examination) global() (names []string) {
	for _, s := range x.jobs {
		if s.Policy.Scope == job.Global {
			names = append(names, s.Key())
		}
	}
	for _, k := range x.registered[job.Global] {
		if k.Removed.IsZero() {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (x *examination) lookAtJobs() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil { // dibs itself uses all of Max
		commands := slices.DeleteFunc(slices.Clone(x.jobs), func(s job.Spec) bool { return s.Command == nil })
		x.found(doctor.Descriptors(uint64(limit.Max), len(commands))...)
	}
	x.found(doctor.Jobs(x.jobs, doctor.Setting{Manifest: x.source, Store: x.address.String(), Shared: x.address.shared(), OnlyHost: x.address.OnlyHost,
		Now: time.Now(), Registered: x.registered, NoQueue: x.noQueue,
		Secret: func(ref string) error {
			at, err := x.whereIs(ref)
			if err == nil {
				_, err = secret.Places{}.Values([]string{at})
			}
			return err
		},
		Way: func(r job.Request) error { return hook.Request(&r).Check() },
		Program: func(c job.Command) error {
			name := "/bin/sh"
			if len(c.Args) > 0 {
				name = c.Args[0]
			}
			env := os.Environ()
			for k, v := range c.Env {
				env = append(env, k+"="+v)
			}
			return command.Find(name, c.Dir, env)
		},
		User: func(c job.Command) error {
			_, err := command.LookupUser(c.User, c.Group)
			return err
		}})...)
}
