package crontab

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy"
)

// inMemory is a target without a disk, for many applies.
type inMemory struct {
	layout
	text   string
	exists bool
	writes int
}

func (m *inMemory) String() string                       { return "memory" }
func (m *inMemory) Lock(context.Context) (func(), error) { return func() {}, nil }
func (m *inMemory) Read(context.Context) (deploy.Image, error) {
	return newImage(m.layout, "memory", m.exists, m.text)
}
func (m *inMemory) Write(_ context.Context, _, to deploy.Image) error {
	d := to.Documents()[0]
	m.text, m.exists, m.writes = d.Text, d.Exists, m.writes+1
	return nil
}

// others are lines of other people, as they are found.
var others = []string{"", "# dibs is nice", "#dibs:entry x", "  # indented", "\t", "MAILTO=ops", " A = 'b c' ", "PATH=/x:/y",
	"15 4 1 * * root /bin/true", "@reboot root start", "* * * * * root date +\\%F%input%more", "not a line", "= = =", "\x00\xff",
	"\"quoted name\"=x", "# cronix:owned app=shop job=zzz hash=1 idx=0", "0 0 * * * root x\r", "CRON_TZ=UTC", "'"}

func drawForeign(t *rapid.T) []string {
	lines := rapid.SliceOfN(rapid.SampledFrom(others), 0, 12).Draw(t, "foreign")
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l + rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "end")
	}
	if n := len(out); n > 0 && rapid.Bool().Draw(t, "bare") {
		if out[n-1] = strings.TrimRight(out[n-1], "\r\n"); out[n-1] == "" {
			out = out[:n-1]
		}
	}
	return out
}

func drawEntries(t *rapid.T) (all []deploy.Entry) {
	for _, job := range []string{"a", "b", "c"} {
		for index := range rapid.IntRange(0, 2).Draw(t, job) {
			e := wanted(job, rapid.SampledFrom([]string{"0 7 * * *", "*/5 * * * MON-FRI", "@daily"}).Draw(t, "when"))
			e.Index = index
			e.Command = append(e.Command, fmt.Sprint(index))
			all = append(all, e)
		}
	}
	return all
}

// foreignText is all that is not in blocks.
func foreignText(t *rapid.T, text string) string {
	parts, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := parts.String(); got != text {
		t.Fatalf("read %q, wrote %q", text, got)
	}
	var b strings.Builder
	for _, p := range parts {
		if p.block == nil {
			b.WriteString(p.raw)
		}
	}
	return b.String()
}

// After a hundred random applies, prunes, ejects and adoptions, what others wrote is the same to the byte. What was
// ejected is adopted again, so at the end all of dibs's goes by pruning, and the table is what it was.
func TestForeignBytesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := drawForeign(t)
		start := strings.Join(lines, "")
		m := &inMemory{layout: layout{Options: Options{LineByLine: true}, system: true}, text: start, exists: true}
		ctx := context.Background()
		whole := start // with the line end that an ejected entry below it leaves
		for range 100 {
			entries := drawEntries(t)
			op := rapid.SampledFrom([]string{"install", "prune", "eject+adopt", "overwrite"}).Draw(t, "op")
			var requests []deploy.Request
			switch op {
			case "install":
				requests = []deploy.Request{install(entries...)}
			case "overwrite":
				requests = []deploy.Request{deploy.Install{App: "shop", Entries: entries, Overwrite: true}}
			case "prune":
				requests = []deploy.Request{deploy.Prune{App: "shop", Entries: entries}}
			case "eject+adopt":
				requests = []deploy.Request{deploy.Prune{App: "shop"}, install(entries...), deploy.Eject{App: "shop"}, deploy.Adopt{Entries: entries}}
				if len(entries) > 0 && start != "" && !strings.HasSuffix(start, "\n") {
					whole = start + "\n"
				}
			}
			for _, r := range requests {
				if _, err := deploy.Apply(ctx, m, r, ""); err != nil {
					t.Fatal(err)
				}
				writes, text := m.writes, m.text
				if _, eject := r.(deploy.Eject); !eject {
					if p, err := deploy.Apply(ctx, m, r, ""); err != nil || p.Changes() || m.writes != writes || m.text != text {
						t.Fatalf("%s a second time wrote: %v", op, err)
					}
				}
			}
			if foreign := foreignText(t, m.text); strings.TrimSuffix(foreign, "\n") != strings.TrimSuffix(start, "\n") {
				t.Fatalf("after %s:\n%q, was\n%q", op, foreign, start)
			}
		}
		if _, err := deploy.Apply(ctx, m, deploy.Prune{App: "shop"}, ""); err != nil {
			t.Fatal(err)
		}
		if m.text != whole {
			t.Fatalf("%q, want %q", m.text, whole)
		}
	})
}

