//go:build linux

package nested

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/task"
)

// as asks a server on a connection of a user, whoever runs the test.
func (s *Server) as(t *testing.T, uid uint32, token string) (a answer) {
	t.Helper()
	way, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.name + "-" + fmt.Sprint(uid), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	mine, err := net.Dial("unix", way.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	theirs, err := way.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := send(mine, request{token, []task.Spec{{Kind: "k"}}}); err != nil {
		t.Fatal(err)
	}
	s.serve(theirs, uid)
	if err := receive(mine, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// A token is good for the user whose command has it, and for root. Who has no command here gets no connection.
func TestATokenIsOfItsUser(t *testing.T) {
	s := listen(t, func(context.Context, []task.Spec) ([]task.Enqueued, error) { return []task.Enqueued{{ID: 7}}, nil })
	variable, leave := s.Admit(4711)
	_, token, _ := strings.Cut(variable, "/")
	for uid, want := range map[uint32]bool{4711: true, 4712: false, 0: true} {
		if a := s.as(t, uid, token); (a.Error == "") != want || want != (len(a.Enqueued) == 1) {
			t.Errorf("user %d: %+v", uid, a)
		}
	}
	if a := s.as(t, 4711, "FORGED"); a.Error == "" {
		t.Errorf("a forged token: %+v", a)
	}
	if err := s.enter(4712); !errors.Is(err, errStranger) {
		t.Errorf("a stranger: %v", err)
	}
	leave()
	if a := s.as(t, 4711, token); a.Error == "" {
		t.Errorf("after the command's end: %+v", a)
	}
	if err := s.enter(4711); !errors.Is(err, errStranger) {
		t.Errorf("after the command's end: %v", err)
	}
}

// A user has so many connections at a time, and as many again when they have ended, whatever others have.
func TestConnectionsOfAUserAreBounded(t *testing.T) {
	s := listen(t, func(context.Context, []task.Spec) ([]task.Enqueued, error) { return nil, nil })
	for _, uid := range []uint32{4711, 4712} {
		_, leave := s.Admit(uid)
		defer leave()
	}
	for range 3 {
		for i := range perUser {
			if err := s.enter(4711); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
		if err := s.enter(4711); !errors.Is(err, errBusy) {
			t.Errorf("one too many: %v", err)
		}
		if err := s.enter(4712); err != nil {
			t.Errorf("another user: %v", err)
		}
		s.exit(4712)
		for range perUser {
			s.exit(4711)
		}
	}
}

// Many tasks go in several steps, and each is answered. An answer that is too short for its step is none.
func TestManyTasksGoInSteps(t *testing.T) {
	var kinds []string
	short := 0
	s := listen(t, func(_ context.Context, specs []task.Spec) (all []task.Enqueued, err error) {
		if len(specs) > mostSpecs {
			t.Errorf("%d in one step", len(specs))
		}
		for _, spec := range specs[:len(specs)-short] {
			kinds = append(kinds, spec.Kind)
			all = append(all, task.Enqueued{ID: task.ID(len(kinds))})
		}
		return all, nil
	})
	variable, leave := s.Admit(me())
	defer leave()
	specs := make([]task.Spec, 2*mostSpecs+1)
	for i := range specs {
		specs[i].Kind = fmt.Sprint(i)
	}
	got, err := clientOf(variable).EnqueueMany(t.Context(), specs)
	if err != nil || len(got) != len(specs) || len(kinds) != len(specs) {
		t.Fatalf("%d of %d answered, %d came, %v", len(got), len(specs), len(kinds), err)
	}
	for i := range specs {
		if kinds[i] != specs[i].Kind || got[i].ID != task.ID(i+1) {
			t.Fatalf("task %d came as %s, and was answered %+v", i, kinds[i], got[i])
		}
	}
	short = 1
	if got, err := clientOf(variable).EnqueueMany(t.Context(), specs[:2]); !errors.Is(err, ErrUnreachable) {
		t.Errorf("answered %+v, %v", got, err)
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("it was read")
	return 0, io.EOF
}

// A message that says to be too long is not read.
func TestALongMessageIsNotRead(t *testing.T) {
	size := binary.BigEndian.AppendUint32(nil, maxFrame+1)
	var a answer
	if err := receive(io.MultiReader(strings.NewReader(string(size)), unread{t}), &a); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

// counted counts what is read of a message.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

// message is a request as a hostile command may write it.
func message(text string) *counted {
	return &counted{r: strings.NewReader(string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text)}
}

// Of a message with a false token, nothing is read behind the token.
func TestAFalseTokenCostsNothing(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, text := range map[string]string{
		"a false token": `{"token":"false","specs":[{"kind":"` + long + `"}]}`,
		"a long token":  `{"token":"` + long + `"}`,
		"no token":      `{"specs":[{"kind":"` + long + `"}],"token":"true"}`,
		"another form":  `[{"kind":"` + long + `"}]`,
		"spaces":        strings.Repeat(" ", 1<<20) + `{"token":"true"}`,
	} {
		m := message(text)
		if specs, err := receiveSpecs(m, func(token string) bool { return token == "true" }); err == nil || m.n > 4+mostToken {
			t.Errorf("%s: %d tasks, %v, after %d bytes", name, len(specs), err, m.n)
		}
	}
}

// A message costs about as much memory as it has bytes, whatever they mean.
func TestAMessageCostsItsBytes(t *testing.T) {
	fill := func(before, each, after string) string {
		return before + strings.Repeat(each, (maxFrame-len(before)-len(after))/len(each)) + after
	}
	const head = `{"token":"true","specs":[`
	for name, c := range map[string]struct{ text, says string }{
		"empty tasks":     {fill(head, `{},`, `{}]}`), "kind"},
		"small tasks":     {fill(head, `{"kind":"k"},`, `{}]}`), "more than 1000 tasks"},
		"tags":            {fill(head+`{"kind":"k","tags":[`, `"",`, `""]}]}`), "beside them"},
		"fields":          {fill(head+`{"kind":"k"`, `,"x":1`, `}]}`), "beside them"},
		"arguments twice": {fill(head+`{"kind":"k"`, `,"args":[]`, `}]}`), "beside them"},
		"pauses":          {fill(head+`{"kind":"k","backoff":{"list":[`, `1,`, `1]}}]}`), "beside them"},
		"arguments":       {fill(head+`{"kind":"k","args":[`, `0,`, `0]}]}`), "beside them"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		specs, err := receiveSpecs(message(c.text), func(string) bool { return true })
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.says) || specs != nil {
			t.Errorf("%s: %d tasks, %v", name, len(specs), err)
		}
		// The text itself, the buffer that grows to it, and a copy of it.
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 8*maxFrame {
			t.Errorf("%s: %d MiB for %d MiB", name, spent>>20, maxFrame>>20)
		}
	}
}
