package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/store/redis"
	"github.com/dibs-run/dibs/tick"
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

var errNoStore = errors.New("it is empty: name a directory or a URL such as redis://host:6379/0, or leave it out")

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
			return address{}, fmt.Errorf("%s: %w", from, errNoStore)
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
			return address{}, fmt.Errorf("the file that names the store: %w", err)
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
	return address{Config: c, file: file}, nil
}

// implied is the address where nobody named a store: this host's own directory.
func implied() (address, error) {
	c, err := store.Parse(hostDir())
	return address{Config: c, implicit: true}, err
}

// hostDir is the embedded directory: this host's own (rule H1).
func hostDir() string {
	switch {
	case os.Getenv("DIBS_DIR") != "":
		dir, err := filepath.Abs(os.Getenv("DIBS_DIR"))
		if err == nil {
			return dir
		}
	case os.Geteuid() == 0:
		return "/var/lib/dibs"
	case os.Getenv("XDG_STATE_HOME") != "":
		return filepath.Join(os.Getenv("XDG_STATE_HOME"), "dibs")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/var/tmp"
	}
	return filepath.Join(home, ".local", "state", "dibs")
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
	c, err := store.Parse(hostDir())
	c.TTL, c.Namespace = a.TTL, a.Namespace
	return c, err
}

// opened is a backend and the store behind it.
type opened struct {
	*scheduler.Backend
	store  *store.Store
	config store.Config
	was    remembered // when it was opened
}

// openTimeout bounds the opening of a store, with the preparation of a new one.
const openTimeout = 10 * time.Second

// open opens the store at an address as a place.
func open(ctx context.Context, c store.Config, log *slog.Logger) (*opened, error) {
	return openAs(ctx, c, log, "")
}

// openAs opens it for a process that others know by its role.
func openAs(ctx context.Context, c store.Config, log *slog.Logger, role string) (*opened, error) {
	redis.Quiet()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	was := rememberedOf(c)
	c.SeenTTL, c.Read = was.ttl, c.Read || onlyReads(ctx)
	s, err := all.OpenConfig(ctx, c)
	switch {
	case errors.Is(err, store.ErrNotPrepared): // its cure names the store
		return nil, err
	case err != nil:
		return nil, storeError{c.String(), err}
	}
	var place atomic.Pointer[scheduler.Backend] // which needs the keeper that tells it
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify, Seen: was.epoch, Margin: lease.MarginFor(cmp.Or(c.TTL, s.Properties.MaxTTL)),
		OnStep: func(d time.Duration) {
			log.Warn("the store's clock stepped", "event", "clock-step", "step", d, "store", c.String())
			if p := place.Load(); p != nil {
				p.ClockStepped(d)
			}
		}})
	if err != nil {
		return nil, err
	}
	self := command.Self()
	self.Command = role
	if s.Properties.Reach == store.Host {
		self.HostID = s.Properties.InstallationID // rule H1
	}
	var until atomic.Int64 // of the hold-back that was told of last
	held := func(d time.Duration) {
		end := time.Now().Add(d)
		if before := until.Swap(end.UnixNano()); end.Sub(time.Unix(0, before)) < time.Second {
			return // each that waits hears of it
		}
		log.Warn(lease.HoldBackText(d),
			"event", "held-back", "wait", d.Round(time.Millisecond), "store", c.String())
		if p := place.Load(); p != nil {
			go p.HeldBack(d)
		}
	}
	book := tick.NewBook(s.Ticks, k, self)
	book.OnHeldBack = held
	p := &scheduler.Backend{Name: s.URL, Keeper: k, Book: book, Ticks: s.Ticks, History: s.History, Self: self,
		Descriptor: s.Descriptor, Detach: s.Detach, Gone: gone(self), OnHeldBack: held, TimeOfDay: clock.System.Wall, Log: log,
		Spool: spool.In(hostDir(), s.Properties.InstallationID, c.Namespace)}
	place.Store(p)
	was.keepTTL(c, s)
	return &opened{Backend: p, store: s, config: c, was: was}, nil
}

// deliverBy tells the store what is kept on this host, for somebody who looks now, and does not wait for long.
func deliverBy(ctx context.Context, deliver func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	return deliver(ctx)
}

// close lets go of the store's connections. One that does not answer any more gets no long
// farewell: the process is about to end, and whoever started it waits.
func (o *opened) close() {
	o.was.keepEpoch(o.config, o.Keeper.Epoch())
	o.Keeper.Close()
	closed := make(chan struct{})
	go func() {
		_ = o.store.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(o.Keeper.Margin().RPCTimeout):
	}
}

// gone is rule L6: the holder was on this host, and its work is gone, or is now.
func gone(self lease.Holder) func(context.Context, lease.Record, func() bool) bool {
	return func(ctx context.Context, r lease.Record, held func() bool) bool {
		if command.WorkGone(r.Key, r.Holder) || command.EarlierBoot(self, r.Holder) {
			return true
		}
		done, err := command.KillOrphaned(ctx, r.Key, r.Holder, held)
		return err == nil && done
	}
}
