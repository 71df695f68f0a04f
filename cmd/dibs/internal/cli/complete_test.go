package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// promptTime is the completionTime that users have.
var promptTime = completionTime

// A busy machine may take longer than somebody at a prompt would wait, also for the commands of the scripts.
func init() { completionTime = time.Minute }

// atPrompt gives a test the users' completionTime.
func atPrompt(t *testing.T) {
	before := completionTime
	completionTime = promptTime
	t.Cleanup(func() { completionTime = before })
}

// complete is what a shell's script reads: the suggestions for the last of args, and the directive.
func complete(t *testing.T, args ...string) (names []string, directive string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := Exec(t.Context(), append([]string{"__complete"}, args...), strings.NewReader(""), &stdout, &stderr); got != 0 {
		t.Errorf("dibs __complete %q: exit status %d\n%s", args, got, &stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

func succeeds(t *testing.T, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	if status := Exec(t.Context(), args, strings.NewReader(""), io.Discard, &stderr); status != 0 {
		t.Fatalf("dibs %q: exit status %d\n%s", args, status, &stderr)
	}
}

func wantsCompleted(t *testing.T, want []string, args ...string) {
	t.Helper()
	if got, directive := complete(t, args...); !slices.Equal(got, want) || directive != ":4" {
		t.Errorf("dibs __complete %q: %q %s, want %q :4", args, got, directive, want)
	}
}

// All stores are asked for names, and a prefix selects them.
func TestCompletionAsksEachStore(t *testing.T) {
	for kind, bare := range bareStores {
		t.Run(kind, func(t *testing.T) {
			address, _ := bare(t)
			t.Setenv("DIBS_DIR", filepath.Join(t.TempDir(), "host"))
			t.Setenv("DIBS_STORE", address)
			for _, args := range [][]string{
				{"init"},
				{"run", "--key", "app/job", "--once-per", "@every 1s", "--", "true"},
				{"run", "--key", "deploy", "--", "true"},
				{"run", "--key", "deploy two", "--", "true"},
				{"task", "enqueue", "send", "--queue", "mail"},
				{"queue", "pause", "slow", "--reason", "why"},
			} {
				succeeds(t, args...)
			}
			wantsCompleted(t, []string{"app/job"}, "job", "show", "")
			wantsCompleted(t, []string{"app/job"}, "job", "pause", "app/")
			wantsCompleted(t, nil, "job", "pause", "x")
			wantsCompleted(t, []string{"app.job"}, "trigger", "app.")
			wantsCompleted(t, []string{"app/job"}, "trigger", "app/")
			wantsCompleted(t, []string{"app/job", "deploy"}, "history", "")
			wantsCompleted(t, []string{"deploy"}, "lease", "show", "de")
			wantsCompleted(t, nil, "lease", "break", "") // it is not held
			wantsCompleted(t, []string{"mail", "slow"}, "queue", "drain", "")
			wantsCompleted(t, []string{"mail"}, "task", "list", "--queue", "m")
			wantsCompleted(t, []string{"send"}, "task", "list", "--kind", "")
			wantsCompleted(t, []string{"slow"}, "work", "mail", "s")
			succeeds(t, "job", "forget", "app/job")
			wantsCompleted(t, nil, "job", "show", "")
			if ids, _ := complete(t, "task", "show", ""); len(ids) != 1 {
				t.Errorf("the ids of tasks: %q", ids)
			}
			if ids, _ := complete(t, "history", "deploy", "--run", ""); len(ids) != 1 || len(ids[0]) != fullID {
				t.Errorf("the ids of runs: %q", ids)
			}
		})
	}
}

// Completion prepares nothing, and finds nothing, in a store where dibs has never been.
func TestCompletionPreparesNothing(t *testing.T) {
	for kind, bare := range bareStores {
		t.Run(kind, func(t *testing.T) {
			address, there := bare(t)
			host := filepath.Join(t.TempDir(), "host")
			t.Setenv("DIBS_DIR", host)
			before := there()
			for path := range argumentValues() {
				if _, ok := needsOf[path]; ok {
					if names, _ := complete(t, append(strings.Fields(path)[1:], "--store", address, "")...); len(names) > 0 && !slices.Contains(names, "yaml") {
						t.Errorf("%s completes %q", path, names)
					}
				}
			}
			for _, args := range [][]string{{"task", "list", "--queue", ""}, {"work", "--kind", ""}, {"history", "--run", ""}} {
				wantsCompleted(t, nil, slices.Insert(args, len(args)-2, "--store", address)...)
			}
			if after := there(); after != before {
				t.Errorf("it made %s, and before there was %q", after, before)
			}
			if _, err := os.Stat(host); err == nil {
				t.Error("this host's own directory was made")
			}
		})
	}
}

// A store that takes connections and never answers completes nothing.
func TestCompletionOfASilentStore(t *testing.T) {
	atPrompt(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			if _, err := l.Accept(); err != nil { // what it accepted stays open, and nobody reads
				return
			}
		}
	}()
	for _, form := range []string{"redis://%s/0", "postgres://u:secret@%s/d", "mysql://u:secret@%s/d"} {
		wantsCompleted(t, nil, "job", "show", "--store", fmt.Sprintf(form, l.Addr()), "")
	}
}

// What does not answer is given up after completionTime: a store's client, or a file system.
func TestCompletionGivesUp(t *testing.T) {
	atPrompt(t)
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		stuck := func(*look) ([]string, error) {
			<-never
			return []string{"late"}, nil
		}
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		began := time.Now()
		names, directive := asked(stuck)(cmd, nil, "")
		if took := time.Since(began); took > time.Second || took != completionTime || len(names) != 0 || directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("after %s: %q, %d", took, names, directive)
		}
	})
}

