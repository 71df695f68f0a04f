// Package cli is the command line: one file per command, each an options struct, its flags and a
// function that carries it out.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// The exit statuses that commands share. `dibs run` has more: see its help.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitContended   = 75
	exitLost        = 79
	exitTimedOut    = 124
	exitInternal    = 125
)

// env is what a command gets from the process it runs in.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	out, log       screen // what stdout and stderr were before anything was put between
}

// statusError ends the program with a status; a nil error prints nothing.
type statusError struct {
	status int
	err    error
}

func (e statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

func usage(err error) error { return statusError{exitUsage, misuse{err}} }

// misuse marks an error in how the program was called. The status does not tell: a command's own may be the same.
type misuse struct{ error }

func (m misuse) Unwrap() error { return m.error }

// Main is Exec for this process: it starts no children of its own but by package command.
func Main() int {
	whole = true
	status := Exec(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if interrupted {
		dieOf(syscall.SIGINT)
	}
	return status
}

// whole says that this is all of its process; interrupted, that the command of `dibs run` died of SIGINT.
var whole, interrupted bool

// Exec carries out a command line and returns the exit status. What it prints cannot speak to a terminal; a standard
// error that nobody reads holds it up for a second at its end, and at no other time.
func Exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, log := output.NewCleaner(stdout), output.NewPrinter(output.NewCleaner(stderr))
	defer log.Flush()
	defer out.End()
	return execute(ctx, args, env{stdin, out, log, screenOf(stdout), screenOf(stderr)})
}

func execute(ctx context.Context, args []string, e env) int {
	root, stderr := rootOf(partsFor(args, e)), e.stderr
	args = asLambda(args)
	if completing(args) {
		completions(root, args)
	}
	root.SetArgs(args)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	var st statusError
	switch {
	case errors.As(err, &st):
		if st.err != nil {
			st.err = err // with the words that were put round it
		}
	case unusable(err):
		st = statusError{exitUnavailable, err}
	case errors.Is(err, errUsage) || cmd == root:
		st = statusError{exitUsage, misuse{err}}
	default:
		st = statusError{exitFailed, err}
	}
	wrong := errors.As(st, new(misuse))
	switch {
	case cmd.Name() == "run" && wrong:
		st.status = exitInternal // as timeout(1)'s own, beside a command's statuses
	case cmd.Name() == "plan" && wrong:
		st.status = exitFailed // exitChanges says that there is something to change
	case cmd.Name() == "check" && wrong:
		st.status = checkUnknown
	case cmd.Name() == "trigger":
		if wrong = errors.Is(err, errUsage); wrong {
			st.status = triggerBroken // 2 is a run that failed
		}
	}
	if st.err != nil {
		if cmd.Name() == "check" && wrong { // a monitor reads standard output
			e.tellVerdict(status.Verdict{Text: strings.TrimPrefix(st.err.Error(), errUsage.Error()+": ")}, checkUnknown)
		}
		fmt.Fprintf(stderr, "dibs: %s\n", strings.TrimPrefix(st.err.Error(), errUsage.Error()+": "))
		if wrong || errors.Is(err, errUsage) {
			if cmd.Name() == "help" {
				cmd = root
			}
			fmt.Fprintf(stderr, "see: %s --help\n", cmd.CommandPath())
		}
	}
	return st.status
}

// unusable says that a store could not be used: it is away, not prepared, or of an older version.
func unusable(err error) bool {
	return errors.Is(err, lease.ErrUnavailable) || errors.Is(err, store.ErrNotPrepared) || errors.Is(err, store.ErrOutdated) ||
		errors.Is(err, store.ErrTooNew)
}

// errUsage marks errors in the use of flags and arguments.
var errUsage = errors.New("usage")

func newRoot(e env) *cobra.Command { return rootOf(rootParts(e)) }

func rootOf(parts []rootPart) *cobra.Command {
	root := &cobra.Command{
		Use:   "dibs",
		Short: "Scheduled and queued jobs across a fleet: each tick runs on exactly one server",
		Long: `dibs runs scheduled and queued jobs across a fleet: each run on exactly one
server. It coordinates through a directory, Redis, PostgreSQL, MySQL or MariaDB.`,
		Example:       `  dibs run --key invoices --once-per '15 4 1 * *' -- php generateInvoices.php`,
		Version:       version(),
		SilenceErrors: true, SilenceUsage: true,
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		markNeeds(cmd, args)
		return valued(cmd, args)
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 { // the flag is that of a misspelt command
			return unknown(cmd, words[0])
		}
		var bad *pflag.InvalidValueError
		if errors.As(err, &bad) {
			f, short := bad.GetFlag(), ""
			if f.Shorthand != "" {
				short = "-" + f.Shorthand + ", "
			}
			err = fmt.Errorf("%s--%s: %w", short, f.Name, valueError(bad))
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	})
	root.SetHelpCommand(newHelp())
	root.InitDefaultVersionFlag()
	for _, part := range parts {
		root.AddCommand(part.commands...)
	}
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd != root {
			usual(cmd, args)
			return
		}
		fmt.Fprint(cmd.OutOrStdout(), overview(root, parts))
	})
	return group(root, newMan())
}

