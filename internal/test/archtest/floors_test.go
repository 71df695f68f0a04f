package archtest

import (
	"slices"
	"strings"
	"testing"
)

// A floor is a group of packages that import only what stands before them: lower floors, and earlier packages
// of their own.
type floor struct {
	name     string
	packages []string
}

// floors are all packages but those of internal/test, the lowest floor first.
var floors = []floor{
	{"ground: helpers that know nothing of dibs", []string{
		"internal/aside", "internal/beneath", "internal/brake", "internal/build", "internal/clock", "internal/coalesce", "internal/conffile", "internal/environ", "internal/keys", "internal/lazy",
		"internal/tlsfiles", "internal/outbound",
		"internal/guardian/proc", "internal/guardian/cgroup", "internal/guardian", "internal/guardian/early", "internal/scope"}},
	{"what is declared: when and what", []string{"schedule", "job", "task"}},
	{"what is agreed on: events, leases, runs, ticks, tasks", []string{"observe", "lease", "run", "tick", "history", "fleet", "internal/bounds", "queue/driver", "queue/counters", "queue"}},
	{"where it is kept", []string{
		"store", "store/internal/lifecycle", "store/memory", "store/file", "store/redis", "store/postgres", "store/mysql", "store/all",
		"queue/queuetest"}},
	{"how work is done, and where manifests come from", []string{
		"run/command", "run/webhook", "run/enqueue", "manifest", "manifest/app", "manifest/source", "internal/secret"}},
	{"what fires jobs elsewhere", []string{
		"deploy", "deploy/internal/clocks", "deploy/internal/disk", "deploy/internal/users", "deploy/internal/aws", "deploy/crontab", "deploy/systemd", "deploy/applied",
		"deploy/eventbridge", "deploy/kubernetes"}},
	{"the path of a fire", []string{"scheduler"}},
	{"beside that path", []string{
		"internal/output", "internal/hook", "internal/spool", "internal/nested", "internal/backend", "internal/mirror"}},
	{"the suite that stores pass", []string{"store/storetest"}},
	{"the way in for a Go program", []string{"", "dibstest", "serve"}},
	{"the command line", []string{
		"cmd/dibs/internal/unit", "cmd/dibs/internal/lambda", "cmd/dibs/internal/explain", "cmd/dibs/internal/status", "cmd/dibs/internal/metrics", "cmd/dibs/internal/doctor",
		"cmd/dibs/internal/cli", "cmd/dibs"}},
}

// machinery is what tests are made of; the suite of the stores is one of those, though it is exported.
const machinery = "internal/test/"

// TestImportsLeadDown: no package imports what stands above it, and none but tests imports the machinery of tests.
func TestImportsLeadDown(t *testing.T) {
	var order []string
	on := map[string]string{}
	for _, f := range floors {
		for _, p := range f.packages {
			order, on[p] = append(order, p), f.name
		}
	}
	all := load(t)
	for name, p := range all {
		if strings.HasPrefix(name, machinery) {
			continue
		}
		own := slices.Index(order, name)
		if own < 0 {
			t.Errorf("%s stands on no floor: add it to floors", name)
			continue
		}
		for _, imp := range p.Imports {
			of, ok := strings.CutPrefix(imp, module+"/")
			if !ok || name == "store/storetest" && strings.HasPrefix(of, machinery) {
				continue
			}
			if at := slices.Index(order, of); at < 0 || at >= own {
				t.Errorf("%s (%s) imports %s (%s), which does not stand below it", name, on[name], of, on[of])
			}
		}
	}
	for _, name := range order {
		if _, there := all[name]; !there {
			t.Errorf("%s is on a floor and is not there", name)
		}
	}
}
