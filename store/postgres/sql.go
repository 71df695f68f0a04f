package postgres

import (
	"embed"
	"io/fs"
	"strings"
	"sync"
)

//go:embed sql/*.sql sql/queue/*.sql
var sqlFiles embed.FS

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migrations holds the schema's versions, one file each, in the order of their names. Each is to be applied in one
// transaction; Open does that by itself, under a lock. Each file records its version, and the oldest version whose
// programs may still use the schema after it (store.Layout).
var Migrations fs.FS = sub(migrationFiles, "migrations")

func sub(f fs.FS, dir string) fs.FS {
	s, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return s
}

// statements are those of one file, in its order.
func statements(name string) []string {
	b, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // the file is embedded above
	}
	return split(string(b))
}

// split returns the statements of a file without its comment lines. A connection that prepares no statements, as
// behind a pooler or in a caller's transaction, sends their text at each call. A statement ends with a semicolon at
// the end of a line. A comment behind code on one line stays.
func split(file string) []string {
	var code strings.Builder
	for line := range strings.Lines(file) {
		if !comment(line) {
			code.WriteString(line)
		}
	}
	all := strings.Split(strings.TrimSpace(code.String()), ";\n")
	for i := range all {
		all[i] = strings.TrimSuffix(strings.TrimSpace(all[i]), ";")
	}
	return all
}

func comment(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "--") }

// lazily and lazilyAll read a file when it is first needed: a program that opens another store pays nothing.
func lazily(name string) func() string {
	return sync.OnceValue(func() string { return statements(name)[0] })
}

func lazilyAll(name string) func() []string {
	return sync.OnceValue(func() []string { return statements(name) })
}

var (
	sqlAcquire  = lazilyAll("acquire")
	sqlRead     = lazily("read")
	sqlList     = lazily("list")
	sqlRenew    = lazilyAll("renew")
	sqlRelease  = lazilyAll("release")
	sqlAsk      = lazily("ask")
	sqlBreak    = lazily("break")
	sqlTrim     = lazily("trim")
	sqlWatch    = lazily("watch")
	sqlHold     = lazily("hold")
	sqlClaim    = lazilyAll("claim")
	sqlTake     = lazilyAll("take")
	sqlStart    = lazilyAll("start")
	sqlTick     = lazily("tick")
	sqlClose    = lazilyAll("close")
	sqlOrphans  = lazilyAll("orphans")
	sqlJobs     = lazilyAll("jobs")
	sqlSettle   = lazilyAll("settle")
	sqlHistory  = lazilyAll("history")
	sqlOutput   = lazilyAll("output")
	sqlPrune    = lazilyAll("prune")
	sqlFleet    = lazilyAll("fleet")
	sqlPrepare  = lazilyAll("prepare")
	sqlSession  = lazilyAll("session")
	sqlSettings = lazilyAll("settings")

	sqlEnqueue  = lazilyAll("queue/enqueue")
	sqlWork     = lazilyAll("queue/work")
	sqlWorkers  = lazilyAll("queue/workers")
	sqlMaintain = lazilyAll("queue/maintain")
	sqlTasks    = lazilyAll("queue/admin")
)
