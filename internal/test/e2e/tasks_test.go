//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/task"
)

// A worker whose command does not heed SIGTERM ends by itself: the command is killed, its task is handed back, and
// none is left to the lapse of a lease.
// Holds: promise 19.
func TestADeafTaskIsKilledAndHandedBack(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.must("task", "enqueue", "k")
	deaf := w.work("deaf", work{For: time.Hour, Deaf: true, Family: true})
	p := w.dibs(append([]string{"work", "default", "--grace", "1s", "--stop-grace", "1s", "--"}, deaf...)...)
	family := w.worksWithFamily("deaf")
	p.signal(syscall.SIGTERM)
	p.exits(0, patience)
	w.gone(time.Now(), patience, family)
	if all := w.tasks("--state", "available"); len(all) != 1 {
		t.Errorf("handed back: %+v; all: %+v\n%s", all, w.tasks(), p)
	}
}

// A task that finds its key with a transaction that does not end is neither enqueued nor a duplicate: status 75.
// Holds: Q2.
func TestUndecidedIsAStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "postgres", testserver.Postgres(t), usualTTL)
	address, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), testserver.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	order := task.Spec{Kind: "invoice", Unique: &task.Unique{Key: "order-7"}}
	if _, err := queue.EnqueueIn(t.Context(), postgres.QueueTx(tx, address.Query().Get("namespace")), order); err != nil {
		t.Fatal(err)
	}
	p := w.dibs("task", "enqueue", "invoice", "--unique-key", "order-7")
	p.exits(75, patience)
	if !strings.Contains(p.stdout(), "undecided: nothing was enqueued") || !strings.Contains(p.stderr(), "order-7") {
		t.Error(p)
	}
	p = w.dibs("task", "enqueue", "invoice", "--unique-key", "order-7", "-o", "json")
	p.exits(75, patience)
	if !strings.Contains(p.stdout(), `"outcome": "undecided"`) || strings.Contains(p.stdout(), `"id"`) {
		t.Error(p)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.must("task", "enqueue", "invoice", "--unique-key", "order-7")
}

// Hooks are told what happens to tasks: a webhook, signed, a ping, and a command; and the log has a line for what
// failed.
// Holds: promise 24.
func TestHooksOfTasks(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	var mu sync.Mutex
	var pings []string
	var posts []map[string]any
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/ping") {
			pings = append(pings, r.URL.Path)
			return
		}
		var facts map[string]any
		if err := json.Unmarshal(body, &facts); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(r.Header.Get("X-Cron-Signature"), "t=") || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("headers: %v", r.Header)
		}
		posts = append(posts, facts)
	}))
	defer srv.Close()
	w.write("target", "ping:"+srv.URL+"/ping\n")
	w.write("secret", "s3cret\n")
	w.must("task", "enqueue", "good", "--tag", "a")
	w.must("task", "enqueue", "bad", "--max-attempts", "2", "--backoff", "100ms")
	p := w.dibs("work", "default", "--hook", "retry,failure,success="+srv.URL+"/hook", "--hook-secret", "file:"+w.path("secret"),
		"--hook", "success,failure=file:"+w.path("target"), "--hook", `retry=echo "$DIBS_HOOK $DIBS_HOOK_KIND $DIBS_HOOK_TASK $DIBS_HOOK_ATTEMPT $(cat)" >> `+w.path("hooked"),
		"--", "/bin/sh", "-c", `echo working on $DIBS_KIND; test $DIBS_KIND = good || exit 3`)
	told := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(posts) >= 3 && len(pings) >= 2 && w.read("hooked") != ""
	}
	eventually(t, patience, told, func() string { return fmt.Sprint(posts, pings, w.read("hooked"), p) })
	stop(p)
	mu.Lock()
	defer mu.Unlock()
	got := map[string]int{}
	for _, f := range posts {
		got[fmt.Sprint(f["event"], " ", f["kind"], " ", f["attempt"], " ", f["outcome"])]++
	}
	if len(posts) != 3 || got["success good 1 succeeded"] != 1 || got["retry bad 1 failed"] != 1 || got["failure bad 2 failed"] != 1 {
		t.Errorf("posted: %v", posts)
	}
	if text := strings.Join(pings, " "); len(pings) != 2 || !strings.Contains(text, "/ping/fail") {
		t.Errorf("pinged: %q", pings)
	}
	if text := w.read("hooked"); strings.Count(text, "\n") != 2 || !strings.HasPrefix(text, "retry bad 2 1 {") || !strings.Contains(text, "working on bad") {
		t.Errorf("the command was told %q", text)
	}
	if text := p.stderr(); strings.Count(text, `level=WARN msg="a task`) != 2 || !strings.Contains(text, "a task failed; it will not be tried again") || !strings.Contains(text, "exit status 3") {
		t.Errorf("the log says\n%s", text)
	}
}
