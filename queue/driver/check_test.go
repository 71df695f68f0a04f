package driver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What is refused is refused before a store sees it, and names its field.
func TestWhatAnOperatorMayNotSay(t *testing.T) {
	low, far := task.MinPriority-1, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		field string
		a     driver.OpRequest
	}{
		"a move to nowhere":    {"queue", driver.OpRequest{Operation: driver.OpMove}},
		"a move out of reach":  {"queue", driver.OpRequest{Operation: driver.OpMove, Queue: "a b"}},
		"an edited priority":   {"priority", driver.OpRequest{Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}},
		"an edited instant":    {"run_at", driver.OpRequest{Operation: driver.OpEdit, Edit: driver.Edit{RunAt: &time.Time{}}}},
		"a far edited instant": {"run_at", driver.OpRequest{Operation: driver.OpEdit, Edit: driver.Edit{RunAt: &far}}},
	} {
		refused(t, name, c.field, c.a.Check())
	}
	p := driver.Pause{Queue: "a\nb"}
	refused(t, "a pause of what cannot be", "queue", p.Check())
	p = driver.Pause{Until: far}
	refused(t, "a pause for ever", "until", p.Check())
}

func refused(t *testing.T, name, field string, err error) {
	t.Helper()
	var wrong *task.SpecError
	if !errors.As(err, &wrong) || wrong.Field != field {
		t.Errorf("%s: got %v, want a SpecError of %s", name, err, field)
	}
}

// What an operator may say is not refused.
func TestWhatAnOperatorMaySay(t *testing.T) {
	soon := time.Now().Add(time.Hour)
	for _, a := range []driver.OpRequest{{Operation: driver.OpMove, Queue: "q"}, {Operation: driver.OpEdit, Edit: driver.Edit{RunAt: &soon}}, {Operation: driver.OpCancel}} {
		if err := a.Check(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
	if err := (&driver.Pause{}).Check(); err != nil {
		t.Error(err)
	}
}