// valued refuses a flag or an argument that is empty: it comes of a variable that is not set, and would be taken for
// one that was left out, so that a key excludes nobody, or a worker takes every kind of task. It also refuses a flag
// whose value was left out, so that it has taken the next flag for one.
func valued(cmd *cobra.Command, args []string) (err error) {
	const cure = "is empty, perhaps because a variable is not set: give a value, or leave it out"
	cmd.Flags().Visit(func(f *pflag.Flag) {
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		if err == nil && (len(given) == 0 || slices.Contains(given, "")) {
			err = fmt.Errorf("%w: --%s %s", errUsage, f.Name, cure)
		}
		for _, v := range given {
			name, _, _ := strings.Cut(strings.TrimPrefix(v, "--"), "=")
			if err == nil && strings.HasPrefix(v, "--") && cmd.Flags().Lookup(name) != nil {
				err = fmt.Errorf("%w: --%s needs a value, and what follows it is the flag --%s", errUsage, f.Name, name)
			}
		}
	})
	own := args
	if at := cmd.ArgsLenAtDash(); at >= 0 {
		own = args[:at]
	}
	if err == nil && cmd.Name() != "run" && !completing([]string{cmd.Name()}) && slices.Contains(own, "") {
		err = fmt.Errorf("%w: an argument %s", errUsage, cure)
	}
	return err
}

// valueError says what is wrong with the value of a flag.
func valueError(bad *pflag.InvalidValueError) error {
	switch kind := bad.GetFlag().Value.Type(); {
	case errors.Is(bad, errNotPositive):
		return fmt.Errorf("%s: %w", bad.GetValue(), errNotPositive)
	case kind == "duration", kind == "durationSlice":
		return fmt.Errorf("%q: want a duration, such as 30s, 10m or 2h", bad.GetValue())
	case kind == "int", kind == "int64":
		return fmt.Errorf("%q: want a number", bad.GetValue())
	}
	return bad.Unwrap()
}

// group is a command that does nothing but hold others.
func group(cmd *cobra.Command, of ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(of...)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknown(cmd, args[0])
	}
	cmd.RunE, cmd.DisableFlagsInUseLine = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, true
	return cmd
}

// unknown is a word that is no command below cmd, with those that it may have been meant for.
func unknown(cmd *cobra.Command, word string) error {
	err := fmt.Errorf("%w: %s has no command %q", errUsage, cmd.CommandPath(), word)
	cmd.SuggestionsMinimumDistance = 2
	like := below(cmd, word)
	if len(like) == 0 {
		like = cmd.SuggestionsFor(word)
	}
	if len(like) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}

// below returns the commands of that name in the groups below cmd, such as "task enqueue" for enqueue.
func below(cmd *cobra.Command, name string) (found []string) {
	for _, group := range cmd.Commands() {
		for _, c := range group.Commands() {
			if c.Name() == name && c.IsAvailableCommand() {
				found = append(found, group.Name()+" "+name)
			}
		}
	}
	return found
}

// newHelp is cobra's help command, but for a topic that is not there: that is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Show the help of a command",
		Example: "  dibs help run\n  dibs help lease break",
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			switch {
			case at == nil || at == cmd.Root() && len(args) > 0:
				return unknown(cmd.Root(), args[0])
			case err != nil:
				return fmt.Errorf("%w: %w", errUsage, err)
			case len(rest) > 0 && at.HasSubCommands():
				return unknown(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		}}
}

// exactly is cobra.ExactArgs with an error of ours.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%w: want %s", errUsage, what)
		}
		return nil
	}
}
