package redis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// probedRampage is a rampage on a server of its own whose scripts are probed, with steps of so many.
func probedRampage(t *testing.T, step int) (r *rampage, p *probe, raw *goredis.Client, prefix string) {
	t.Helper()
	c := config(t, ownServer(t, "--enable-debug-command", "yes").URL)
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r = &rampage{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 1)), raw: rawClient(t, c), meta: "dibs:{" + c.Namespace + "}:meta"}
	r.worker = joined(t, s, time.Hour)
	return r, probes(s, step), r.raw, "dibs:{" + c.Namespace + "}:"
}

// writtenLast has a walk take n steps, and fails where a script reads after its first write: it decides nothing
// then, and nothing that it meets can end it half-way. Each kind of key has one type, so that no write is of a
// wrong one. It returns these.
func writtenLast(t *testing.T, r walk, raw *goredis.Client, prefix string, n int, each func(n int)) (types map[string]string) {
	t.Helper()
	types = map[string]string{}
	for n := range n {
		r.plan()
		if err := r.attempt(); err != nil {
			t.Fatalf("at %d: %v", n, err)
		}
		for _, done := range drain(t, raw, prefix) {
			if done.Error != "" || len(done.Late) > 0 {
				t.Fatalf("at %d: it read after a write: %q; error %q", n, done.Late, done.Error)
			}
			for family, kind := range done.Types {
				if was := types[family]; was != "" && was != kind || strings.Contains(kind, " ") {
					t.Errorf("%s is written as %s and as %s", family, was, kind)
				}
				types[family] = kind
			}
		}
		if each(n); t.Failed() {
			t.Fatalf("at step %d", n)
		}
	}
	return types
}

// After its first write a script reads nothing; no command is given, or answers with, more than a bound. What
// the small steps leave to do is done by the next ones: the books balance all the while.
// Holds: promise 18.
func TestScriptsReadBeforeTheyWrite(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	for _, step := range []int{1, 3, maxStep} {
		t.Run(fmt.Sprint("steps of ", step), func(t *testing.T) {
			r, _, raw, prefix := probedRampage(t, step)
			each := func(n int) {
				if n%20 == 19 {
					audit(t, r.s, raw, prefix)
				}
			}
			types := writtenLast(t, r, raw, prefix, testsize.Of(150, 1500), each)
			for n := 0; n < 20 && step == 3 && r.waited == 0; n++ { // it goes on until it has met what is held back
				maps.Copy(types, writtenLast(t, r, raw, prefix, 100, each))
			}
			// What small steps left to do is done, and the sweeps that look at every limit find nothing to repair.
			r.settle()
			if left := raw.SCard(t.Context(), prefix+"untidy").Val(); left > 0 {
				t.Errorf("%d limits are left as they should not be", left)
			}
			r.settle()
			audit(t, r.s, raw, prefix)
			if len(types) < 15 {
				t.Errorf("it saw only %v", types)
			}
			if step == 3 && r.waited == 0 {
				t.Error("no task waited for slots that were held back")
			}
		})
	}
}

// The scripts of leases, ticks, jobs and history do so as well, each of them, for batches that name the same
// thing twice.
// Holds: promise 26.
func TestKeptScriptsReadBeforeTheyWrite(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	r, p := strolling(t)
	types := writtenLast(t, r, r.raw, r.prefix, testsize.Of(600, 20_000), func(int) {})
	// A walk that has not come by some script yet goes on.
	for range 20 {
		if len(types) >= 14 && len(p.unseen()) == 0 {
			return
		}
		maps.Copy(types, writtenLast(t, r, r.raw, r.prefix, 600, func(int) {}))
	}
	t.Errorf("it saw only %v, and did not run %q", types, p.unseen())
}

// unseen are the scripts that were not run, but for those of queues, and for that of opening, which writes nothing.
func (p *probe) unseen() (names []string) {
	for _, s := range scripts {
		name := s.names[len(s.names)-1]
		if !strings.HasPrefix(name, "queue/") && name != "look" && !p.seen[name] {
			names = append(names, name)
		}
	}
	return names
}

// failing has a walk take n steps. Each script is made to fail at whatever it reads and at its first write, and
// must then have done nothing; a full server is such a failure. There is no other: see writtenLast.
func failing(t *testing.T, r walk, p *probe, raw *goredis.Client, prefix string, n int, each func(n int)) (injected, full int) {
	t.Helper()
	digest := func() string {
		raw.Del(t.Context(), "probe:"+prefix)
		return raw.Do(t.Context(), "debug", "digest").String()
	}
	for n := range n {
		r.plan()
		before := digest()
		for call := 2; ; call++ { // the first is TIME, for all
			p.next(call)
			err := r.attempt()
			p.next(0)
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "injected") {
				t.Fatal(err)
			}
			injected++
			if digest() != before {
				t.Fatalf("at %d: it failed at command %d, and had done something: %v", n, call, err)
			}
			if call > 100_000 {
				t.Fatal("it never comes to its first write")
			}
		}
		r.plan()
		if err := raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		before = digest()
		if err := r.attempt(); err != nil {
			full++
			if !strings.Contains(err.Error(), "OOM") || digest() != before {
				t.Fatalf("at %d: a full server: %v; done: %v", n, err, digest() != before)
			}
		}
		if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		each(n)
	}
	t.Logf("%d commands failed, and %d scripts on a full server", injected, full)
	return injected, full
}

// Holds: promise 18.
func TestScriptsThatFailHaveDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	r, p, raw, prefix := probedRampage(t, 3)
	injected, full := failing(t, r, p, raw, prefix, testsize.Of(40, 600), func(n int) {
		if n%10 == 9 {
			audit(t, r.s, raw, prefix)
		}
	})
	if injected < 300 || full < 10 {
		t.Errorf("%d commands failed, and %d scripts on a full server: too few to tell", injected, full)
	}
}

func TestKeptScriptsThatFailHaveDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	r, p := strolling(t)
	injected, full := failing(t, r, p, r.raw, r.prefix, testsize.Of(100, 3000), func(int) {})
	if injected < 300 || full < 10 {
		t.Errorf("%d commands failed, and %d scripts on a full server: too few to tell", injected, full)
	}
}

// A full server takes nothing in, and takes the reports of what runs: these free more than they need.
func TestAFullServerTakesReports(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, ownServer(t).URL)
	raw, w := rawClient(t, c), joined(t, s, ttl)
	one := task.Spec{Queue: "q", Kind: "k"}
	limited := task.Spec{Queue: "q", Kind: "l", Limit: &task.Limit{Key: "l"}}
	enqueue(t, s, one, limited, limited, one)
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 3})
	if err != nil || len(f.Tasks) != 3 {
		t.Fatalf("fetch: %d, %v", len(f.Tasks), err)
	}
	if err := raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Queue.Enqueue(t.Context(), []task.Spec{one}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("enqueue: %v, want OOM", err)
	}
	var ends []driver.Completion
	for _, x := range f.Tasks {
		ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: driver.Success})
	}
	if a, err := s.Queue.Finish(t.Context(), w, ends); err != nil || slices.ContainsFunc(a, func(s driver.Status) bool { return s != driver.OK }) {
		t.Errorf("finish: %v, %v", a, err)
	}
	if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	audit(t, s, raw, "dibs:{"+c.Namespace+"}:")
	if f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 9}); err != nil || len(f.Tasks) != 1 {
		t.Errorf("fetch: %d, %v, want the one that waited for the slot", len(f.Tasks), err)
	}
}
