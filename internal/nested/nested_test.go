//go:build linux

package nested

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

func listen(t *testing.T, enqueue Enqueue) *Server {
	t.Helper()
	s, err := Listen(enqueue)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func clientOf(variable string) Client {
	_, via, _ := strings.Cut(variable, "=")
	return Client{Via: via}
}

func me() uint32 { return uint32(os.Getuid()) }

// What a command asks for arrives as it is, and so does the answer.
func TestASpecArrivesAsItIs(t *testing.T) {
	var got []task.Spec
	s := listen(t, func(_ context.Context, specs []task.Spec) (all []task.Enqueued, err error) {
		got = specs
		return []task.Enqueued{{Answer: task.New, ID: 7, State: task.Available}, {Answer: task.Duplicate, ID: 3, State: task.Running}}, nil
	})
	variable, leave := s.Admit(me())
	defer leave()
	at := time.Date(2026, 11, 1, 4, 15, 0, 1000, time.UTC)
	want := []task.Spec{{Queue: "mail", Kind: "send", Args: json.RawMessage(`{"to":7,"x":"\u001b"}`), Priority: 3, RunAt: at, Delay: time.Second, ExpiresAt: at.Add(time.Hour),
		Unique:  &task.Unique{Key: "k", Until: task.UntilStarted, Again: task.Replace, MaxWait: time.Minute, Shared: true},
		Limit:   &task.Limit{Key: "l", Max: 3, Shared: true, OnContention: "discard"},
		Options: task.Options{MaxAttempts: 4, RetryUntil: at, Timeout: time.Minute, Backoff: &task.Backoff{List: []time.Duration{1, 2}}, MaxCrashes: 2, MaxSnoozes: 9, Tags: []string{"a", "b"}}},
		{Kind: "other", Args: json.RawMessage(`null`)}}
	a, err := clientOf(variable).EnqueueMany(t.Context(), want)
	if err != nil || len(a) != 2 || a[0].ID != 7 || a[1].Answer != task.Duplicate {
		t.Errorf("answered %+v, %v", a, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it got\n%+v, want\n%+v", got, want)
	}
}

// Only a command that runs is answered, and no longer than it runs.
func TestOnlyARunningCommandIsAnswered(t *testing.T) {
	asked := 0
	s := listen(t, func(context.Context, []task.Spec) ([]task.Enqueued, error) {
		asked++
		return []task.Enqueued{{}}, nil
	})
	variable, leave := s.Admit(me())
	other, leaveOther := s.Admit(me() + 4711)
	defer leaveOther()
	step := []task.Spec{{Kind: "k"}}
	if _, err := clientOf(variable).EnqueueMany(t.Context(), step); err != nil {
		t.Error(err)
	}
	forged := Client{Via: s.name + "/FORGED"}
	if _, err := forged.EnqueueMany(t.Context(), step); err == nil {
		t.Error("a forged token was taken")
	}
	if _, err := clientOf(other).EnqueueMany(t.Context(), step); err == nil && me() != 0 {
		t.Error("another user's token was taken")
	}
	leave()
	if _, err := clientOf(variable).EnqueueMany(t.Context(), step); err == nil {
		t.Error("the command has ended, and is answered")
	}
	want := 1
	if me() == 0 { // root may be whoever it wants to be
		want = 2
	}
	if asked != want {
		t.Errorf("the store was asked %d times", asked)
	}
	s.Close()
	if _, err := clientOf(variable).EnqueueMany(t.Context(), step); !errors.Is(err, ErrUnreachable) || !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := (Client{Via: Unreachable}).EnqueueMany(t.Context(), step); !errors.Is(err, ErrUnreachable) {
		t.Errorf("where there is no way in: %v", err)
	}
}

// An error keeps its meaning on the way.
func TestAnErrorKeepsItsMeaning(t *testing.T) {
	var fails error
	s := listen(t, func(context.Context, []task.Spec) ([]task.Enqueued, error) { return nil, fails })
	variable, leave := s.Admit(me())
	defer leave()
	for _, is := range []error{queue.ErrUnavailable, errors.ErrUnsupported} {
		fails = fmt.Errorf("enqueue: %w", is)
		if _, err := clientOf(variable).EnqueueMany(t.Context(), []task.Spec{{Kind: "k"}}); !errors.Is(err, is) || err.Error() != fails.Error() {
			t.Errorf("%v arrived as %v", fails, err)
		}
	}
	fails = errors.New("else")
	if _, err := clientOf(variable).EnqueueMany(t.Context(), []task.Spec{{Kind: "k"}}); err == nil || errors.Is(err, queue.ErrUnavailable) || err.Error() != "else" {
		t.Errorf("it arrived as %v", err)
	}
}

// Many at once have their turns, each is answered once, and who says nothing keeps nobody out for ever.
func TestManyHaveTheirTurns(t *testing.T) {
	var mu sync.Mutex
	taken := map[string]int{}
	s := listen(t, func(_ context.Context, specs []task.Spec) ([]task.Enqueued, error) {
		mu.Lock()
		defer mu.Unlock()
		taken[specs[0].Kind]++
		return make([]task.Enqueued, len(specs)), nil
	})
	variable, leave := s.Admit(me())
	defer leave()
	for range perUser - 1 {
		c, err := net.Dial("unix", s.name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	const crowd = 50
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			if _, err := clientOf(variable).EnqueueMany(t.Context(), []task.Spec{{Kind: fmt.Sprint(i)}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for kind, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", kind, n)
		}
	}
	if len(taken) != crowd {
		t.Errorf("%d were taken", len(taken))
	}
}

// What is no request costs neither memory nor the process.
func TestGarbageIsRefused(t *testing.T) {
	s := listen(t, func(context.Context, []task.Spec) ([]task.Enqueued, error) { panic("it was taken") })
	_, leave := s.Admit(me())
	defer leave()
	for _, garbage := range []string{"", "\xff\xff\xff\xff", "\x00\x00\x00\x02{}", "\x00\x00\x00\x02[]", "\x00\x10\x00\x00x", "GET / HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("unix", s.name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(garbage))
		_ = c.(*net.UnixConn).CloseWrite()
		var a answer
		if err := receive(c, &a); err != nil || a.Error == "" {
			t.Errorf("%q: %+v, %v", garbage, a, err)
		}
		c.Close()
	}
}
