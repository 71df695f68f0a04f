package queuetest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/queuetest"
	"github.com/dibs-run/dibs/task"
)

type mail struct{ To int }

var welcome = queue.Define[mail]("welcome")

// A signup is the code under test: it enqueues.
func signup(ctx context.Context, c *queue.Client, user int) error {
	s := welcome.Spec(mail{To: user})
	s.Unique = &queue.Unique{Key: "welcome"}
	_, err := c.Enqueue(ctx, s)
	return err
}

func TestAProgramsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := queuetest.New(t)
		for range 2 {
			if err := signup(t.Context(), k.Client, 7); err != nil {
				t.Fatal(err)
			}
		}
		if tasks := k.Tasks("welcome"); len(tasks) != 1 || string(tasks[0].Args) != `{"To":7}` {
			t.Fatalf("enqueued: %+v", tasks)
		}
		var sent []int
		m := &queue.Mux{}
		welcome.Handle(m, func(_ context.Context, r *queue.Run, to mail) error {
			if r.Attempt == 1 {
				return errors.New("try again")
			}
			sent = append(sent, to.To)
			return nil
		}, queue.Handler{Backoff: func(int, error) time.Duration { return time.Hour }})
		k.Work(m)
		if s := k.Tasks("welcome")[0].State; s != task.Retryable || len(sent) != 0 {
			t.Fatalf("after the first attempt: %s, sent %v", s, sent)
		}
		time.Sleep(time.Hour)
		k.Work(m)
		if s := k.Tasks("welcome")[0].State; s != task.Succeeded || len(sent) != 1 {
			t.Fatalf("after an hour: %s, sent %v", s, sent)
		}
	})
}

func TestWorkLeavesWhatItDoesNotKnow(t *testing.T) {
	k := queuetest.New(t)
	if _, err := k.Client.EnqueueMany(t.Context(), []queue.Spec{{Kind: "other"}, welcome.Spec(mail{1})}); err != nil {
		t.Fatal(err)
	}
	m := &queue.Mux{}
	welcome.Handle(m, func(context.Context, *queue.Run, mail) error { return nil }, queue.Handler{})
	k.Work(m)
	if a, b := k.Tasks("other")[0].State, k.Tasks("welcome")[0].State; a != task.Available || b != task.Succeeded {
		t.Errorf("other is %s, welcome %s", a, b)
	}
}

// inner is a test within a test.
type inner struct {
	testing.TB
	failed, skipped bool
}

func (i *inner) FailNow()      { i.failed = true; runtime.Goexit() }
func (i *inner) SkipNow()      { i.skipped = true; runtime.Goexit() }
func (i *inner) Failed() bool  { return i.failed }
func (i *inner) Skipped() bool { return i.skipped }

// A handler that ends the test, as an assertion does, ends it where it was worked; nothing hangs.
func TestAHandlerMayEndTheTest(t *testing.T) {
	for name, end := range map[string]func(testing.TB){
		"FailNow": testing.TB.FailNow,
		"SkipNow": testing.TB.SkipNow,
	} {
		synctest.Test(t, func(t *testing.T) {
			in, after := &inner{TB: t}, false
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				k := queuetest.New(in)
				if _, err := k.Client.Enqueue(t.Context(), welcome.Spec(mail{1})); err != nil {
					t.Error(err)
				}
				m := &queue.Mux{}
				welcome.Handle(m, func(context.Context, *queue.Run, mail) error { end(in); return nil }, queue.Handler{})
				defer func() {
					if tasks := k.Tasks(""); tasks[0].State != task.Retryable || tasks[0].Attempts != 1 {
						t.Errorf("%s: %+v", name, tasks[0])
					}
				}()
				k.Work(m)
				after = true
			}()
			<-ended
			if in.failed != (name == "FailNow") || in.skipped != (name == "SkipNow") || after {
				t.Errorf("%s: failed %v, skipped %v, went on %v", name, in.failed, in.skipped, after)
			}
		})
	}
}
