//go:build !linux

package cli

import (
	"errors"

	"github.com/dibs-run/dibs/job"
)

func inForce(job.Sandbox) error { return errors.New("this system has no sandboxes") }
