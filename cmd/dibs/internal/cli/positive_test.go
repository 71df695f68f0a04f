package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A number or duration of 0 is never taken for a flag's default: each flag refuses it, except those for which 0 has a
// meaning of its own that the help tells, or that their command refuses.
func TestNoFlagTakesZeroForItsDefault(t *testing.T) {
	meant := map[string]bool{
		// 0 is at once, or none.
		"dibs task enqueue --delay": true, "dibs task enqueue --priority": true, "dibs task enqueue --unique-window": true, "dibs task enqueue --duplicate-exit": true,
		"dibs task edit --priority": true, "dibs run --wait": true, "dibs run --timeout": true, "dibs work --timeout": true,
		// The command refuses it.
		"dibs next --count": true, "dibs history --limit": true, "dibs task list --max": true, "dibs work --slots": true, "dibs job backfill --concurrency": true,
	}
	var walk func(*cobra.Command)
	seen := 0
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind, name := f.Value.Type(), cmd.CommandPath()+" --"+f.Name
			if kind != "int" && kind != "int64" && kind != "duration" {
				return
			}
			seen++
			usual := strings.Trim(f.DefValue, "0s") == ""
			if err := f.Value.Set("0"); err == nil && usual && !meant[name] && f.Name != "after" && f.Name != "before" {
				t.Errorf("%s takes 0, which is also its default: say here what it means", name)
			}
			if _, ours := f.Value.(above[int]); ours && f.Value.Set("-1") == nil {
				t.Errorf("%s takes -1", name)
			}
		})
	}
	walk(newRoot(env{stdout: io.Discard, stderr: io.Discard}))
	if seen < 20 {
		t.Errorf("%d flags are numbers or durations", seen)
	}
}
