package cli

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs/task"
)

// completionTime bounds what a completion asks: somebody waits at a prompt. Tests of what stores answer have more.
var completionTime = 900 * time.Millisecond

// mostSuggested is how many values a completion offers.
const mostSuggested = 300

// completing says whether args come from a shell's completion script.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// completions lets the shells' scripts complete arguments and the values of flags. Only they pay for it. Where a table
// has nothing, nothing is completed, except for the command after --.
func completions(root *cobra.Command, args []string) {
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	behindDash := slices.Contains(args[:len(args)-1], "--")
	arguments, flags := argumentValues(), flagValues()
	root.InitDefaultHelpCmd() // so that it has its topics
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		cmd.ValidArgsFunction = arguments[path]
		if behindDash {
			cmd.ValidArgsFunction = files
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			values, ok := flags[path+" --"+f.Name]
			if !ok {
				values = flags["--"+f.Name]
			}
			if values != nil {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, values) // it fails for a flag that is not there
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// argumentValues complete the arguments of commands.
func argumentValues() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"dibs adopt":          first(manifests),
		"dibs apply":          first(manifests),
		"dibs check":          asked(jobNames, leaseKeys(true)),
		"dibs doctor":         first(manifests),
		"dibs drift":          first(manifests),
		"dibs explain":        first(asked(jobNames, leaseKeys(true))),
		"dibs help":           topics,
		"dibs history":        first(asked(jobNames, leaseKeys(true))),
		"dibs import crontab": first(files),
		"dibs job backfill":   first(asked(jobNames)),
		"dibs job forget":     first(asked(jobNames)),
		"dibs job list":       first(asked(jobNames)),
		"dibs job pause":      first(asked(jobNames)),
		"dibs job resume":     first(asked(jobNames)),
		"dibs job show":       first(asked(jobNames)),
		"dibs job trigger":    first(asked(jobNames)),
		"dibs lease break":    first(asked(leaseKeys(false))),
		"dibs lease list":     first(asked(leaseKeys(false))),
		"dibs lease show":     first(asked(leaseKeys(true))),
		"dibs list":           first(asked(shownJobs)),
		"dibs man":            first(directories),
		"dibs next":           first(manifests),
		"dibs plan":           first(manifests),
		"dibs prune":          first(manifests),
		"dibs queue clear":    first(asked(queueNames)),
		"dibs queue drain":    first(asked(queueNames)),
		"dibs queue limit":    first(asked(limitKeys)),
		"dibs queue pause":    first(asked(queueNames)),
		"dibs queue resume":   first(asked(queueNames)),
		"dibs queue show":     first(asked(queueNames)),
		"dibs run":            files,
		"dibs serve":          first(manifests),
		"dibs show":           first(asked(shownJobs)),
		"dibs task cancel":    asked(shownTasks),
		"dibs task delete":    asked(shownTasks),
		"dibs task discard":   asked(shownTasks),
		"dibs task edit":      asked(shownTasks),
		"dibs task enqueue":   first(asked(kindNames)),
		"dibs task move":      asked(shownTasks),
		"dibs task promote":   asked(shownTasks),
		"dibs task retry":     asked(shownTasks),
		"dibs task show":      first(asked(shownTasks)),
		"dibs trigger":        first(asked(dottedJobs)),
		"dibs validate":       first(manifests),
		"dibs work":           asked(queueNames),
	}
}

// flagValues complete the values of flags, by the name of the flag alone or with its command.
func flagValues() map[string]cobra.CompletionFunc {
	return map[string]cobra.CompletionFunc{
		"--again":                oneOf("refuse", "replace", "debounce"),
		"--binary":               files,
		"--default-scope":        oneOf("global", "host"),
		"--dst":                  oneOf("vixie", "skip", "repeat"),
		"--json":                 files,
		"--kind":                 asked(kindNames),
		"--leftovers":            oneOf("wait", "kill", "leave"),
		"--manifest":             manifests,
		"--on-contention":        oneOf("wait", "discard", "replace"),
		"--on-crash":             oneOf("skip", "rerun"),
		"--outcome":              severalOf(outcomes...),
		"--output":               oneOf("table", "json"),
		"--policy":               oneOf("forbid", "allow", "replace", "wait"),
		"--queue":                asked(queueNames),
		"--render":               oneOf("yaml", "cloudformation", "terraform"),
		"--scope":                oneOf("global", "host"),
		"--state":                severalOf(append(strings.Split(stateNames(task.States), ", "), "waiting")...),
		"--spec-dir":             directories,
		"--store":                directories,
		"--table":                oneOf("system", "user"),
		"--to":                   oneOf("crontab", "crontab:", "systemd", "systemd:user", "systemd:", "eventbridge:", "kubernetes", "kubernetes:"),
		"--unique-until":         oneOf(string(task.UntilFinished), string(task.UntilStarted)),
		"dibs history --to":      nil, // an instant
		"dibs history --run":     asked(runIDs),
		"dibs job backfill --to": nil,
		"dibs queue drain --to":  asked(queueNames),
		"dibs task move --to":    asked(queueNames),
	}
}

// first completes the first argument only.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, word)
	}
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func manifests(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// topics are the commands that help can be asked about.
func topics(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	at, rest, err := cmd.Root().Find(args)
	var names []string
	if err == nil && len(rest) == 0 {
		for _, c := range at.Commands() {
			if c.IsAvailableCommand() {
				names = append(names, c.Name())
			}
		}
	}
	return suggestions(names, word), cobra.ShellCompDirectiveNoFileComp
}

// oneOf completes with fixed values.
func oneOf(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		all := suggestions(slices.Clone(values), word)
		if len(all) == 1 && strings.HasSuffix(all[0], ":") {
			return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// severalOf completes the last of fixed values that commas separate.
func severalOf(values ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndex(word, ",") + 1
		before, last := word[:at], word[at:]
		all := suggestions(slices.Clone(values), last)
		for i := range all {
			all[i] = before + all[i]
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// asked completes with names that finders read. It is silent on errors, and gives up after completionTime whatever
// does not answer: a store, or the file system that has its address.
func asked(finders ...finder) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(toRead(cmd.Context()), completionTime)
		defer cancel()
		found := make(chan []string, 1)
		go func() {
			defer close(found)
			l := look{ctx: ctx, cmd: cmd, args: args, word: word}
			defer l.close()
			var names []string
			for _, find := range finders {
				more, err := find(&l)
				if err != nil {
					return
				}
				names = append(names, more...)
			}
			found <- names
		}()
		var names []string
		for range 2 { // the names, and that the store is closed
			select {
			case more := <-found:
				names = append(names, more...)
			case <-ctx.Done():
			}
		}
		return suggestions(names, word), cobra.ShellCompDirectiveNoFileComp
	}
}

// suggestions are those of names that complete word, sorted. Of too many the last one stays: the shell inserts the
// beginning that all suggestions share, and so it is that of all names.
func suggestions(names []string, word string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return !strings.HasPrefix(s, word) || !harmless(s) })
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(names); n > mostSuggested {
		names = append(names[:mostSuggested-1], names[n-1])
	}
	return names
}

// harmless says whether a shell takes a name as one word, as it is. Keys and jobs are named by others. A shell may
// insert the beginning of a name unquoted, and bash evaluates the line at the next completion: what is in $(…) would
// run.
func harmless(name string) bool {
	for i, r := range name {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_./", r):
		case i > 0 && strings.ContainsRune("-:@+,=%", r):
		default:
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "_activeHelp_") // cobra's scripts show what follows
}
