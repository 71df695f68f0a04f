package cli_test

import (
	"bytes"
	"database/sql"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
)

// Whichever command meets a store that cannot be used: one line says which store it is, once and without its password,
// what is wrong and what to do.
func TestErrorsNameTheStoreOnce(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	stores := map[string]string{ // address: how it is named
		"redis://u:s3cret@" + nobody:                 "redis://:xxxxx@" + nobody,
		"postgres://u:s3cret@" + nobody + "/app":     "postgres://u:xxxxx@" + nobody + "/app",
		"mysql://u:s3cret@" + nobody + "/app":        "mysql://u:xxxxx@" + nobody + "/app",
		"/proc/no-such-directory":                    "file:///proc/no-such-directory",
		"redis://u:s3cret@127.0.0.1:6379":            "redis://:xxxxx@127.0.0.1:6379",
		"postgres://nobody:s3cret@127.0.0.1:5432/no": "postgres://nobody:xxxxx@127.0.0.1:5432/no",
		"mysql://nobody:s3cret@127.0.0.1:3306/no":    "mysql://nobody:xxxxx@127.0.0.1:3306/no",
	}
	commands := []string{"run --key k --scope global STORE -- true", "run --key k STORE -- true", "init STORE", "lease list STORE",
		"lease show k STORE", "history STORE", "history k STORE", "explain k STORE", "job list STORE", "job pause k --reason r STORE",
		"queue list STORE", "task list STORE", "task show 1 STORE", "task enqueue k --args {} STORE", "work q STORE -- true"}
	cure := regexp.MustCompile(`(; |: run ` + "`" + `dibs init ).+\n$`)
	for address, name := range stores {
		for _, command := range commands {
			directory := strings.HasPrefix(address, "/")
			if directory && strings.Contains(command, "--scope global") {
				continue
			}
			var out, errs bytes.Buffer
			args := strings.Fields(strings.Replace(command, "STORE", "--store "+address, 1))
			status := cli.Exec(t.Context(), args, strings.NewReader(""), &out, &errs)
			text := errs.String()
			if status == 0 || out.Len() > 0 || strings.Count(text, "\n") != 1 || strings.Count(text, name) != 1 || strings.Contains(text, "s3cret") ||
				strings.Count(text, "store "+name) > 1 || !cure.MatchString(text) {
				t.Errorf("dibs %q: status %d, %s%s", args, status, &out, text)
			}
		}
	}
}

// A program that is too old for a store says so in one line, with the cure, and with the status of what is not there.
// Holds: H4.
func TestATooOldProgramSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dibs")
	dibs := func(args ...string) (status int, errs string) {
		var out, err bytes.Buffer
		status = cli.Exec(t.Context(), append(args, "--store", dir), strings.NewReader(""), &out, &err)
		return status, err.String()
	}
	if status, errs := dibs("init"); status != 0 {
		t.Fatal(errs)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "ns", "dibs", "dibs.db"))
	if err == nil {
		_, err = db.Exec("INSERT INTO dibs_schema (version, oldest) VALUES (99, 99)")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init"}, {"history"}, {"task", "list"}} {
		if status, errs := dibs(args...); status != 69 || !strings.HasSuffix(errs, "upgrade dibs on this host\n") || strings.Count(errs, "\n") != 1 {
			t.Errorf("dibs %q: status %d, %s", args, status, errs)
		}
	}
}
