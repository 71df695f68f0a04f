package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs/internal/output"
)

// hostile is text that speaks to a terminal, in every way that there is.
const hostile = "a\x1b[2Jb\u009bc\u0085d\x7fe\u202ef\u2066g\u200fh\u061ci\u2028j\u2029k\rl\bm\xffn\U000E0041o"

// speaking reports what in a text would speak to a terminal.
func speaking(text string) (bad []string) {
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		if one := []byte(text[:n]); !bytes.Equal(output.Clean(one), one) {
			bad = append(bad, fmt.Sprintf("%q", text[:n]))
		}
		text = text[n:]
	}
	return bad
}

// JSON stays what it says: the escapes are its own.
func TestCleanedJSON(t *testing.T) {
	var out bytes.Buffer
	valid := strings.ToValidUTF8(hostile, "?")
	if err := writeJSON(output.NewCleaner(&out), map[string]string{valid: valid}); err != nil {
		t.Fatal(err)
	}
	if bad := speaking(out.String()); bad != nil {
		t.Errorf("it has %s: %s", bad, &out)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back[valid] != valid {
		t.Errorf("%v: %q", err, back)
	}
}

func TestCleanedLog(t *testing.T) {
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var out bytes.Buffer
		p := output.NewPrinter(output.NewCleaner(&out))
		output.Logger(p, handler).With(hostile, hostile).Error(hostile, "error", fmt.Errorf("%s", hostile), hostile, 1)
		p.Flush()
		if bad := speaking(out.String()); bad != nil || out.Len() == 0 {
			t.Errorf("%s: it has %s: %q", name, bad, &out)
		}
	}
}

// Printed names, commands, reasons and answers never control a terminal, whatever a store or an application
// put into them.
// Holds: promise 28.
func TestNothingThatIsPrintedSpeaksToATerminal(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 503 %s\r\nServer: %s\r\nContent-Length: %d\r\n\r\n%s", strings.NewReplacer("\r", "", "\n", "").Replace(hostile), "x\u009bx", len(hostile), hostile)
	}))
	defer app.Close()
	dir := t.TempDir()
	t.Setenv("DIBS_DIR", filepath.Join(dir, "host"))
	unset(t, "DIBS_STORE")
	none := filepath.Join(dir, "no-store")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DIBS_STORE_FILE", none)
	manifest := filepath.Join(dir, "jobs.json")
	text := fmt.Sprintf(`{"version": 1, "app": "app", "defaults": {"policy": {"concurrency_scope": "host", "retries": {"max_attempts": 1}}}, "jobs": [
		{"name": "ask", "schedule": "@every 1h", "request": {"url": %q}}]}`, app.URL)
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	valid := strings.ToValidUTF8(hostile, "")
	command := []string{"/nowhere/" + hostile, hostile}
	at := []string{"--store", filepath.Join(dir, hostile)}
	said := 0
	for _, args := range [][]string{
		{"run", "--key", valid, "--", "true"}, append([]string{"run", "--key", "k", "--"}, command...), {"run", "--key", "k", "--once-per", hostile, "--", "true"},
		append([]string{"run", "--key", "k"}, append(at, "--", "true")...), {"run", "--key", "k", "--store", hostile, "--", "true"}, {hostile}, {"--" + hostile},
		{"trigger", "app.ask", "--now", "--manifest", manifest, "--reason", hostile}, {"trigger", "app." + hostile, "--manifest", manifest},
		{"trigger", "app.ask", "--manifest", manifest + hostile}, {"validate", manifest + hostile}, {"validate", manifest + hostile, "-o", "json"},
		{"next", hostile}, {"next", "* * * * *", "--tz", hostile}, {"job", "show", hostile}, {"job", "pause", "app/ask", "--reason", hostile},
		{"task", "enqueue", "kind", "--queue", "q", "--unique-key", valid, "--args", `{"x":"` + "\u009b\u202e" + `"}`}, {"task", "enqueue", hostile},
		{"queue", "pause", "q", "--reason", hostile}, {"queue", "limit", valid, "1"},
		{"history"}, {"history", "-o", "json"}, {"history", "--events"}, {"history", "--events", "-o", "json"}, {"lease", "list", "--free"}, {"lease", "list", "-o", "json"},
		{"lease", "show", valid}, {"job", "list"}, {"job", "list", "-o", "json"}, {"task", "list"}, {"task", "list", "-o", "json"}, {"task", "show", "1"},
		{"queue", "list"}, {"queue", "show", "q"}, {"explain", "app/ask"}, {"explain", "k", "-o", "json"}, {"doctor"}, {"doctor", "-o", "json"},
	} {
		var out bytes.Buffer
		Exec(t.Context(), args, strings.NewReader(""), &out, &out)
		if bad := speaking(out.String()); bad != nil {
			t.Errorf("dibs %q prints %s:\n%q", args, bad, &out)
		}
		if strings.Contains(out.String(), `[2Jb`) || strings.Contains(out.String(), `u009b`) {
			said++
		}
	}
	if said < 20 {
		t.Errorf("%d commands printed hostile text: too few to show anything", said)
	}
}

// Durations have their unit in JSON, as everywhere in what dibs writes for programs.
func TestDurationsOfTheLogHaveAUnit(t *testing.T) {
	var out bytes.Buffer
	p := output.NewPrinter(output.NewCleaner(&out))
	serveOptions{logJSON: true}.logger(p).Info("x", "wait", 1500*time.Millisecond, slog.Group("g", "drain", 12*time.Second))
	p.Flush()
	if text := out.String(); !strings.Contains(text, `"wait_seconds":1.5`) || !strings.Contains(text, `"g":{"drain_seconds":12}`) {
		t.Error(text)
	}
}
