package task_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/task"
)

// The page and the code draw the same machine.
// Holds: promise 23.
func TestTheDrawnStatesAreTheCode(t *testing.T) {
	f, err := os.Open("../docs/reference/queue.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var drawn, coded []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		arrow, by, ok := strings.Cut(strings.TrimSpace(lines.Text()), ": ")
		if from, to, is := strings.Cut(arrow, " --> "); ok && is {
			drawn = append(drawn, strings.TrimSpace(strings.Replace(from, "[*]", "", 1))+">"+to+": "+by)
		}
	}
	for _, tr := range task.Transitions() {
		coded = append(coded, string(tr.From)+">"+string(tr.To)+": "+tr.By)
	}
	slices.Sort(drawn)
	slices.Sort(coded)
	if len(drawn) < 20 || !slices.Equal(drawn, coded) {
		t.Errorf("docs/reference/queue.md draws\n%s\nthe code has\n%s", strings.Join(drawn, "\n"), strings.Join(coded, "\n"))
	}
}

func TestFinalStatesAreLeftOnlyByARetry(t *testing.T) {
	for _, tr := range task.Transitions() {
		if tr.From.Final() && tr.To != task.Available {
			t.Errorf("%s → %s", tr.From, tr.To)
		}
		if tr.To == task.Running && tr.From != task.Available {
			t.Errorf("%s → running: only what is available is fetched", tr.From)
		}
	}
	for _, s := range task.States {
		if !s.Valid() || s.Final() && s.Waiting() {
			t.Errorf("state %s", s)
		}
	}
}

// Every state is one of three kinds, and what is asked for as waiting is just that.
// Holds: promise 23.
func TestWhichStatesWait(t *testing.T) {
	waiting := []task.State{task.Scheduled, task.Available, task.Blocked, task.Retryable}
	final := []task.State{task.Succeeded, task.Failed, task.Discarded, task.Canceled, task.Crashed}
	for _, s := range append(slices.Clone(task.States), "", task.Damaged, "runing") {
		waits, ended := slices.Contains(waiting, s), slices.Contains(final, s)
		if s.Waiting() != waits || s.Final() != ended || s.Valid() != (waits || ended || s == task.Running) {
			t.Errorf("%q: waiting %v, final %v, valid %v", s, s.Waiting(), s.Final(), s.Valid())
		}
		if got := slices.Contains(task.Waits(true), s); got != waits {
			t.Errorf("%q among those that wait: %v", s, got)
		}
		if got := slices.Contains(task.Waits(false), s); got != (waits && s != task.Scheduled) {
			t.Errorf("%q among those that wait, without what is scheduled: %v", s, got)
		}
	}
}
