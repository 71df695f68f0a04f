// Suite runs a command, usually the tests, with what the test processes of one run share: servers of this machine's
// binaries whose data is in memory, and the dibs binaries. At the end it lists what could not be covered.
//
//	go run ./internal/test/suite go test ./...
//
// It starts no server that a DIBS_TEST_… variable names already. A technology without binaries is left to package
// testserver, which looks for a server at its usual address. The data loses nothing that a test needs: the servers
// flush as on a disk, and `make boot` shows a power cut.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/test/testbin"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	if len(args) == 0 {
		return 0, errors.New("give the command to run")
	}
	// The command gets a terminal's interrupt as well, and ends; we then clean up.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	dir, err := os.MkdirTemp("", "dibs-suite-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // tests run dibs as other users too
		return 0, err
	}
	env, stop, err := prepare(dir)
	defer stop()
	if err != nil {
		return 0, err
	}
	missing := filepath.Join(dir, "uncovered")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), append(env, testbin.Env+"="+dir, uncovered.Env+"="+missing)...)
	begun := time.Now()
	err = cmd.Run()
	fmt.Printf("\n%s in all\n", time.Since(begun).Round(time.Second))
	tell(missing)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// prepare starts the servers and builds the binaries, side by side.
func prepare(dir string) (env []string, stop func(), err error) {
	var (
		both   sync.WaitGroup
		failed [3]error
	)
	both.Go(func() { env, stop, failed[0] = testserver.Share() })
	both.Go(func() { _, failed[1] = testbin.Build(dir) })
	both.Go(func() { _, failed[2] = testbin.Build(dir, testbin.Shifted) })
	both.Wait()
	return env, stop, errors.Join(failed[:]...)
}

// tell lists, once each, what the tests recorded.
func tell(file string) {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	slices.Sort(lines)
	fmt.Println("\nNOT COVERED, because this machine lacks it:")
	for _, line := range slices.Compact(lines) {
		fmt.Println("  " + line)
	}
}
