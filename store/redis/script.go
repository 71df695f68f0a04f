package redis

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/queue/driver"
)

//go:embed lua/*.lua lua/queue/*.lua lua/quick/*.lua
var files embed.FS

// A script is one operation: its own file behind those that it shares with others. It is put together when it is
// first run, so a program that opens another store does not pay for it.
type script struct {
	names       []string
	once        sync.Once
	source, sha string
	// function is the name of the function that a quick script defines, and fullServer says that it takes no memory.
	function   string
	fullServer bool
	named      sync.Once
	name       string // of the function in the library
}

// scripts are all that there are.
var scripts []*script

func load(names ...string) *script {
	s := &script{names: names}
	scripts = append(scripts, s)
	return s
}

// maxStep bounds what one script does beside what its caller asked for: tasks that are promoted, superseded, made due
// or rescued. It takes about 20 ms. The rest is the next step's. Scripts know it as STEP (lua/queue/later.lua).
const maxStep = 1000

// text returns the script and the digest by which the server knows it.
func (s *script) text() (source, sha string) {
	s.once.Do(func() {
		s.source = s.assemble(maxStep)
		sum := sha1.Sum([]byte(s.source))
		s.sha = hex.EncodeToString(sum[:])
	})
	return s.source, s.sha
}

func (s *script) assemble(step int) string {
	if s.function != "" {
		return lean("local in_script = true\n" + s.read() + "return " + s.function + "(KEYS, ARGV)\n")
	}
	return lean(fmt.Sprintf("local STEP, FIRST_ATTEMPTS, MOST_ATTEMPTS = %d, %d, %d\n", step, driver.FirstAttempts, driver.MostAttempts) + s.read())
}

// read returns the text of a script's files.
func (s *script) read() string {
	var b strings.Builder
	for _, name := range s.names {
		text, err := files.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // a name that is not embedded: no test would pass
		}
		b.Write(text)
	}
	return b.String()
}

var (
	prepareScript  = load("rights", "common", "identity", "prepare")
	lookScript     = load("common", "look")
	upgradedScript = load("common", "upgraded")

	acquireScript = load("common", "identity", "acquire")
	renewScript   = load("common", "identity", "renew")
	releaseScript = load("common", "release")
	askScript     = load("common", "ask")
	breakScript   = load("common", "break")
	readScript    = load("common", "read")
	listScript    = load("common", "list")
	forgetScript  = load("common", "forget")
	trimScript    = load("common", "trim")

	claimScript    = load("common", "tick", "claim")
	takeScript     = load("common", "tick", "run", "take")
	startScript    = load("common", "tick", "run", "start")
	closeScript    = load("common", "tick", "run", "close")
	orphansScript  = load("common", "tick", "orphans")
	owedScript     = load("common", "tick", "owed")
	rowsScript     = load("common", "tick", "rows")
	windowScript   = load("common", "tick", "window")
	settleScript   = load("common", "tick", "settle")
	splitScript    = load("common", "tick", "split")
	unsettleScript = load("common", "tick", "unsettle")
	jobsScript     = load("common", "job", "jobs")
	namedScript    = load("common", "job", "named")
	setJobsScript  = load("common", "job", "set_jobs")
	pauseScript    = load("common", "job", "pause")

	appendScript      = load("common", "append")
	appendRunsScript  = load("common", "run", "append_runs")
	appendTicksScript = load("common", "tick", "append_ticks")
	pruneScript       = load("common", "prune")

	reportScript          = load("common", "report")
	forgetProcessesScript = load("common", "processes_forget")
)

// args are the words of one EVALSHA: the first four are the script's business, the rest ARGV.
type args []any

// newArgs makes room for n arguments.
func (d *db) newArgs(n int) args {
	a := make(args, 4, 4+n)
	a[2], a[3] = 1, &d.prefix
	return a
}

// once is a command that the client must not send a second time, whatever the caller's client is set to: a store
// never retries.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// run carries out a script in one round trip. The first time on a server it takes two, of which the first did
// nothing. what names the operation in errors.
func (d *db) run(ctx context.Context, what string, s *script, a args) (reply, error) {
	source, sha := s.text()
	a[0], a[1] = "evalsha", sha
	cmd := d.process(ctx, a)
	if goredis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		a[0], a[1] = "eval", source
		cmd = d.process(ctx, a)
	}
	return d.answer(what, cmd)
}

// process sends a command, once.
func (d *db) process(ctx context.Context, a args) once {
	cmd := once{goredis.NewCmd(ctx, a...)}
	_ = d.client.Process(ctx, cmd)
	return cmd
}

// answer unpacks what a script answered.
func (d *db) answer(what string, cmd once) (reply, error) {
	if err := cmd.Err(); err != nil {
		return nil, d.wrap(what, err)
	}
	if n, ok := cmd.Val().(int64); ok { // of a quick script
		return reply{n}, nil
	}
	r, ok := cmd.Val().([]any)
	if !ok || len(r) == 0 {
		return nil, fmt.Errorf("redis %s: %s: the script answered %T, not a list; check for a proxy between dibs and the server", d.addr, what, cmd.Val())
	}
	return reply(r), nil
}
