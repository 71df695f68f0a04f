package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/memory"
)

// Commands reach the store through their server also after a reload that was refused.
func TestCommandsStillEnqueueAfterARefusedReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(user string) {
		t.Helper()
		text := "version: 1\napp: shop\njobs:\n  - {name: j, schedule: '@every 1h', command: ['true']" + user + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	serves := make(chan State, 10)
	s, err := New(Store{Opened: memory.New(memory.Options{}).Store()}, Manifest{From: path},
		Options{Logger: slog.New(slog.DiscardHandler), OnState: func(s State) { serves <- s }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-serves:
	case err := <-ended:
		t.Fatal(err)
	}
	write(", user: nobody-is-called-so")
	var r *Refusal
	if err := s.Reload(t.Context()); !errors.As(err, &r) {
		t.Errorf("%v, want a refusal", err)
	}
	env, leave := s.inner.Enter(nil)
	via, _ := strings.CutPrefix(env[0], nested.Variable+"=")
	if got, err := (nested.Client{Via: via}).EnqueueMany(t.Context(), []queue.Spec{{Kind: "k"}}); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	leave()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
