// Command dibs runs scheduled and queued jobs across a fleet of servers.
package main

import (
	"fmt"
	"os"
	"time"
	_ "time/tzdata" // zones are known on hosts without a database of them

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	_ "github.com/dibs-run/dibs/internal/guardian/early" // a guardian need not wait for the stores' clients
	"github.com/dibs-run/dibs/run/command"
)

func main() {
	command.GuardianMain()
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		fmt.Fprintln(os.Stderr, "dibs: its file is setuid or setgid: with the rights of another user it runs for nobody; chmod u-s,g-s it, and use sudo")
		os.Exit(125)
	}
	ignoreZoneinfo()
	os.Exit(cli.Main())
}

// ignoreZoneinfo keeps the variable ZONEINFO, which commands may need, from replacing zones: on all servers of a fleet
// a zone is the same.
func ignoreZoneinfo() {
	if value, set := os.LookupEnv("ZONEINFO"); set {
		_ = os.Unsetenv("ZONEINFO")
		_, _ = time.LoadLocation("Etc/UTC") // package time reads the variable once
		_ = os.Setenv("ZONEINFO", value)
	}
}
