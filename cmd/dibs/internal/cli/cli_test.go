package cli_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/run/webhook"
)

// guarded are the tests, which make no directory of a real host.
type guarded struct{ m *testing.M }

func (g guarded) Run() int {
	_ = flag.Set("test.parallel", "6") // some scripts wait
	return testdirs.Run(g.m)
}

func TestMain(m *testing.M) {
	command.GuardianMain() // dibs run starts its guardian from this binary
	testscript.Main(guarded{m}, map[string]func(){
		"dibs": func() { os.Exit(cli.Main()) },
	})
}

// Each script has a directory, and with it an embedded store, of its own. A script that ends in an
// exit status says so with: status N dibs …
func TestScripts(t *testing.T) {
	testsize.Outside(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("DIBS_DIR", e.WorkDir+"/state")
			e.Setenv("APPLICATION", application(e))
			e.Setenv("CRON_SECRET", "hunter2")
			e.Setenv("DIBS_STORE_FILE", e.WorkDir+"/none")
			return os.WriteFile(e.WorkDir+"/none", []byte(e.WorkDir+"/state"), 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}

// status runs a command and checks its exit status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [arg…]")
	}
	err := ts.Exec("sh", append([]string{"-c", `want=$1; shift; "$@"; got=$?; [ $got = $want ] || { echo "exit status $got, want $want" >&2; exit 1; }`, "sh"}, args...)...)
	if err != nil {
		ts.Fatalf("%v: %v", args, err)
	}
}

// application is one that serves its manifest to whoever signs with hunter2. Scripts find its address in APPLICATION.
func application(e *testscript.Env) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get(webhook.SignatureHeader)
		seconds, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
		at, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil || header != webhook.Sign([]byte("hunter2"), time.Unix(at, 0), r.Method, r.RequestURI, nil) {
			http.Error(w, "MissingSignature", http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/near" {
			fmt.Fprint(w, "it was signed")
			return
		}
		fmt.Fprintf(w, `{"version":1,"app":"far","jobs":[{"name":"away","schedule":"@hourly","request":{"url":"https://h/"}},
			{"name":"near","schedule":"@hourly","request":{"url":"http://%s/near"}}]}`, r.Host)
	}))
	e.Defer(s.Close)
	return s.URL
}
