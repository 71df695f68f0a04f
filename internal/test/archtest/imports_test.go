// Package archtest holds the directions in which the packages may import each other: the folder
// list is the architecture, and this is what keeps it true.
package archtest

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/dibs-run/dibs"

// allowed says which of our own packages a package may import directly. A name that ends in /...
// stands for everything below it. What is not listed here may import everything, and
// everything may import internal/lazy.
var allowed = map[string][]string{
	"observe": {}, // as much a leaf as job
	"": {"lease", "observe", "queue", "queue/driver", "task", "scheduler", "job", "run", "run/enqueue", "store", "internal/aside", "internal/backend",
		"internal/output"}, // package dibs: the way in
	"serve": {"lease", "observe", "queue", "queue/driver", "task", "scheduler", "job", "run", "run/command", "run/enqueue", "tick", "history", "store", "manifest/source", "internal/aside",
		"internal/backend", "internal/clock", "internal/environ", "internal/hook", "internal/mirror", "internal/nested", "internal/output", "internal/secret"},
	"dibstest":                 {"", "queue", "queue/driver", "task", "queue/queuetest", "lease", "store", "internal/clock"},
	"schedule":                 {},
	"job":                      {},
	"task":                     {"internal/keys"}, // as much a leaf as job
	"lease":                    {"observe", "internal/coalesce", "internal/clock", "internal/keys"},
	"run":                      {"lease"},
	"run/command":              {"run", "lease", "internal/clock", "internal/guardian/..."},
	"run/webhook":              {"run", "lease", "internal/conffile", "internal/outbound"},
	"run/enqueue":              {"run", "task"},
	"tick":                     {"lease", "run", "internal/coalesce"},
	"history":                  {"run", "tick", "lease"},
	"fleet":                    {"lease", "internal/build"},
	"internal/build":           {},
	"deploy":                   {},
	"deploy/applied":           {"internal/beneath"},
	"deploy/crontab":           {"deploy", "deploy/internal/clocks", "deploy/internal/disk", "deploy/internal/users", "manifest", "schedule", "internal/beneath"},
	"deploy/eventbridge":       {"deploy", "deploy/internal/aws", "deploy/internal/clocks", "schedule"},
	"deploy/internal/aws":      {"internal/outbound"},
	"deploy/internal/clocks":   {"schedule"},
	"deploy/internal/disk":     {"internal/beneath"},
	"deploy/internal/users":    {},
	"deploy/kubernetes":        {"deploy", "deploy/internal/clocks", "schedule", "internal/conffile", "internal/outbound"},
	"deploy/systemd":           {"deploy", "deploy/internal/clocks", "deploy/internal/disk", "deploy/internal/users", "schedule", "internal/beneath"},
	"manifest":                 {"job", "schedule", "internal/conffile"},
	"manifest/app":             {"manifest", "job", "run/webhook"},
	"manifest/source":          {"job", "manifest", "run/webhook", "internal/conffile", "internal/outbound"},
	"scheduler":                {"tick", "lease", "observe", "run", "history", "fleet", "job", "schedule", "internal/aside", "internal/brake", "internal/coalesce"},
	"queue/driver":             {"task", "lease", "internal/keys"},
	"queue/counters":           {"task", "queue/driver"},
	"queue":                    {"fleet", "observe", "task", "queue/driver", "queue/counters", "lease", "internal/clock", "internal/coalesce", "internal/aside", "internal/brake"},
	"queue/queuetest":          {"queue", "queue/driver", "task", "lease", "internal/clock", "store", "store/memory"},
	"store":                    {"lease", "tick", "history", "fleet", "queue/driver"},
	"store/memory":             append([]string{"store/internal/lifecycle"}, contracts...),
	"store/file":               append([]string{"store/internal/lifecycle", "internal/clock", "internal/beneath"}, contracts...),
	"store/redis":              append([]string{"store/internal/lifecycle", "internal/tlsfiles"}, contracts...),
	"store/postgres":           append([]string{"internal/conffile", "internal/tlsfiles"}, contracts...),
	"store/mysql":              append([]string{"store/internal/lifecycle", "internal/tlsfiles"}, contracts...),
	"store/internal/lifecycle": {"lease", "task", "queue/driver", "queue/counters"},
	"internal/aside":           {},
	"internal/brake":           {},
	"internal/clock":           {},
	"internal/conffile":        {},
	"internal/coalesce":        {},
	"internal/keys":            {},
	"internal/bounds":          {"lease", "tick", "run", "history", "internal/keys"},
	"internal/beneath":         {},
	"internal/lazy":            {},
	"internal/outbound":        {"internal/tlsfiles"},
	"internal/tlsfiles":        {"internal/conffile"},
	"cmd/dibs/internal/lambda": {"internal/outbound"},
	"cmd/dibs/internal/unit":   {"internal/conffile"},
	"internal/scope":           {"internal/guardian/cgroup"},
	"internal/test/testdirs":   {},
	"internal/test/holds":      {},
	"internal/spool":           {"scheduler", "history", "internal/beneath"},
	"internal/nested":          {"lease", "queue", "queue/driver", "task", "run/command"},
	"internal/environ":         {},
	"internal/secret":          {"job", "internal/conffile", "internal/environ"},
	"internal/output":          {"run", "internal/aside"},
	"internal/backend":         {"observe", "scheduler", "job", "lease", "queue", "queue/driver", "task", "run", "run/command", "store", "tick", "internal/clock", "internal/spool"},
	"internal/hook":            {"scheduler", "queue", "queue/driver", "task", "job", "run", "history", "run/command", "run/webhook", "internal/clock", "internal/outbound"},
	"internal/mirror":          {"scheduler", "history", "tick", "run", "lease", "internal/backend", "internal/beneath"},
	"cmd/dibs/internal/cli":    {"..."},
	"cmd/dibs":                 {"cmd/dibs/internal/cli", "run/command", "internal/guardian/..."},
}