// The words of a command reach the program as they are, through two readings of the percent sign and the
// backslash that crons have, and through sh.
func TestQuoting(t *testing.T) {
	alphabet := rapid.StringOfN(rapid.SampledFrom([]rune("\\\\\\%%%'\"$`! ~#*;&|ab\té")), 0, 12, -1)
	var want []string
	var script strings.Builder
	rapid.Check(t, func(t *rapid.T) {
		word := alphabet.Draw(t, "word")
		text := quote(word)
		for _, strips := range []bool{false, true} {
			line, ok := vixie(text, strips)
			if !ok {
				t.Fatalf("%q as %q ends in a percent sign", word, text)
			}
			script.WriteString("printf '%s\\n' " + line + "\n")
			want = append(want, word)
		}
		if got, err := words(strings.ReplaceAll(text, `\%`, "%")); err == nil && (len(got) != 1 || got[0] != word) {
			t.Fatalf("%q is read back as %q", word, got)
		}
	})
	cmd := exec.Command("/bin/sh")
	cmd.Stdin = strings.NewReader(script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, want) {
		t.Error("sh reads other words")
	}
}

// vixie is what cron hands to sh; strips: a backslash before another one goes too, as in some crons.
func vixie(command string, strips bool) (string, bool) {
	var b []byte
	escaped := false
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case escaped:
			if c == '%' || c == '\\' && strips {
				b = b[:len(b)-1]
			}
			escaped = false
		case c == '\\':
			escaped = true
		case c == '%':
			return "", false
		}
		b = append(b, c)
	}
	return string(b), true
}

// Any table that is read is written the same to the byte.
func FuzzParse(f *testing.F) {
	for _, line := range others {
		f.Add(line + "\n")
	}
	f.Add("# dibs:entry shop/mail#0 spec=1 text=2\r\nx\r\n# dibs:end shop/mail#0\r\nlast")
	f.Add("a\n# dibs:entry shop/mail#0\n# dibs:end shop/mail#0")
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := parse(text)
		if err != nil {
			return
		}
		if got := parts.String(); got != text {
			t.Fatalf("read %q, wrote %q", text, got)
		}
		m, err := newImage(layout{system: true, users: func(string) (bool, error) { return false, nil }}, "x", true, text)
		if err != nil {
			t.Fatal(err)
		}
		m.Problems()
		m.Foreign()
		e := wanted("new", "@daily")
		e.App = "fuzz"
		added, err := m.Edit([]deploy.Edit{{Op: deploy.Put, ID: e.ID, Text: "x\n"}})
		if err != nil {
			return // it is there already
		}
		back, err := added.Edit([]deploy.Edit{{Op: deploy.Remove, ID: e.ID}})
		if err != nil {
			t.Fatal(err)
		}
		if got := back.Documents()[0].Text; got != text && got != text+"\n" {
			t.Fatalf("was %q, is %q", text, got)
		}
		if _, _, err := Import([]byte(text), importOptions()); err != nil && !strings.HasPrefix(err.Error(), "it has no entries") && !strings.HasPrefix(err.Error(), "no entry could") {
			t.Fatalf("an import of %q: %v", text, err) // one line stops all others
		}
	})
}
