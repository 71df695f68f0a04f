//go:build !linux

package command

import (
	"context"

	"github.com/dibs-run/dibs/lease"
)

func identify(*lease.Holder) {}

// WorkGone is false: the proof needs Linux.
func WorkGone(lease.Key, lease.Holder) bool { return false }

// KillOrphaned does nothing: it needs Linux.
func KillOrphaned(context.Context, lease.Key, lease.Holder, func() bool) (bool, error) {
	return false, errPlatform
}