// contracts are what stores see: of queues the contract, never the engine.
var contracts = []string{"lease", "tick", "history", "fleet", "task", "queue/driver", "queue/counters", "run", "store", "internal/bounds"}

// clients are the libraries of the stores, and of systemd; a package that uses one store compiles no other's.
var clients = map[string]string{
	"store/redis":    "github.com/redis/go-redis/v9",
	"store/postgres": "github.com/jackc/pgx/v5",
	"store/mysql":    "github.com/go-sql-driver/mysql",
	"store/file":     "modernc.org/sqlite",
	"internal/scope": "github.com/godbus/dbus/v5", // so nor does a program that uses run/command
}

type pkg struct {
	ImportPath    string
	Imports, Deps []string
}

func load(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]pkg{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p
	}
	return all
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	all := load(t)
	for name, may := range allowed {
		p, ok := all[name]
		if !ok {
			t.Errorf("%s is listed here and is not there", name)
		}
		for _, imp := range p.Imports {
			own, ok := ours(imp)
			if ok && own != "internal/lazy" && !slices.ContainsFunc(may, func(m string) bool { return covers(m, own) }) {
				t.Errorf("%s imports %s; it may import only %q", name, own, may)
			}
		}
	}
}

// ours is the name in this module of a package of it; that of the package at its root is empty.
func ours(path string) (name string, ok bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func covers(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(name+"/", below)
	}
	return pattern == name
}

// A library user of one store compiles no other store's client, and a user of the core none.
func TestNobodyCompilesAClientItDoesNotUse(t *testing.T) {
	all := load(t)
	for name, p := range all {
		if name == "cmd/dibs/internal/cli" || name == "cmd/dibs" || name == "store/all" || strings.HasPrefix(name, "internal/test/e2e") ||
			name == "internal/test/testserver" || name == "internal/test/suite" {
			continue
		}
		for owner, client := range clients {
			if name == owner || strings.HasPrefix(name, owner+"/") {
				continue
			}
			for _, d := range p.Deps {
				if d == client || strings.HasPrefix(d, client+"/") {
					t.Errorf("%s depends on %s, which is %s's", name, d, owner)
				}
			}
		}
	}
}

