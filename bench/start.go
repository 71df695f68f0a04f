package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// start compares whole processes: `dibs run -- true` on the embedded store, with its kill chain,
// a Go program that starts a guardian and a child and does nothing else, and flock(1), which
// has no guardian.
func start(w io.Writer, dibs, floor string, rounds int) error {
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Nothing of the caller's surroundings may name another store.
	env := append(os.Environ(), "DIBS_DIR="+filepath.Join(dir, "dibs"), "DIBS_STORE="+filepath.Join(dir, "dibs"))
	contestants := []contestant{
		{"dibs run", process(env, dibs, "run", "--key", "bench", "--", "true")},
		{"floor", process(env, floor, "true")},
	}
	if flock, err := exec.LookPath("flock"); err == nil {
		contestants = append(contestants, contestant{"flock", process(env, flock, filepath.Join(dir, "lock"), "true")})
	}
	t, err := play(rounds, contestants)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\ndibs run -- true, embedded store (median of %d; goal: at most 1.5 of the floor)\n", rounds)
	t.print(w, showTime)
	return nil
}

// process measures a process from its start until it was reaped.
func process(env []string, argv ...string) func() (float64, error) {
	return func() (float64, error) {
		c := exec.Command(argv[0], argv[1:]...)
		c.Env, c.Stderr = env, os.Stderr
		began := time.Now()
		err := c.Run()
		return time.Since(began).Seconds(), err
	}
}
