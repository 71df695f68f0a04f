//go:build !linux

package testserver

import (
	"fmt"
	"os/exec"
	"runtime"
)

// Own servers are stopped and killed by walking /proc: elsewhere name a server in DIBS_TEST_….

type account struct{}

func accountFor(string) (account, error) {
	return account{}, fmt.Errorf("own servers on %s: %w", runtime.GOOS, errNoBinary)
}

func (account) own(string) error { return nil }
func (account) apply(*exec.Cmd)  {}

type process struct{ done chan struct{} }

func spawn(*exec.Cmd, account) (*process, error) {
	return nil, fmt.Errorf("own servers on %s: %w", runtime.GOOS, errNoBinary)
}

func (*process) stopAll() error { return nil }
func (*process) contAll() error { return nil }
func (*process) killAll()       {}
func detach(*exec.Cmd)          {}
func scratch() string           { return "" }
