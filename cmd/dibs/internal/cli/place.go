package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

// storeFlag is the flag that every command which opens a store has.
func storeFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().Var((*storeValue)(to), "store", "the store: a directory or a URL (default $DIBS_STORE, the file $DIBS_STORE_FILE,\n/etc/dibs/store, else this host's own directory)")
}

// storeValue is an address that somebody gave. An empty one comes of a variable that is not set, and would mean this
// host's own directory: every server would run the work.
type storeValue string

func (v *storeValue) String() string { return string(*v) }
func (v *storeValue) Type() string   { return "string" }

func (v *storeValue) Set(s string) error {
	if s == "" {
		return errNoStore
	}
	*v = storeValue(s)
	return nil
}

var errNoStore = errors.New("the store's address is empty, perhaps because a variable is not set: name a directory or a URL such as redis://host:6379/0, or leave it out")

// storeFile is where a host's administrator says which store it uses (rule H3).
const storeFile = "/etc/dibs/store"

// address is where the store is and who said so.
type address struct {
	store.Config
	// implicit: nobody said anything, so it is this host's own directory (rule H2).
	implicit bool
	// file is the path of the file that named it; empty: something else did.
	file string
}

// resolve finds the store's address.
func resolve(flag string) (address, error) {
	from, text := "--store", flag
	if text == "" {
		said := false
		from = "DIBS_STORE"
		switch text, said = os.LookupEnv(from); {
		case text != "":
			_ = environ.Hide(from) // from commands of our own user; where it cannot be, it is as it was
		case said:
			return address{}, errors.New("DIBS_STORE is empty: set it to a directory or a URL such as redis://host:6379/0, or unset it")
		}
	}
	file := ""
	if text == "" {
		path, said := os.LookupEnv("DIBS_STORE_FILE")
		if !said && os.Getenv(nested.Variable) != "" {
			return address{}, errWithheld
		}
		if !said {
			path = storeFile
		}
		b, err := conffile.Read(path, conffile.Small)
		switch {
		case err == nil:
			from, file = path, path
			if text, err = addressIn(string(b)); err != nil {
				return address{}, fmt.Errorf("the file that names the store, %s: %w", path, err)
			}
		case said || !errors.Is(err, fs.ErrNotExist):
			return address{}, unread(err)
		}
	}
	if text == "" {
		return implied()
	}
	c, err := store.Parse(text)
	if err == nil {
		_, err = all.For(c)
	}
	if err != nil {
		return address{}, fmt.Errorf("%s: %w", from, err)
	}
	if file != "" && c.URL.Scheme == "file" && !placed(c.URL.Path) {
		// The variable may name any file, so its text is not printed as that of a directory.
		return address{}, fmt.Errorf("the file that names the store, %s: its line is no address, and no directory in one that is there: "+
			"make the directory first (mkdir -m 700)", file)
	}
	return address{Config: c, file: file}, nil
}

// placed reports whether a directory is there, or could be made in another one than the root.
func placed(path string) bool {
	_, err := os.Stat(path)
	if in := filepath.Dir(path); err != nil && in != "/" {
		_, err = os.Stat(in)
	}
	return err == nil
}

// unread says that the file that names the store cannot be read, and what a user can do who may not.
func unread(err error) error {
	cure := ""
	if errors.Is(err, fs.ErrPermission) {
		cure = "; root and the file's group may: use sudo, or name a store of your own with --store or DIBS_STORE"
	}
	return fmt.Errorf("the file that names the store: %w%s", err, cure)
}

// implied is the address where nobody named a store: this host's own directory.
func implied() (address, error) {
	c, err := hostStore()
	return address{Config: c, implicit: true}, err
}

// hostStore is the address of this host's own directory.
func hostStore() (c store.Config, err error) {
	dir, err := hostPlace()
	if err == nil {
		c, err = store.Parse(dir)
	}
	return c, err
}

// shared says whether the store reaches beyond this host.
func (a address) shared() bool {
	d, err := all.For(a.Config)
	return err == nil && d.Fleet
}

