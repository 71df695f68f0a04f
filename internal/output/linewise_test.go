package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs/run"
)

// logged is a line of the JSON log that tells of output.
type logged struct {
	Time                            time.Time
	Event, Job, Stream, Line, Level string
	RunID                           string `json:"run_id"`
	Partial                         bool
	Lines                           int
}

func decodeLines(t *testing.T, text string) (all []logged) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logged
		if err := json.Unmarshal([]byte(line), &l); err != nil || !utf8.ValidString(line) || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// Each line of a run is a line of the JSON log: with its stream, whole, also where the last one has no end; a
// long one comes in pieces that can be put together, and no bytes break the JSON.
func TestLinesInTheJSONLog(t *testing.T) {
	var out log
	long := strings.Repeat("ä", maxLine) + "!"
	record := run.Record{ID: "id-1", Job: "app/j"}
	c := &Captured{Log: NewLineLog(&out).Of(OfRun(record)...), Keep: func([]byte) {}}
	for _, p := range []struct {
		s    run.Stream
		text string
	}{
		{run.Stdout, "one\ntw"}, {run.Stderr, "oh\n"}, {run.Stdout, "o\n\n"}, {run.Stderr, "half"},
		{run.Stdout, "\x1b[31m\xff\x00\u009b\"\\\n"}, {run.Stdout, long + "\n"}, {run.Stderr, " a line"},
		{run.Stdout, strings.Repeat("x", maxLine)}, {run.Stdout, "\nlast"},
	} {
		if n, err := c.WriteStream(p.s, []byte(p.text)); n != len(p.text) || err != nil {
			t.Fatal(n, err)
		}
	}
	_ = c.Close()
	got := map[string][]string{}
	piece := ""
	for _, l := range decodeLines(t, out.String()) {
		if l.Event != "output" || l.Job != "app/j" || l.RunID != "id-1" || l.Level != "INFO" || l.Time.IsZero() || len(l.Line) > maxLine {
			t.Errorf("%.300v", l)
		}
		if piece += l.Line; !l.Partial {
			got[l.Stream] = append(got[l.Stream], piece)
			piece = ""
		}
	}
	want := map[string][]string{"stdout": {"one", "two", "", "\x1b[31m\uFFFD\x00\u009b\"\\", long, strings.Repeat("x", maxLine), "last"}, "stderr": {"oh", "half a line"}}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got %.2000q", got)
	}
}

// However much is printed without a line end, what is held of it is bounded, and nothing is lost.
func TestAFloodWithoutLineEnds(t *testing.T) {
	total, most := 0, 0
	l := &Lines{Put: func(_ run.Stream, b []byte, partial bool) { total += len(b); most = max(most, len(b)) }}
	block := bytes.Repeat([]byte{0xff}, 10_007)
	for range 1000 {
		l.Write(run.Stderr, block)
		if held := cap(l.rest[1]); held > 4*(maxLine+len(block)) {
			t.Fatalf("%d bytes are held", held)
		}
	}
	if l.End(); total != 1000*len(block) || most > maxLine {
		t.Errorf("%d bytes, %d at once", total, most)
	}
}

// A log that nobody reads holds up no run, and loses none of what dibs itself logs. How much output is missing
// is said.
func TestAJSONLogThatNobodyReads(t *testing.T) {
	var out log
	out.Lock()
	stderr := NewPrinter(&out)
	lines := NewLineLog(stderr)
	own := Logger(stderr, func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) })
	c := &Captured{Log: lines.Of(), Keep: func([]byte) {}}
	const n = 4 * maxQueued / 1000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			fmt.Fprintln(c, strings.Repeat("x", 999))
		}
		_ = c.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the run waits for a reader")
	}
	own.Log(t.Context(), slog.LevelError, "of dibs itself", "event", "own")
	out.Unlock()
	got := map[string]int{}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stderr.Flush()
		if lines.to.queue.Flush(time.Second) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the log does not go on")
		}
	}
	lines.to.Flush()
	for _, l := range decodeLines(t, out.String()) {
		got[l.Event]++
		got["missing"] += l.Lines
	}
	if got["own"] != 1 || got["missing"] == 0 || got["output"]+got["missing"] != n {
		t.Errorf("of %d lines: %v", n, got)
	}
}
