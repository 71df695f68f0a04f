// Command dibs runs scheduled and queued jobs across a fleet of servers.
package main

import (
	"os"
	_ "time/tzdata" // zones do not depend on what the host has installed

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	_ "github.com/dibs-run/dibs/internal/guardian/early" // a guardian need not wait for the stores' clients
	"github.com/dibs-run/dibs/run/command"
)

func main() {
	command.GuardianMain()
	os.Exit(cli.Main())
}
