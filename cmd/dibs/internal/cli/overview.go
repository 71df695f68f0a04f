package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// rootPart is a part of the overview that dibs alone prints.
type rootPart struct {
	title    string
	commands []*cobra.Command
}

// rootParts are all commands, in the order in which a newcomer needs them.
func rootParts(e env) []rootPart {
	return []rootPart{
		{"Run jobs", []*cobra.Command{newRun(e), newServe(e), newTrigger(e), newWork(e)}},
		{"See what happens", []*cobra.Command{newStatus(e), newCheck(e), newMetrics(e), newList(e), newShow(e), newHistory(e), newExplain(e), newNext(e), newDoctor(e)}},
		{"Look after jobs, locks, queues and servers", []*cobra.Command{newJob(e), newLease(e), newQueue(e), newTask(e), newServer(e)}},
		{"Set up", []*cobra.Command{newInit(e), newValidate(e), newImport(e), newCompletion(e), newVersion(e)}},
		{"Install jobs in a crontab, systemd, Kubernetes or EventBridge", []*cobra.Command{newPlan(e), newApply(e), newDrift(e), newPrune(e), newAdopt(e), newEject(e), newLambda(e)}},
	}
}

// partsFor are rootParts, or only the command run if that is called: to make all the others takes half a millisecond,
// which each line of a crontab would pay.
func partsFor(args []string, e env) []rootPart {
	if len(args) > 0 && args[0] == "run" {
		return []rootPart{{"Run jobs", []*cobra.Command{newRun(e)}}}
	}
	return rootParts(e)
}

// overview is the help of dibs itself: every command, by what it is for, on one screen.
func overview(root *cobra.Command, parts []rootPart) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage: dibs COMMAND [flags]    (dibs COMMAND --help explains a command)\n%s\n", root.Long, root.Example)
	for _, part := range parts {
		fmt.Fprintf(&b, "\n%s:\n", part.title)
		for _, cmd := range part.commands {
			fmt.Fprintf(&b, "  %-10s  %s\n", cmd.Name(), cmd.Short)
		}
	}
	return b.String()
}

const completionHelp = `Print a script that lets your shell complete dibs's commands, flags and names. Packages install it.

  bash        dibs completion bash > /etc/bash_completion.d/dibs     needs bash-completion
  zsh         dibs completion zsh > "${fpath[1]}/_dibs"              needs compinit
  fish        dibs completion fish > ~/.config/fish/completions/dibs.fish
  powershell  dibs completion powershell | Out-String | Invoke-Expression

Then start a new shell. To try it in this one only, in bash or zsh: source <(dibs completion bash)`

func newCompletion(e env) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	plain := false
	cmd := &cobra.Command{Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for your shell", Long: completionHelp,
		ValidArgs: shells, Args: exactly(1, "one shell: bash, zsh, fish or powershell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(e.stdout, !plain)
			case "zsh":
				if plain {
					return root.GenZshCompletionNoDesc(e.stdout)
				}
				return root.GenZshCompletion(e.stdout)
			case "fish":
				return root.GenFishCompletion(e.stdout, !plain)
			case "powershell":
				if plain {
					return root.GenPowerShellCompletion(e.stdout)
				}
				return root.GenPowerShellCompletionWithDesc(e.stdout)
			}
			err := fmt.Errorf("%w: completion %q: want bash, zsh, fish or powershell", errUsage, args[0])
			if like := nearest(args[0], shells); like != "" {
				err = fmt.Errorf("%w; did you mean %s?", err, like)
			}
			return err
		}}
	cmd.Flags().BoolVar(&plain, "no-descriptions", false, "complete without descriptions")
	return cmd
}