// host is the address of this host's own directory, with the fleet's TTL.
func (a address) host() (store.Config, error) {
	if !a.shared() {
		return a.Config, nil
	}
	c, err := hostStore()
	c.TTL, c.Namespace = a.TTL, a.Namespace
	return c, err
}

// at is the address for package serve. Its store is opened as the context of the command says: only to be looked at,
// or to be used.
func (a address) at() serve.Store {
	return serve.Store{Config: a.Config, Open: openStore, Fleet: a.shared(), File: a.file, Default: a.implicit}
}

// own is this host's own store, of a process that serves; none where the user has no place for it.
func (a address) own() serve.Store {
	c, err := a.host()
	if err != nil {
		return serve.Store{}
	}
	return serve.Store{Config: c, Open: openStore}
}

// backend is the address for package backend.
func (a address) backend() backend.Address {
	return backend.Address{Config: a.Config, Fleet: a.shared(), Via: openStore}
}

// opened is a backend and its address.
type opened struct {
	*backend.Backend
	store  *store.Store
	config store.Config
	reads  bool // for a command that shows what is there, or changes it
}

// open opens the store at an address.
func open(ctx context.Context, c store.Config, log *slog.Logger) (*opened, error) {
	b, err := backend.Open(ctx, address{Config: c}.backend(), backend.Options{Dir: hostDir(), Reclaim: true, Log: log})
	if err != nil {
		return nil, err
	}
	need, _ := ctx.Value(needsKey{}).(needs)
	return &opened{b, b.Store, c, need == looks || need == acts}, nil
}

// close closes the store, and tells what the command could not read and left out.
func (o *opened) close() {
	if o.reads && o.store.Unreadable != nil {
		for _, text := range o.store.Unreadable() {
			o.Log.Warn("a record cannot be read and was left out; the next use of its key replaces it", "event", "record-unreadable", "record", text)
		}
	}
	o.Close()
}

// openTimeout bounds what is asked of a store for somebody who waits.
const openTimeout = backend.OpenTimeout

// deliverBy tells the store what is kept on this host, for somebody who looks now, and does not wait for long.
func deliverBy(ctx context.Context, deliver func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return deliver(ctx)
}

// again opens the store at the address once more, for what stands beside the work of this process.
func (a address) again(log *slog.Logger) func(context.Context) (*backend.Backend, error) {
	return func(ctx context.Context) (*backend.Backend, error) {
		return backend.Open(ctx, a.backend(), backend.Options{Dir: hostDir(), Reclaim: true, Log: log})
	}
}

// inner is how the commands of this process reach the store.
func (a address) inner(log *slog.Logger) *nested.Inner {
	return nested.NewInner(nested.InnerOptions{File: a.file, Default: a.implicit, Log: log, Open: func(ctx context.Context) (driver.Store, func(), error) {
		return backend.Queues(ctx, a.again(log))
	}})
}

// mirror is the way from this host's own store to the one at the address.
func (a address) mirror(host *opened) mirror.Way {
	return mirror.Way{From: host.Backend, Dir: host.config.URL.Path, Namespace: a.Namespace, Log: host.Log, Open: a.again(slog.New(slog.DiscardHandler))}
}

// errWithheld is of a command that dibs runs, and that names no store of its own: any other than that dibs's would be
// the wrong one.
var errWithheld = errors.New("the dibs that runs this command hides its store's address, because it may contain a password: " +
	"only `dibs task enqueue` can reach that store through it; name a store with --store, DIBS_STORE or DIBS_STORE_FILE")

// via is the way to the store of the dibs that runs this command, where the command knows no other.
func via(flag string) (c nested.Client, ok bool) {
	c.Via = os.Getenv(nested.Variable)
	if c.Via == "" || flag != "" || os.Getenv("DIBS_STORE") != "" {
		return c, false
	}
	path, said := os.LookupEnv("DIBS_STORE_FILE")
	if !said {
		return c, true
	}
	_, err := os.Stat(path)
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			f.Close()
		}
	}
	return c, errors.Is(err, fs.ErrPermission) // the file is for dibs, and this command runs as somebody else
}
