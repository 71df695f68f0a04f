//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// The rules that we ship are valid, and say what their tests say; promtool finds nothing wrong with a page.
func TestTheRulesOfPrometheus(t *testing.T) {
	t.Parallel()
	promtool := programOf(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "dibs.rules.yaml"}, {"test", "rules", "dibs.rules_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../../../examples/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
	w := fileWorld(t)
	w.dibs("run", "--key", "backup", "--", "true").exits(0, patience)
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(w.must("metrics"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func programOf(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		uncovered.Skip(t, "what Prometheus makes of our metrics and rules", "there is no "+name)
	}
	return path
}

// A real Prometheus scrapes a server: an alert fires when a job fails, and is resolved when it succeeds; another one
// fires when the server is gone.
func TestAPrometheusScrapesAServer(t *testing.T) {
	t.Parallel()
	prometheus := programOf(t, "prometheus")
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	ok := w.path("ok")
	m := w.jobs(job{"job", "@every 2s", "{}", []string{"test", "-e", ok}}, job{"rare", "0 0 1 1 *", "{}", []string{"true"}})
	p := w.serve(m, "--metrics-listen", "127.0.0.1:0")
	from := w.metricsOf(p)
	worker := w.dibs("work", "mail", "--metrics-listen", "127.0.0.1:0", "--", "true")
	works := w.metricsOf(worker)

	rules, err := os.ReadFile("../../../examples/prometheus/dibs.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	soon := regexp.MustCompile(`for: \d+m`).ReplaceAll(rules, []byte("for: 1s"))
	w.write("rules.yaml", string(soon))
	w.write("prometheus.yml", fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n  - {job_name: dibs, static_configs: [{targets: [%q, %q]}]}\n", from, works))
	at := freeAddress(t)
	w.start(exec.Command(prometheus, "--config.file="+w.path("prometheus.yml"), "--storage.tsdb.path="+w.path("tsdb"), "--web.listen-address="+at))
	firing := func(alert string) bool {
		var answer struct {
			Data struct {
				Alerts []struct {
					State  string
					Labels map[string]string
				}
			}
		}
		if !got(t, "http://"+at+"/api/v1/alerts", &answer) {
			return false
		}
		for _, a := range answer.Data.Alerts {
			if a.Labels["alertname"] == alert && a.State == "firing" {
				return true
			}
		}
		return false
	}
	becomes := func(alert string, want bool) {
		t.Helper()
		eventually(t, patience, func() bool { return firing(alert) == want }, func() string { return fmt.Sprintf("%s fires: want %v\n%s", alert, want, p) })
	}
	becomes("DibsJobFailing", true)
	w.create("ok")
	becomes("DibsJobFailing", false)
	// What the server counts itself: ticks that failed, and ticks that did not.
	counts := func(query string) bool {
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		return got(t, "http://"+at+"/api/v1/query?query="+url.QueryEscape(query), &answer) && len(answer.Data.Result) > 0
	}
	for _, query := range []string{`dibs_cron_ticks_total{cron=~".*/job",outcome="failed"} > 0`, `dibs_cron_ticks_total{cron=~".*/job",outcome="succeeded"} > 0`,
		`histogram_quantile(0.9, sum by (cron, le) (rate(dibs_run_duration_seconds_bucket[1m]))) > 0`, `dibs_store_op_seconds_count{op="renew"} > 0`,
		`dibs_cron_ticks_total{cron=~".*/rare",outcome="failed"} == 0`, // before there is one
		`dibs_store_errors_total{op="renew"} == 0`, `dibs_lease_lost_total == 0`, `dibs_cron_start_delay_seconds_count > 0`} {
		eventually(t, patience, func() bool { return counts(query) }, func() string { return "nothing answers " + query + "\n" + p.String() })
	}
	w.must("task", "enqueue", "letter", "--queue", "mail", "--args", "{}")
	for _, query := range boardQueries(t) {
		switch finds := strings.Contains(query, " == ") || strings.Contains(query, " > "); {
		case finds: // what is wrong, and nothing may be
			if !got(t, "http://"+at+"/api/v1/query?query="+url.QueryEscape(query), &struct {
				Data struct{ Result []any }
			}{}) {
				t.Errorf("Prometheus does not answer %s", query)
			}
		default:
			eventually(t, patience, func() bool { return counts(query) }, func() string { return "nothing answers " + query })
		}
	}
	page, err := http.Get("http://" + from + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	check := exec.Command(programOf(t, "promtool"), "check", "metrics")
	check.Stdin = page.Body
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, p := range []*process{p, worker} {
		p.signal(syscall.SIGTERM)
		p.exits(0, patience)
	}
	becomes("DibsNotScraped", true)
}

// boardQueries are those of the board that we ship, once for each of them.
func boardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile("../../../examples/prometheus/dibs.grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	return queries
}

// metricsOf is where a process shows its metrics.
func (w *world) metricsOf(p *process) (address string) {
	w.t.Helper()
	said := regexp.MustCompile(`metrics are at http://([0-9.:]+)/metrics`)
	eventually(w.t, patience, func() bool {
		if m := said.FindStringSubmatch(p.stderr()); m != nil {
			address = m[1]
		}
		return address != ""
	}, p.String)
	return address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// got asks for a page, and decodes it if it is JSON's and somebody answers.
func got(t *testing.T, url string, into any) bool {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return false
	}
	defer r.Body.Close()
	return r.StatusCode == http.StatusOK && json.NewDecoder(r.Body).Decode(into) == nil
}

// A process is ready while its store answers, and alive anyhow; its metrics say that the store is silent, and not
// where it is. `dibs metrics` exits with 69.
func TestMetricsOfASilentStore(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, s *testserver.Server) {
		p := w.dibs("work", "mail", "--metrics-listen", "127.0.0.1:0", "--", "true")
		at := w.metricsOf(p)
		answers := func(path string, status int, text string) bool {
			r, err := http.Get("http://" + at + path)
			if err != nil {
				return false
			}
			defer r.Body.Close()
			b, _ := io.ReadAll(r.Body)
			if u := strings.Split(w.url, "?")[0]; strings.Contains(string(b), strings.SplitN(u, "//", 2)[1]) {
				t.Errorf("%s tells the address of the store:\n%s", path, b)
			}
			return r.StatusCode == status && strings.Contains(string(b), text)
		}
		become := func(path string, status int, text string) {
			t.Helper()
			eventually(t, patience, func() bool { return answers(path, status, text) }, func() string { return fmt.Sprintf("%s: want %d, %q\n%s", path, status, text, p) })
		}
		become("/readyz", 200, "ok")
		become("/metrics", 200, `dibs_workers{state="up"} 1`)
		w.must("task", "enqueue", "letter", "--queue", "mail", "--args", "{}")
		become("/metrics", 200, `dibs_task_finished_total{queue="mail",kind="letter",outcome="succeeded"} 1`)
		s.Stop()
		become("/readyz", 503, "the store does not answer")
		become("/livez", 200, "ok")
		become("/metrics", 200, "dibs_store_up 0")
		if out := w.dibs("metrics", "--timeout", "3s").exits(69, patience).stdout(); !strings.Contains(out, "dibs_store_up 0\n") {
			t.Errorf("dibs metrics says\n%s", out)
		}
		s.Cont()
		become("/readyz", 200, "ok")
		become("/metrics", 200, "dibs_store_up 1")
		for _, once := range []string{"/readyz says that the store does not answer", "the store answers again"} {
			if n := strings.Count(p.stderr(), once); n != 1 {
				t.Errorf("the log says %d times: %s\n%s", n, once, p)
			}
		}
	})
}

// Two processes cannot show their metrics at one address: the second says so, and does not begin.
func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	m := w.manifest("job", "@every 1h", "", "job", work{For: time.Millisecond})
	for _, at := range []string{l.Addr().String(), "9464", "nowhere:x"} {
		w.serve(m, "--metrics-listen", at).exits(2, patience).says("listen for metrics at")
		w.dibs("metrics", "--listen", at).exits(2, patience).says("listen for metrics at")
		w.dibs("work", "mail", "--metrics-listen", at, "--", "true").exits(2, patience).says("listen for metrics at")
	}
}
