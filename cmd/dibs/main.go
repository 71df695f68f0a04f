// Command dibs runs scheduled and queued jobs across a fleet of servers.
package main

import (
	"os"
	"time"
	_ "time/tzdata" // zones are known on hosts without a database of them

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-run/dibs/internal/guardian"
	_ "github.com/dibs-run/dibs/internal/guardian/early" // a guardian need not wait for the stores' clients
	"github.com/dibs-run/dibs/run/command"
)

func main() {
	guardian.RefuseOthersRights()
	command.GuardianMain()
	ignoreZoneinfo()
	os.Exit(cli.Main())
}

// ignoreZoneinfo keeps the variable ZONEINFO, which commands may need, from replacing zones: whoever starts dibs does
// not decide what a zone means. The host's database does, or else the one built in.
func ignoreZoneinfo() {
	if value, set := os.LookupEnv("ZONEINFO"); set {
		_ = os.Unsetenv("ZONEINFO")
		_, _ = time.LoadLocation("Etc/UTC") // package time reads the variable once
		_ = os.Setenv("ZONEINFO", value)
	}
}
