// Command dibs runs scheduled and queued jobs across a fleet of servers.
package main

import (
	"context"
	"os"
	_ "time/tzdata" // zones do not depend on what the host has installed

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	_ "github.com/dibs-run/dibs/internal/guardian/early" // a guardian need not wait for the stores' clients
	"github.com/dibs-run/dibs/run/command"
)

func main() {
	command.GuardianMain()
	os.Exit(cli.Exec(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
