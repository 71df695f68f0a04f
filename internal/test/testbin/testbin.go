// Package testbin builds the dibs that tests run as a process. A run of the suite builds each kind once and names the
// folder in DIBS_TEST_BIN; a test process of its own builds what it needs.
package testbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Env names the folder that holds the binaries of a run.
const Env = "DIBS_TEST_BIN"

// Shifted is the build tag of a dibs whose wall clock a test can shift.
const Shifted = "dibstest"

// Dibs returns the path of a dibs with these build tags: the run's, or else one that it builds in folder.
func Dibs(folder string, tags ...string) (string, error) {
	name := strings.Join(append([]string{"dibs"}, tags...), "-")
	if run := os.Getenv(Env); run != "" {
		path := filepath.Join(run, name)
		_, err := os.Stat(path)
		return path, err
	}
	return Build(folder, tags...)
}

// Build builds dibs in folder as `make build` does, but with the paths and the compiled packages of the tests.
func Build(folder string, tags ...string) (string, error) {
	path := filepath.Join(folder, strings.Join(append([]string{"dibs"}, tags...), "-"))
	cmd := exec.Command("go", "build", "-tags", strings.Join(tags, ","), "-o", path, "github.com/dibs-run/dibs/cmd/dibs")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return path, nil
}
