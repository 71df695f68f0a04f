//go:build linux

package pages

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// names are what the pages' fragments speak of.
const names = `package main

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dibstest"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store/postgres"
)

type (
	User struct{ Name string }
	user = User
)

var (
	_       = dibstest.New
	_       = (*testing.T)(nil)
	_       = time.Now
	_       = os.Getenv
	_       = postgres.Open
	_       = serve.New
	_       = job.Global
	_       = observe.Cron
	welcome = dibs.Define[User]("welcome")
)

func writeReports(context.Context, dibs.Tick) error             { return nil }
func sendWelcome(context.Context, *dibs.Task, User) error       { return nil }
func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func register(c *dibs.Client) {
	fatal(c.Cron("reports", "15 4 * * *", writeReports))
	fatal(dibs.Handle(c, welcome, sendWelcome))
}

`

// manifest is what the programs find in their directory.
const manifest = "version: 1\napp: reports\njobs:\n  - {name: hourly, schedule: '0 * * * *', command: ['true']}\n"

// around is the program around a block of statements.
const around = names + `func main() {
	long, began := context.Background(), time.Now()
	st, err := postgres.Open(long, os.Getenv("DATABASE_URL"))
	fatal(err)
	defer st.Close()
	db, err := pgx.Connect(long, os.Getenv("DATABASE_URL"))
	fatal(err)
	tx, err := db.Begin(long)
	fatal(err)
	// Statements that open the store once more take as long on a busy machine.
	ctx, stop := context.WithTimeout(long, 3*time.Second+10*time.Since(began))
	defer stop()
	fatal(statements(ctx, tx))
	fatal(tx.Commit(long))
}

func statements(ctx context.Context, tx pgx.Tx) (err error) {
%sreturn err
}
`

// Each Go block of a page is compiled in a module of its own, as a program that uses dibs is, and run: programs and
// statements on real servers until they end or are told to, tests by go test.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(root, "docs/first-steps/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range append(paths, filepath.Join(root, "README.md")) {
		blocks, err := Blocks(read(t, path))
		if err != nil {
			t.Fatal(path, err)
		}
		for _, b := range blocks {
			if b.Kind != "go" || strings.HasPrefix(b.Note, "not run, ") {
				continue
			}
			n++
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(path), b.Line), func(t *testing.T) {
				t.Parallel()
				env := append(os.Environ(), "DATABASE_URL="+newDatabase(t), "REDIS_URL="+testserver.Redis(t))
				if out, err := runGo(t, b.Text, env); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	if n == 0 {
		t.Error("no page has a Go block")
	}
}

// newDatabase is the address of a database that is gone after the test: the programs use its default namespace.
func newDatabase(t *testing.T) string {
	t.Helper()
	address := testserver.Postgres(t)
	db, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	name := "pages_" + strings.ToLower(rand.Text())
	if _, err := db.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = db.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		_ = db.Close(context.Background())
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// runGo runs a block in a module that has dibs in the place of its worktree, and the versions of dibs's own modules.
func runGo(t *testing.T, block string, env []string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read(t, filepath.Join(root, "go.mod")), "module example.org/reports")
	mod += fmt.Sprintf("\nrequire github.com/dibs-run/dibs v0.0.0\n\nreplace github.com/dibs-run/dibs => %s\n", here)
	files, build := map[string]string{"go.mod": mod, "go.sum": read(t, filepath.Join(root, "go.sum"))}, []string{"build", "-mod=mod", "-ldflags=-w", "-o", "program", "."}
	switch {
	case strings.HasPrefix(block, "package "):
		files["main.go"] = block
	case strings.HasPrefix(block, "func Test"):
		files["main_test.go"] = strings.Replace(names, `	"github.com/jackc/pgx/v5"`, "", 1) + block
		build = []string{"test", "-mod=mod", "-ldflags=-w", "-c", "-o", "program", "."}
	default:
		files["main.go"] = fmt.Sprintf(around, block)
	}
	files["jobs.yaml"] = manifest
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", build...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return string(out), err
	}
	var out bytes.Buffer
	cmd = exec.Command("./program")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if strings.Contains(block, "signal.NotifyContext") {
		select {
		case err := <-ended:
			return out.String(), fmt.Errorf("it ended by itself: %v", err)
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	select {
	case err = <-ended:
	case <-time.After(2 * time.Minute):
		_ = cmd.Process.Kill()
		err = fmt.Errorf("it did not end: %v", <-ended)
	}
	return out.String(), err
}
