package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// What becomes of a bug.
const (
	killed   = "killed"
	survived = "SURVIVED"
	known    = "survives"
	broken   = "DOES NOT BUILD"
)

// enough is when a test that hangs has found the bug.
const enough = 5 * time.Minute

// TestMutants puts the bugs in that DIBS_TEST_MUTANTS names, one at a time: `all`, or packages (./lease) and bugs
// (lease/acquire-unbounded) with blanks or commas between them. See `make mutants`.
func TestMutants(t *testing.T) {
	which := os.Getenv("DIBS_TEST_MUTANTS")
	if which == "" {
		t.Skip("it takes hours: make mutants")
	}
	chosen := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(which, "./", ""), ",", " "))
	scores, began := map[string]map[string]int{}, time.Now()
	adopt(t)
	for _, m := range load(t) {
		if !slices.Contains(chosen, "all") && !slices.Contains(chosen, m.Package()) && !slices.Contains(chosen, m.Name) {
			continue
		}
		at := time.Now()
		what, by := run(t, m)
		fmt.Printf("%-14s %-48s %-6s %s\n", what, m.Name, time.Since(at).Round(time.Second), by)
		if scores[m.Package()] == nil {
			scores[m.Package()] = map[string]int{}
		}
		scores[m.Package()][what]++
		if what == survived || what == broken {
			t.Errorf("%s: %s: %s", what, m.Name, m.Bug)
		}
	}
	tell(scores, time.Since(began))
	if len(scores) == 0 {
		t.Errorf("no bug is called, and no package has any of, %s", which)
	}
}

func tell(scores map[string]map[string]int, took time.Duration) {
	fmt.Printf("\n%-24s %6s %6s\n", "package", "bugs", "killed")
	all, dead := 0, 0
	for _, pkg := range slices.Sorted(maps.Keys(scores)) {
		n := 0
		for _, of := range scores[pkg] {
			n += of
		}
		all, dead = all+n, dead+scores[pkg][killed]
		fmt.Printf("%-24s %6d %6d\n", pkg, n, scores[pkg][killed])
	}
	fmt.Printf("%-24s %6d %6d, in %s\n", "all", all, dead, took.Round(time.Second))
}

// run says what becomes of a bug, and by what: the tests that failed, or why it does not build.
func run(t *testing.T, m Mutant) (what, by string) {
	changed, err := m.Apply(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay(t, dir, changed)))
	server, drop := database(t, m)
	defer drop()
	env = append(env, server...)
	for _, tests := range m.Tests {
		bin := filepath.Join(dir, "test")
		build := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", bin, tests.Package) // half the time of a link
		build.Dir, build.Env = root, env
		if out, err := build.CombinedOutput(); err != nil {
			return broken, string(out)
		}
		if by := find(t, bin, tests, env); by != "" {
			return killed, by
		}
	}
	if m.Survives != "" {
		return known, m.Survives
	}
	return survived, m.Bug
}

var failed = regexp.MustCompile(`--- FAIL: (\S+)`)

// find runs tests, and names the one that fails; "" if none does. One that fails among others, on a busy
// machine, and not when it is alone, has not found the bug: then all are run anew.
func find(t *testing.T, bin string, tests Tests, env []string) string {
	for range 3 {
		by := fails(t, bin, tests, env)
		name, _, _ := strings.Cut(by, "/")
		if by == "" || !strings.HasPrefix(by, "Test") || fails(t, bin, Tests{tests.Package, "^" + name + "$"}, env) != "" {
			return by
		}
	}
	return ""
}

// fails runs tests, and names the first that fails; "" if none does.
func fails(t *testing.T, bin string, tests Tests, env []string) string {
	defer end(t, below(t))
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.short", "-test.failfast", "-test.run", tests.Run)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(root, filepath.FromSlash(path.Clean(tests.Package))), env, time.Second
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "a test hangs"
	case err == nil:
		return ""
	case !errors.As(err, &status):
		return err.Error()
	}
	if names := failed.FindAllSubmatch(out, -1); len(names) > 0 {
		return string(names[len(names)-1][1]) // of a subtest and its test the first one's own
	}
	return "a crash: " + string(out[:min(len(out), 200)])
}

// overlay has the go command read the changed files instead of ours; also where a test calls it.
func overlay(t *testing.T, dir string, changed map[string]string) string {
	replace := map[string]string{}
	for name, text := range changed {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// database gives a bug of a store on SQL a database of its own, since some of them are in what a migration installs.
func database(t *testing.T, m Mutant) (env []string, drop func()) {
	name := fmt.Sprintf("dibs_mutant_%d", os.Getpid())
	switch {
	case strings.HasPrefix(m.Name, "store/postgres/"):
		u := testserver.Postgres(t)
		onPostgres(t, u, "CREATE DATABASE "+name)
		return []string{"DIBS_TEST_POSTGRES=" + in(t, u, name)}, func() { onPostgres(t, u, "DROP DATABASE "+name+" WITH (FORCE)") }
	case strings.HasPrefix(m.Name, "store/mysql/"):
		u := testserver.MariaDB(t)
		onMySQL(t, u, "CREATE DATABASE "+name)
		return []string{"DIBS_TEST_MARIADB=" + in(t, u, name)}, func() { onMySQL(t, u, "DROP DATABASE "+name) }
	}
	return nil, func() {}
}

func in(t *testing.T, address, database string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}
