package hook_test

import (
	"os"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/run/command"
)

func TestMain(m *testing.M) {
	command.GuardianMain() // commands of hooks have their guardian from this binary
	os.Exit(testdirs.Run(m))
}
