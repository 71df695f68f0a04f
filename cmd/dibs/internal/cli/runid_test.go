package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// A run is found by the beginning of its id, if no other begins so; what is shown of ids tells them apart.
func TestRunsAreFoundByTheBeginningOfTheirID(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	now := time.Now()
	var all []run.Record
	for i := range 300 {
		all = append(all, run.Record{ID: run.NewID(), Job: "j", Started: now.Add(time.Duration(i) * time.Millisecond)})
	}
	waited := run.Record{ID: run.NewID(), Job: "j", Started: now.Add(5 * time.Hour)} // for its lease
	if err := st.History.AppendRuns(t.Context(), append(all, waited)); err != nil {
		t.Fatal(err)
	}
	find := func(begins string) ([]run.Record, error) {
		return runsNamed(t.Context(), st.History, history.Query{RunID: begins, Limit: 1})
	}
	var ids []string
	for _, r := range append(all, waited) {
		ids = append(ids, r.ID)
	}
	short := shortIDs(append(ids, "-", ""))
	for i, id := range ids {
		if !strings.HasPrefix(id, short[i]) || len(short[i]) < shownID {
			t.Fatalf("%s is shown as %s", id, short[i])
		}
		for _, begins := range []string{short[i], strings.ToUpper(short[i]), id, strings.ToUpper(id)} {
			if got, err := find(begins); err != nil || len(got) != 1 || got[0].ID != id {
				t.Fatalf("%s: %+v, %v", begins, got, err)
			}
		}
	}
	if !slices.Equal(short[len(ids):], []string{"-", ""}) {
		t.Errorf("%q", short[len(ids):])
	}
	if got, err := find(ids[0][:leastID]); err == nil || !strings.Contains(err.Error(), "runs have an id that begins with") {
		t.Errorf("%+v, %v", got, err)
	}
	for _, none := range []string{"no-such-run", "0", "ffffffff-ffff-7fff-bfff-ffffffffffff", "01234567"} {
		if got, err := find(none); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v, %v", none, got, err)
		}
	}
}