// A program of package dibs and one store links no other store's client, and neither what reads manifests nor
// what makes a command line.
func TestAProgramOfDibsIsLight(t *testing.T) {
	heavy := []string{module + "/manifest", module + "/serve", module + "/internal/hook", module + "/internal/mirror", module + "/internal/nested", module + "/cmd", module + "/store/all", "go.yaml.in/yaml", "gopkg.in/yaml", "github.com/spf13", "golang.org/x/term"}
	all := load(t)
	for _, name := range []string{"", "store/redis", "store/postgres", "store/mysql", "store/file", "store/memory", "dibstest"} {
		p, ok := all[name]
		if !ok {
			t.Errorf("%q is not there", name)
		}
		for _, d := range p.Deps {
			if slices.ContainsFunc(heavy, func(h string) bool { return d == h || strings.HasPrefix(d, h+"/") }) {
				t.Errorf("%s depends on %s", p.ImportPath, d)
			}
			for owner, client := range clients {
				if name != owner && (d == client || strings.HasPrefix(d, client+"/")) {
					t.Errorf("%s depends on %s, which is %s's", p.ImportPath, d, owner)
				}
			}
		}
	}
}

// A program that serves a manifest links what reads it, and neither a store's client nor a command line.
func TestAProgramThatServesAManifestChoosesItsStore(t *testing.T) {
	heavy := []string{module + "/cmd", module + "/store/all", "github.com/spf13", "golang.org/x/term"}
	for _, client := range clients {
		heavy = append(heavy, client)
	}
	p, ok := load(t)["serve"]
	if !ok || !slices.Contains(p.Deps, module+"/manifest") {
		t.Fatal("serve is not there, or reads no manifest")
	}
	for _, d := range p.Deps {
		if slices.ContainsFunc(heavy, func(h string) bool { return d == h || strings.HasPrefix(d, h+"/") }) {
			t.Errorf("%s depends on %s", p.ImportPath, d)
		}
	}
}

// What puts a running program together is package serve's and, for `dibs run`, internal/backend's. In the command line
// only these files know its parts: they look at what is recorded, word what a manifest says, or run one command.
func TestTheCommandLineAssemblesNothing(t *testing.T) {
	may := map[string][]string{
		"internal/hook":    {"examine.go", "validate.go", "workhooks.go", "ping.go"},
		"internal/mirror":  {"completenames.go", "examine.go", "explain.go", "history.go", "historyrun.go", "joblist.go", "place.go"},
		"internal/spool":   {"examine.go"},
		"internal/nested":  {"place.go", "run.go", "task.go"},
		"internal/backend": {"place.go", "run.go"},
		"run/command":      {"examine.go", "echo.go", "run.go", "scopes.go"},
		"run/enqueue":      {},
		"run/webhook":      {},
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "cmd", "dibs", "internal", "cli", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			own, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			if in, limited := may[own]; ok && limited && !slices.Contains(in, name) {
				t.Errorf("%s imports %s: a program needs it as well, so it belongs into package serve", name, own)
			}
		}
	}
}

// Only the command line may know all the stores, and nothing may import the command line.
func TestTheCommandLineIsTheTop(t *testing.T) {
	for name, p := range load(t) {
		for _, imp := range p.Imports {
			own, _ := strings.CutPrefix(imp, module+"/")
			if own == "cmd/dibs/internal/cli" && name != "cmd/dibs" {
				t.Errorf("%s imports cmd/dibs/internal/cli", name)
			}
			if own == "store/all" && name != "cmd/dibs/internal/cli" {
				t.Errorf("%s imports store/all", name)
			}
		}
	}
}
