package cli_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/redis"
	"github.com/dibs-run/dibs/tick"
)

// at is a store's address with a namespace of the test's own, on a host with a directory of its own.
func at(t *testing.T, address string, parameters ...string) string {
	t.Helper()
	t.Setenv("DIBS_DIR", filepath.Join(t.TempDir(), "host"))
	t.Setenv("DIBS_STORE_FILE", "")
	t.Setenv("DIBS_STORE", "") // which puts it back
	if err := os.Unsetenv("DIBS_STORE"); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("namespace", "cli-"+strings.ToLower(rand.Text()))
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// dibs carries out a command line, and returns what it printed.
func dibs(t *testing.T, status int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := cli.Exec(t.Context(), args, strings.NewReader(""), &stdout, &stderr); got != status {
		t.Fatalf("dibs %q: exit status %d, want %d\n%s\n%s", args, got, status, &stdout, &stderr)
	}
	return stdout.String()
}

var shared = map[string]func(testing.TB) string{"redis": testserver.Redis, "postgres": testserver.Postgres}

// explained is what the test reads of `dibs explain -o json`.
type explained struct {
	Outcome   string
	ClaimedBy struct{ Host string } `json:"claimed_by"`
	Runs      []struct{ Outcome string }
	Timezone  string
	Store     string
}

// A job of scope host is explained from the host's own directory, whatever the store.
func TestAHostJobIsExplainedFromTheHostsDirectory(t *testing.T) {
	for name, server := range shared {
		t.Run(name, func(t *testing.T) {
			store := at(t, server(t))
			dibs(t, 0, "init", "--store", store)
			dibs(t, 1, "explain", "shop.here", "--store", store)
			manifest := filepath.Join(t.TempDir(), "jobs.yaml")
			if err := os.WriteFile(manifest, []byte(jobs), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, job := range []string{"shop.here", "shop.once"} {
				dibs(t, 0, "trigger", job, "--manifest", manifest, "--store", store)
				var x explained
				if err := json.Unmarshal([]byte(dibs(t, 0, "explain", job, "--store", store, "-o", "json")), &x); err != nil {
					t.Fatal(err)
				}
				here := strings.HasPrefix(x.Store, "file:")
				if x.Outcome != "succeeded" || x.ClaimedBy.Host == "" || len(x.Runs) != 1 || x.Timezone != "Asia/Tokyo" || here != (job == "shop.here") {
					t.Errorf("%s: %+v", job, x)
				}
			}
		})
	}
}

// With the shared store down, host jobs run, and can be asked about.
func TestAHostJobIsExplainedWhileTheStoreIsDown(t *testing.T) {
	own := testserver.StartRedis(t)
	store := at(t, own.URL)
	dibs(t, 0, "init", "--store", store)
	manifest := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(manifest, []byte(jobs), 0o600); err != nil {
		t.Fatal(err)
	}
	dibs(t, 0, "trigger", "shop.here", "--manifest", manifest, "--store", store)
	own.Kill()
	if out := dibs(t, 0, "explain", "shop.here", "--store", store); !strings.Contains(out, ": succeeded") {
		t.Error(out)
	}
	dibs(t, 69, "explain", "shop.once", "--store", store) // it may be in the store
}

const jobs = `
version: 1
app: shop
defaults: { timezone: Asia/Tokyo, policy: { timeout_seconds: 60, starting_deadline_seconds: 604800 } }
jobs:
  - {name: here, schedule: "@every 168h", command: ["true"], policy: {concurrency_scope: host}}
  - {name: once, schedule: "@every 168h", command: ["true"], policy: {concurrency_scope: global}}
`

// diagnosed are the findings of `dibs doctor`, as "severity check".
func diagnosed(t *testing.T, status int, args ...string) map[string]string {
	t.Helper()
	var d struct {
		Healthy  bool
		Findings []struct{ Severity, Check, What, Cure string }
	}
	out := dibs(t, status, append([]string{"doctor", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Healthy != (status == 0) {
		t.Errorf("healthy %v with exit status %d", d.Healthy, status)
	}
	all := map[string]string{}
	for _, f := range d.Findings {
		all[f.Severity+" "+f.Check] += f.What + " " + f.Cure + "\n"
	}
	return all
}

func TestDoctorOnAServer(t *testing.T) {
	for name, server := range shared {
		t.Run(name, func(t *testing.T) {
			store := at(t, server(t), "reach", "fleet")
			dibs(t, 0, "init", "--store", store)
			all := diagnosed(t, 0, "--store", store)
			for _, check := range []string{"info store", "info store-trial", "info clock-offset", "info margin"} {
				if all[check] == "" {
					t.Errorf("no %s in %+v", check, all)
				}
			}
			if all["error loopback"]+all["warning loopback"] != "" {
				t.Errorf("?reach=fleet is not believed: %+v", all)
			}
		})
	}
}

// Rule H2: the machine's own servers are at loopback addresses.
// Holds: H2.
func TestALoopbackAddressWithAGlobalJobIsAnError(t *testing.T) {
	for name, server := range shared {
		t.Run(name, func(t *testing.T) {
			store := at(t, server(t))
			dibs(t, 0, "init", "--store", store)
			if all := diagnosed(t, 0, "--store", store); all["warning loopback"] == "" {
				t.Errorf("without a job: %+v", all)
			}
			manifest := filepath.Join(t.TempDir(), "jobs.yaml")
			if err := os.WriteFile(manifest, []byte(jobs), 0o600); err != nil {
				t.Fatal(err)
			}
			all := diagnosed(t, 1, manifest, "--store", store)
			if !strings.Contains(all["error loopback"], "shop/once") || strings.Contains(all["error loopback"], "shop/here") {
				t.Errorf("with a global job: %+v", all)
			}
			// The store knows it too, once it is registered.
			dibs(t, 0, "trigger", "shop.once", "--manifest", manifest, "--store", store)
			if all := diagnosed(t, 1, "--store", store); !strings.Contains(all["error loopback"], "shop/once") {
				t.Errorf("with a registered job: %+v", all)
			}
		})
	}
}

// Holds: promise 25.
func TestDoctorFlagsSettingsThatWeakenAStore(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		own := testserver.StartRedis(t, "--maxmemory-policy", "volatile-lru", "--appendonly", "no")
		store := at(t, own.URL, "reach", "fleet")
		dibs(t, 0, "init", "--store", store)
		all := diagnosed(t, 1, "--store", store)
		if !strings.Contains(all["error store-setting"], "Set maxmemory-policy to noeviction.") || !strings.Contains(all["warning store-setting"], "Set appendonly to yes.") {
			t.Errorf("%+v", all)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		own := testserver.StartPostgres(t, "-c", "fsync=off")
		store := at(t, own.URL, "reach", "fleet")
		dibs(t, 0, "init", "--store", store)
		if all := diagnosed(t, 0, "--store", store); !strings.Contains(all["warning store-setting"], "fsync") {
			t.Errorf("%+v", all)
		}
	})
}

// A job that is settled ahead of the store's clock: every command that people ask says so.
func TestAJobThatIsSettledAheadOfTheClockIsShown(t *testing.T) {
	address := at(t, testserver.Redis(t), "reach", "fleet")
	dibs(t, 0, "init", "--store", address)
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := redis.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	spec := job.Spec{App: "shop", Name: "a", Schedules: []string{"* * * * *"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: spec.Key(), Definition: spec.Definition(), Since: now.Add(100 * time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		args   []string
		want   string
	}{
		{0, []string{"job", "list"}, "active, settled ahead of the store's clock"},
		{0, []string{"job", "show", "shop/a"}, "ahead of the store's clock, which was once fast"},
		{0, []string{"job", "show", "shop/a", "-o", "json"}, `"settled_ahead_seconds": 359`},
		{0, []string{"explain", "shop/a"}, "The job is settled up to"},
		{1, []string{"doctor"}, "settled-ahead"},
	} {
		if out := dibs(t, c.status, append(c.args, "--store", address)...); !strings.Contains(out, c.want) {
			t.Errorf("dibs %q says\n%s", c.args, out)
		}
	}
}

// A start that was recorded while the store's clock was far ahead does not keep --once-per D silent until then; one
// within D of now counts, on either side.
func TestAStartFarAheadSilencesNoOncePer(t *testing.T) {
	address := at(t, testserver.Redis(t), "reach", "fleet")
	dibs(t, 0, "init", "--store", address)
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := redis.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]struct {
		ahead  time.Duration
		status int
	}{"far": {100 * time.Hour, 0}, "near": {30 * time.Minute, 75}} {
		r := run.Record{ID: run.NewID(), Job: key, Host: "web-1", Started: now.Add(c.ahead), Ended: now.Add(c.ahead + time.Second), Outcome: run.Succeeded}
		if err := s.History.AppendRuns(t.Context(), []run.Record{r}); err != nil {
			t.Fatal(err)
		}
		dibs(t, c.status, "run", "--key", key, "--once-per", "1h", "--store", address, "--", "true")
	}
}
