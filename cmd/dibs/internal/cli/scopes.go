package cli

import (
	"context"
	"log/slog"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/cmd/dibs/internal/unit"
	"github.com/dibs-run/dibs/internal/scope"
	"github.com/dibs-run/dibs/run/command"
)

// useScopes has commands begin in scopes of their own where this process is a service that systemd stops with
// all that it has started, and says so where it cannot. From the stop on it is as without: the signal was sent,
// and systemd starts no scope before the service is gone.
func useScopes(told context.Context, log *slog.Logger) {
	s, err := scope.Open(log)
	if err == nil && s != nil {
		err = command.UseScopes(s)
	}
	switch {
	case err != nil:
		sayKillMode(log, err)
	case s != nil:
		log.Info("each command gets its own scope from systemd, so stopping this service drains", "event", "scopes")
		context.AfterFunc(told, func() { _ = command.UseScopes(nil) })
	}
}

// sayKillMode warns of a service whose jobs end with it, unless its unit says that they do not.
func sayKillMode(log *slog.Logger, why error) {
	u, known := unit.OfSelf()
	if known && u.KillMode != unit.ControlGroup {
		return
	}
	if !known {
		u.Name = scope.Service()
	}
	log.Warn("when this service stops, systemd kills its jobs at once, without a drain, because dibs may not create scopes", "event", "unit-kill-mode",
		"unit", u.Name, "error", why, "cure", doctor.KillModeCure(u))
}
