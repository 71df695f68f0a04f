package hook

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/run/command"
)

// execute runs a command with the facts in its environment, and as JSON on its standard input.
func (l *line) execute(ctx context.Context, f Facts) error {
	b := command.Brief{Args: l.hook.Command.Argv(), Env: l.env, Enter: l.r.o.Enter, ExtraEnv: f.environ(), Input: f.json(), Timeout: l.timeout()}
	printed, err := b.Run(ctx)
	if err != nil && printed != "" {
		err = fmt.Errorf("%w: it printed %q", err, printed)
	}
	return err
}