// Names that a shell would have to quote are left out: bash inserts what suggestions share unquoted.
func TestSuggestionsAreHarmless(t *testing.T) {
	good := []string{"a", "app/job", "app.job", "Ünïcode/键", "a:b", "user@host", "a+b,c=d%", "_x", "/srv/x", "0-1"}
	bad := []string{"", "a b", "$(reboot)", "a`reboot`", "a;reboot", "a|b", "a&b", "a>b", "a*", "a?", "a[b", "{a,b}", "~root", "a'b", `a"b`, `a\b`, "a!b", "#a",
		"-o", "--store=x", "%1", "=ls", "a\tb", "a\x1b[2J", "a\u009b2J", "a\u202eb", "a\u200bb", "a\nb", "a\xffb", "_activeHelp_run"}
	if got := suggestions(slices.Concat(good, bad, good), ""); !slices.Equal(got, slices.Sorted(slices.Values(good))) {
		t.Errorf("%q", got)
	}
}

// Of too many names those that are offered share no longer beginning than all of them.
func TestSuggestionsAreBounded(t *testing.T) {
	var names []string
	for i := range mostSuggested {
		names = append(names, fmt.Sprintf("a%03d", i))
	}
	got := suggestions(append(names, "b"), "")
	if len(got) != mostSuggested || got[0] != "a000" || got[mostSuggested-1] != "b" {
		t.Errorf("%d suggestions, %q to %q", len(got), got[0], got[len(got)-1])
	}
}

// uncompleted are commands with arguments for which there is nothing to suggest: entries are in targets, which are not
// asked.
var uncompleted = []string{"dibs eject", "dibs completion"}

