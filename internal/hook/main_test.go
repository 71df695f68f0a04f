package hook_test

import (
	"flag"
	"os"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/run/command"
)

func TestMain(m *testing.M) {
	command.GuardianMain()             // commands of hooks have their guardian from this binary
	_ = flag.Set("test.parallel", "8") // the parallel tests wait most of the time
	os.Exit(testdirs.Run(m))
}
