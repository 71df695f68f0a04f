package mysql

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/task"
)

// A bulk enqueue is there as a whole or not at all, however many packets it needs (promise 16), and each of them fits
// into 4 MiB, also where every byte has to be escaped.
// Holds: promise 16.
func TestManyBytesAreOneStep(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	args := json.RawMessage(`"` + strings.Repeat(`\"`, 120<<10) + `"`)
	c := queueConfig(t, testserver.MariaDB(t))
	db := raw(t, c.URL.String(), func(c *mysqldriver.Config) { c.MaxAllowedPacket = 4 << 20 })
	s, err := New(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	there := func() int64 { return count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ?", c.Namespace) }
	key := func(i int) string { return strings.Repeat("k", i+1) }
	of := func(with func(i int, s *task.Spec)) (specs []task.Spec) {
		for i := range 30 {
			s := spec(func(s *task.Spec) { s.Args = args })
			with(i, &s)
			specs = append(specs, s)
		}
		return specs
	}
	sorts := map[string]func(i int, s *task.Spec){
		"plain":   func(int, *task.Spec) {},
		"keyed":   func(i int, s *task.Spec) { uniqueKey(key(i))(s) },
		"limited": func(i int, s *task.Spec) { limitOf(key(i%3), 2)(s) },
		"replaced": func(i int, s *task.Spec) {
			s.Unique = &task.Unique{Key: "r" + key(i), Until: task.UntilStarted, Again: task.Replace}
		},
	}
	for _, name := range []string{"plain", "keyed", "limited", "replaced", "replaced"} {
		was := there()
		broken := of(sorts[name])
		last := spec(func(s *task.Spec) { s.Args = args })
		last.Priority = 40_000 // no row has that
		if _, err := s.Queue.Enqueue(t.Context(), append(broken, last)); err == nil {
			t.Errorf("%s: the last one was taken in", name)
		}
		if n := there(); n != was {
			t.Errorf("%s: %d of a batch that failed are there", name, n-was)
		}
		got := enqueue(t, s.Queue, of(sorts[name])...)
		if !slices.IsSortedFunc(got, func(x, y task.Enqueued) int { return int(x.ID - y.ID) }) {
			t.Errorf("%s: not in their order: %+v", name, got)
		}
		for i, a := range got {
			x, _, _, err := s.Tasks.Task(t.Context(), a.ID)
			if err != nil || string(x.Args) != string(args) || x.Unique != nil && !strings.HasSuffix(x.Unique.Key, key(i)) {
				t.Errorf("%s: task %d: %d bytes, %v, %v", name, i, len(x.Args), x.Unique, err)
			}
		}
	}
	if n := there(); n != 4*30 {
		t.Errorf("%d tasks", n)
	}
}