// The tables of completions name what there is, and each command that takes arguments is in them.
func TestEachCommandIsCompleted(t *testing.T) {
	arguments, flags := argumentValues(), flagValues()
	seen := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		seen[path] = true
		if _, words, _ := strings.Cut(cmd.Use, " "); words != "" && arguments[path] == nil && !slices.Contains(uncompleted, path) {
			t.Errorf("%s takes %s, and argumentValues has no line for it", path, words)
		}
		for name := range flags {
			if of, flag, _ := strings.Cut(name, "--"); (of == "" || of == path+" ") && cmd.Flags().Lookup(flag) != nil {
				seen[name] = true
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	root := newRoot(env{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard})
	root.InitDefaultHelpCmd()
	walk(root)
	for path := range arguments {
		if !seen[path] {
			t.Errorf("argumentValues has a line for %s, which is no command", path)
		}
	}
	for name := range flags {
		if !seen[name] {
			t.Errorf("flagValues has a line for %s, which is no flag", name)
		}
	}
}

// Each value of a closed set that is suggested is accepted, and is one that the help names.
func TestSuggestedValuesAreAccepted(t *testing.T) {
	for name, parse := range map[string]func(string) error{
		"run --policy":                    discard(job.ParseConcurrency),
		"run --scope":                     discard(job.ParseScope),
		"run --dst":                       discard(job.ParseDST),
		"run --on-crash":                  discard(job.ParseOnCrash),
		"run --leftovers":                 discard(job.ParseLeftovers),
		"history --outcome":               func(s string) error { return historyOptions{outcomes: []string{s}}.checkOutcomes() },
		"history --output":                func(s string) error { f := format(s); return f.check() },
		"task list --state":               func(s string) error { _, err := (&taskListOptions{states: []string{s}}).selects(); return err },
		"task enqueue --unique-until":     unique(func(u *task.Unique, s string) { u.Until = task.Until(s) }),
		"task enqueue --again":            unique(func(u *task.Unique, s string) { u.Until, u.Again = task.UntilStarted, task.Again(s) }),
		"task enqueue --on-contention":    limited(func(l *task.Limit, s string) { l.OnContention = task.Contention(s) }),
		"serve jobs.yaml --default-scope": discard(job.ParseScope),
	} {
		names, _ := complete(t, append(strings.Fields(name), "")...)
		if len(names) < 2 {
			t.Errorf("%s completes %q", name, names)
		}
		for _, n := range names {
			if err := parse(n); err != nil {
				t.Errorf("%s completes %s: %v", name, n, err)
			}
		}
	}
	if got, _ := complete(t, "history", "--outcome", "failed,los"); !slices.Equal(got, []string{"failed,lost"}) {
		t.Errorf("the second of several outcomes: %q", got)
	}
}

func discard[T any](parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		_, err := parse(s)
		return err
	}
}

func unique(set func(*task.Unique, string)) func(string) error {
	return func(s string) error {
		spec := task.Spec{Kind: "k", Queue: "q", Delay: time.Minute, Unique: &task.Unique{Key: "k"}}
		set(spec.Unique, s)
		return spec.Check()
	}
}

func limited(set func(*task.Limit, string)) func(string) error {
	return func(s string) error {
		spec := task.Spec{Kind: "k", Queue: "q", Limit: &task.Limit{Key: "k", Max: 1}}
		set(spec.Limit, s)
		return spec.Check()
	}
}

// A shell's start of a completion is not slower for others: without it nothing is registered.
func TestOnlyCompletionsPayForThem(t *testing.T) {
	for args, want := range map[string]bool{"": false, "run": false, "__complete": true, "__completeNoDesc": true} {
		if completing(strings.Fields(args)) != want {
			t.Errorf("%q", args)
		}
	}
}

// A held lease can be broken, and dibs's own are offered with --internal alone.
func TestHeldLeasesAreCompleted(t *testing.T) {
	address, _ := bareRedis(t)
	t.Setenv("DIBS_DIR", filepath.Join(t.TempDir(), "host"))
	a, err := resolve(address)
	if err != nil {
		t.Fatal(err)
	}
	a.Init = true
	p, err := open(t.Context(), a.Config, logTo(env{stderr: io.Discard}))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, key := range []lease.Key{"invoices", lease.Key("invoices").Gate()} {
		if _, err := p.Keeper.Acquire(t.Context(), lease.Want{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	wantsCompleted(t, []string{"invoices"}, "lease", "break", "--store", address, "")
	wantsCompleted(t, []string{"invoices/gate"}, "lease", "break", "--store", address, "--internal", "invoices/")
}
