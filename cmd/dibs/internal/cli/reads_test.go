package cli

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// opensNone are commands that have the flag and open no store: they name it in entries.
var opensNone = []string{"dibs adopt", "dibs apply", "dibs drift", "dibs plan", "dibs prune"}

// Each command that opens a store says what it needs of it: a new one cannot forget it.
func TestEachCommandSaysWhatItNeeds(t *testing.T) {
	seen := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("store") != nil {
			path := cmd.CommandPath()
			if _, ok := needsOf[path]; !ok && !slices.Contains(opensNone, path) {
				t.Errorf("%s opens a store, and needsOf has no line for it", path)
			}
			seen[path] = true
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot(env{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}))
	for path := range needsOf {
		if !seen[path] {
			t.Errorf("needsOf has a line for %s, which is no command with a store", path)
		}
	}
}

// arguments are what a command that prepares nothing is called with.
var arguments = map[string][]string{
	"dibs explain":      {"app/job"},
	"dibs job backfill": {"app/job", "--from", "2026-01-01"},
	"dibs job forget":   {"app/job"},
	"dibs job pause":    {"app/job", "--reason", "a test"},
	"dibs job resume":   {"app/job"},
	"dibs job show":     {"app/job"},
	"dibs lease break":  {"key"},
	"dibs lease show":   {"key"},
	"dibs queue clear":  {"mail", "--yes"},
	"dibs queue drain":  {"mail"},
	"dibs queue limit":  {"supplier", "2"},
	"dibs queue pause":  {"mail", "--reason", "a test"},
	"dibs queue resume": {"mail"},
	"dibs queue show":   {"mail"},
	"dibs show":         {"app/job"},
	"dibs task cancel":  {"1"},
	"dibs task delete":  {"1"},
	"dibs task discard": {"1"},
	"dibs task edit":    {"1", "--priority", "5"},
	"dibs task move":    {"1", "--to", "slow"},
	"dibs task promote": {"1"},
	"dibs task retry":   {"1"},
	"dibs task show":    {"1"},
}

// bareStores are places for stores where dibs has never been; there says what there is.
var bareStores = map[string]func(*testing.T) (address string, there func() string){
	"directory": bareDirectory, "redis": bareRedis, "postgres": barePostgres, "mysql": bareMariaDB,
}

// Commands that read, or change what is there, fail in a store that nobody prepared, and create nothing in it.
// Holds: L9.
func TestOnlyWorkPreparesAStore(t *testing.T) {
	for kind, bare := range bareStores {
		t.Run(kind, func(t *testing.T) {
			address, there := bare(t)
			host := filepath.Join(t.TempDir(), "host")
			t.Setenv("DIBS_DIR", host)
			manifest := manifestFile(t)
			for path, need := range needsOf {
				if need == prepares {
					continue
				}
				args := append(strings.Fields(path)[1:], arguments[path]...)
				args = append(args, "--store", address)
				if path == "dibs job backfill" {
					readNothing(t, address, there, append(args, "--manifest", manifest, "--dry-run")...)
					args = append(args, "--manifest", manifest)
				}
				if path == "dibs history" {
					readNothing(t, address, there, append(args, "app/job", "--log")...)
					readNothing(t, address, there, append(args, "--events")...)
				}
				if path != "dibs doctor" || kind != "directory" { // of one that is missing it has its own words
					readNothing(t, address, there, args...)
				}
			}
			if _, err := os.Stat(host); err == nil {
				t.Error("this host's own directory was made")
			}
		})
	}
}

func readNothing(t *testing.T, address string, there func() string, args ...string) {
	t.Helper()
	before := there()
	var stdout, stderr bytes.Buffer
	status := Exec(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	said := stderr.String()
	want := exitUnavailable
	switch args[0] {
	case "doctor":
		want, said = 0, stdout.String()
	case "check":
		want, said = checkUnknown, stdout.String()
	}
	if !strings.Contains(said, "this store is not prepared: run `dibs init --store ") {
		t.Errorf("dibs %q does not say what to do:\n%s%s", args, &stdout, &stderr)
	}
	if status != want {
		t.Errorf("dibs %q: exit status %d, want %d", args, status, want)
	}
	if u, err := url.Parse(address); err == nil {
		if pass, ok := u.User.Password(); ok && pass != "" && strings.Contains(said, ":"+pass+"@") {
			t.Errorf("dibs %q shows the password", args)
		}
	}
	if after := there(); after != before {
		t.Errorf("dibs %q made %s, and before there was %q", args, after, before)
	}
}

func manifestFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "version: 1\napp: app\njobs:\n  - {name: job, schedule: '@daily', command: [\"true\"], policy: {concurrency_scope: global}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func bareDirectory(t *testing.T) (string, func() string) {
	parent := t.TempDir()
	return "file://" + parent + "/dibs?reach=only-host", func() string {
		all, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range all {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
}

func bareRedis(t *testing.T) (string, func() string) {
	u, err := url.Parse(testserver.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	ns := "bare-" + lease.NewNonce().String()[:8]
	q := u.Query()
	q.Set("namespace", ns)
	u.RawQuery = q.Encode()
	return u.String(), func() string {
		var keys []string
		for scan := client.Scan(t.Context(), 0, "*{"+ns+"}*", 1000).Iterator(); scan.Next(t.Context()); {
			keys = append(keys, scan.Val())
		}
		return strings.Join(keys, " ")
	}
}

// newName is a database's.
func newName() string { return "dibs_bare_" + lease.NewNonce().String()[:8] }

func barePostgres(t *testing.T) (string, func() string) {
	u, err := url.Parse(testserver.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + newName()
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+u.Path[1:]); err != nil {
		t.Fatal(err)
	}
	own, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = own.Close(context.Background())
		_, _ = admin.Exec(context.Background(), "DROP DATABASE "+u.Path[1:]+" WITH (FORCE)")
		_ = admin.Close(context.Background())
	})
	return u.String(), func() (names string) {
		if err := own.QueryRow(t.Context(), "SELECT coalesce(string_agg(nspname, ' '), '') FROM pg_namespace WHERE nspname = 'dibs'").Scan(&names); err != nil {
			t.Fatal(err)
		}
		return names
	}
}

func bareMariaDB(t *testing.T) (string, func() string) {
	u, err := url.Parse(testserver.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	pass, _ := u.User.Password()
	db, err := sql.Open("mysql", u.User.Username()+":"+pass+"@tcp("+u.Host+")/")
	if err != nil {
		t.Fatal(err)
	}
	name := newName()
	if _, err := db.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = db.Exec("DROP DATABASE " + name)
		_ = db.Close()
	})
	u.Path = "/" + name
	return u.String(), func() (tables string) {
		if err := db.QueryRow("SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = ?", name).Scan(&tables); err != nil {
			t.Fatal(err)
		}
		return tables
	}
}
