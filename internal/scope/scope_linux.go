package scope

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/godbus/dbus/v5"
)

// Scopes are a service's, beside it. It is safe for concurrent use.
type Scopes struct {
	service service
	slice   string
	limits  []property
	at      []socketAt
	log     *slog.Logger
	// asking bounds how many ask at once: systemd does one thing after the other, for everybody.
	asking chan struct{}
	failed atomic.Bool // the last one did, and that was said
}

// Open finds the scopes of the service that this process is in. Nil without an error: it is in none, or its
// KillMode is such that a stop signals dibs alone. An error says why there should be scopes and are none. It
// returns within 10 s.
func Open(log *slog.Logger) (*Scopes, error) {
	s, ok := own()
	if !ok {
		return nil, nil
	}
	at, err := s.addresses()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	conn, err := connect(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("systemd cannot be reached: %w", err)
	}
	defer conn.Close()
	about, err := s.ask(ctx, conn)
	if err != nil {
		return nil, err
	}
	if about["KillMode"].Value() != "control-group" {
		return nil, nil
	}
	all := &Scopes{service: s, at: at, log: log, asking: make(chan struct{}, 8)}
	if all.slice, ok = about["Slice"].Value().(string); !ok {
		return nil, errors.New("systemd does not report the service's slice")
	}
	all.limits, err = limits(about)
	return all, err
}

// ask reads the service's properties. That this process's number is, to the manager, one of the service's shows
// that both have the same pid namespace: else the numbers that it is given later would be strangers'.
func (s service) ask(ctx context.Context, conn *dbus.Conn) (about map[string]dbus.Variant, err error) {
	var unit dbus.ObjectPath
	if err := call(ctx, conn, manager, systemd+".Manager.GetUnitByPID", uint32(os.Getpid())).Store(&unit); err != nil {
		return nil, fmt.Errorf("systemd does not know this process: %w", err)
	}
	if err := call(ctx, conn, unit, "org.freedesktop.DBus.Properties.GetAll", systemd+".Service").Store(&about); err != nil {
		return nil, fmt.Errorf("systemd does not report this service: %w", err)
	}
	if group := about["ControlGroup"].Value(); group != s.group {
		return nil, fmt.Errorf("systemd reports this process in %v, and the kernel in %s", group, s.group)
	}
	return about, nil
}

// Dir is the path that a scope's control group will have: beside the service's, since both are in one slice.
func (s *Scopes) Dir(job, runID string) string {
	if s.service.dir == "" {
		return ""
	}
	return path.Dir(s.service.dir) + "/" + nameOf(job, runID)
}

// Start makes the scope of a run and returns once the processes are in it, after at most 2 s. An error says
// that they may not be, and is logged: the first of several in a row.
func (s *Scopes) Start(job, runID string, pids ...int) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := s.start(ctx, job, runID, pids)
	switch {
	case err != nil && s.failed.CompareAndSwap(false, true):
		s.log.Warn("a command got no scope from systemd, so stopping this service would kill it at once", "event", "scope-failed",
			"scope", nameOf(job, runID), "after", time.Since(began).Round(time.Millisecond), "error", err)
	case err == nil && s.failed.CompareAndSwap(true, false):
		s.log.Info("commands get their own scopes again", "event", "scope-resumed")
	}
	return err
}

func (s *Scopes) start(ctx context.Context, job, runID string, pids []int) error {
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := connect(ctx, s.at)
	if err != nil {
		return err
	}
	defer conn.Close()
	name := nameOf(job, runID)
	if err := call(ctx, conn, manager, systemd+".Manager.StartTransientUnit", name, "fail", s.properties(job, runID, pids), []auxiliary{}).Err; err != nil {
		return err
	}
	// The answer says that it will be done. That it was done the kernel says.
	for wait := time.Millisecond; !within(name, pids); wait = min(2*wait, 20*time.Millisecond) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("systemd did not move the processes in time: %w", ctx.Err())
		case <-time.After(wait):
		}
	}
	return nil
}

// An auxiliary is a unit that is made beside; there are none.
type auxiliary struct {
	Name       string
	Properties []property
}

func (s *Scopes) properties(job, runID string, pids []int) []property {
	numbers := make([]uint32, len(pids))
	for i, pid := range pids {
		numbers[i] = uint32(pid)
	}
	say := func(name string, value any) property { return property{name, dbus.MakeVariant(value)} }
	return append([]property{
		say("Description", "dibs: "+label(job)+", run "+escape(runID, 80)),
		say("Slice", s.slice),
		say("PIDs", numbers),
		say("Delegate", true), // the command has a group of its own in it
		say("CollectMode", "inactive-or-failed"),
		say("Before", []string{s.service.name}), // so what stops both stops the service first
	}, s.limits...)
}

// within says whether all of the processes are in a scope.
func within(name string, pids []int) bool {
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		in := false
		for _, group := range groups(string(text)) {
			in = in || strings.HasSuffix(group, "/"+name)
		}
		if err != nil || !in {
			return false
		}
	}
	return true
}
