package serve_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
)

// opened is a store; a program opens its own: postgres.Open(ctx, url), redis.Open(ctx, url), …
func opened() *store.Store { return memory.New(memory.Options{}).Store() }

// declared is the path of a manifest.
func declared() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "jobs.yaml")
	text := "version: 1\napp: shop\njobs:\n  - {name: hello, schedule: '@every 1s', command: [echo, good morning]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		log.Fatal(err)
	}
	return path
}

// first passes on what is printed first, and stops the server then.
type first struct{ stop func() }

func (f first) Write(b []byte) (int, error) {
	f.stop()
	return os.Stdout.Write(b)
}

// A program serves the jobs of a manifest until its context ends. Its main begins with command.GuardianMain.
func ExampleServer_Run() {
	ctx, stop := context.WithCancel(context.Background()) // a program's ends on SIGTERM
	s, err := serve.New(serve.Store{Opened: opened()}, serve.Manifest{From: declared()}, serve.Options{Logger: quiet, Output: first{stop}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("error:", s.Run(ctx))
	// Output:
	// hello | good morning
	// error: <nil>
}

// A program fires one job, as cron would on every server: one of them runs it.
func ExampleJob_Trigger() {
	ctx := context.Background()
	j, err := serve.Find(ctx, serve.Store{Opened: opened()}, serve.Manifest{From: declared()}, "shop/hello", serve.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer j.Close(ctx)
	fired, err := j.Trigger(ctx, serve.Fire{Manual: &serve.Manual{By: "Ann", Why: "a customer waits"}})
	fmt.Println(fired.Outcome, err)
	// Output: succeeded <nil>
}
