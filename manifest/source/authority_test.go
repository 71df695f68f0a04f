package source

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/manifest"
)

// fetched loads what an application serves, under its own name, with grants.
func fetched(t *testing.T, jobs string, g Grants) (*manifest.Manifest, error) {
	t.Helper()
	s := application(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"version":1,"app":"shop","jobs":[%s]}`, strings.NewReplacer("ORIGIN", "https://"+r.Host, "HOST", r.Host, "BARE", strings.Split(r.Host, ":")[0]).Replace(jobs))
	})
	return load(t, s.URL, Options{Secrets: signing, Client: s.Client(), Grants: g})
}

// refusals are the paths of what an application named and was not granted.
func refusals(t *testing.T, err error) (paths []string) {
	t.Helper()
	var list manifest.Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatal(err)
	}
	for _, e := range list {
		paths = append(paths, e.Path)
	}
	return paths
}

// An application's manifest may not name anything of this server that was not granted, whatever a manifest can name;
// all of it is told at once.
// Holds: promise 25.
func TestAFetchedManifestNamesOnlyWhatWasGranted(t *testing.T) {
	job := func(rest string) string { return `{"name":"a","schedule":"@daily",` + rest + `}` }
	request := func(rest string) string { return job(`"request":{` + rest + `}`) }
	hook := func(rest string) string {
		return job(`"request":{"url":"ORIGIN/a"},"hooks":[{"on":["success"],` + rest + `}]`)
	}
	limit := func(rest string) string { return job(`"task":{"kind":"k","queue":"mail","limit":{` + rest + `}}`) }
	granted := Grants{Secrets: []string{"env:OWN", "key"}, Queues: []string{"mail"}, Limits: []string{"smtp"},
		Hosts: []string{"hooks.example", "far.example:8443", "[fd00::1]:443", "https://said.example", "http://plain.example",
			"http://plain.example:8080", "http://10.0.0.7:3128", "socks5://10.0.0.8"}}
	for jobs, want := range map[string]string{
		request(`"url":"ORIGIN/a"`):                                                  "",
		request(`"url":"https://hooks.example/"`):                                    "",
		request(`"url":"https://HOOKS.Example:443"`):                                 "",
		request(`"url":"https://said.example/"`):                                     "",
		request(`"url":"http://plain.example/"`):                                     "",
		request(`"url":"HTTP://Plain.example:80/"`):                                  "",
		request(`"url":"http://plain.example:8080/"`):                                "",
		request(`"url":"https://far.example:8443/"`):                                 "",
		request(`"url":"https://[fd00::1]/"`):                                        "",
		job(`"request":{"url":"ORIGIN/a"},"auth":{"secret_refs":["env:OWN","key"]}`): "",
		job(`"task":{"kind":"k","queue":"mail"}`):                                    "",
		request(`"url":"ORIGIN/a","proxy":"none"`):                                   "",
		request(`"url":"ORIGIN/a","proxy":"environment"`):                            "",
		request(`"url":"ORIGIN/a","proxy":"http://10.0.0.7:3128"`):                   "",
		request(`"url":"ORIGIN/a","proxy":"socks5://10.0.0.8:1080"`):                 "",
		request(`"url":"ORIGIN/a","tls":{"server_name":"hooks.example"}`):            "",
		limit(`"key":"shop/a"`):                                                      "",
		limit(`"key":"smtp","max":9,"shared":true,"on_contention":"replace"`):        "",
		hook(`"ping":"https://hooks.example/{app}-{job}"`):                           "",
		hook(`"request":{"url":"ORIGIN/told"}`):                                      "",

		request(`"url":"ORIGIN/","headers":{"Host":"HOST"}`):          "",
		request(`"url":"ORIGIN/","headers":{"Host":"hooks.example"}`): "",

		// Names do not stand in a host. Another host, another port, another scheme of its own, and what looks
		// like its own.
		request(`"url":"https://internal.example/"`):                     "jobs/0/request/url",
		request(`"url":"https://hooks.example:8443/"`):                   "jobs/0/request/url",
		request(`"url":"https://far.example/"`):                          "jobs/0/request/url",
		request(`"url":"https://x.hooks.example/"`):                      "jobs/0/request/url",
		request(`"url":"http://hooks.example/"`):                         "jobs/0/request/url",
		request(`"url":"http://hooks.example:443/"`):                     "jobs/0/request/url",
		request(`"url":"http://far.example:8443/"`):                      "jobs/0/request/url",
		request(`"url":"http://said.example/"`):                          "jobs/0/request/url",
		request(`"url":"https://plain.example/"`):                        "jobs/0/request/url",
		request(`"url":"https://plain.example:80/"`):                     "jobs/0/request/url",
		request(`"url":"https://10.0.0.8:1080/"`):                        "jobs/0/request/url",
		request(`"url":"https://hooks.example./"`):                       "jobs/0/request/url",
		request(`"url":"http://HOST/"`):                                  "jobs/0/request/url",
		request(`"url":"https://BARE/"`):                                 "jobs/0/request/url",
		request(`"url":"https://HOST@internal.example/"`):                "jobs/0/request/url",
		request(`"url":"https://internal.example/#@HOST"`):               "jobs/0/request/url",
		request(`"url":"https://internal.example\\@HOST/"`):              "jobs/0/request/url",
		request(`"url":"http://169.254.169.254/latest"`):                 "jobs/0/request/url",
		request(`"url":"http://localhost:6379/"`):                        "jobs/0/request/url",
		request(`"url":"ORIGIN/","proxy":"http://localhost:6379"`):       "jobs/0/request/proxy",
		request(`"url":"ORIGIN/","proxy":"socks5://10.0.0.7"`):           "jobs/0/request/proxy",
		request(`"url":"ORIGIN/","proxy":"http://hooks.example"`):        "jobs/0/request/proxy",
		request(`"url":"ORIGIN/","proxy":"http://10.0.0.8:1080"`):        "jobs/0/request/proxy",
		request(`"url":"ORIGIN/","tls":{"server_name":"evil"}`):          "jobs/0/request/tls/server_name",
		request(`"url":"ORIGIN/","tls":{"server_name":"plain.example"}`): "jobs/0/request/tls/server_name",
		request(`"url":"ORIGIN/","headers":{"host":"internal.example"}`): "jobs/0/request/headers/host",
		request(`"url":"ORIGIN/","headers":{"Host":"BARE"}`):             "jobs/0/request/headers/Host",
		hook(`"ping":"http://hooks.example/"`):                           "jobs/0/hooks/0/ping/url",
		hook(`"request":{"url":"http://hooks.example/"}`):                "jobs/0/hooks/0/request/url",
		hook(`"ping":"https://internal.example/"`):                       "jobs/0/hooks/0/ping/url",
		hook(`"ping":"https://{app}.example/"`):                          "jobs/0/hooks/0/ping",
		hook(`"ping":{"url":"ORIGIN/","proxy":"http://h:1"}`):            "jobs/0/hooks/0/ping/proxy",
		hook(`"request":{"url":"https://internal.example/"}`):            "jobs/0/hooks/0/request/url",
		hook(`"request":{"url":"ORIGIN/","tls":{"ca_file":"/ca"}}`):      "jobs/0/hooks/0/request/tls/ca_file",

		// Files, secrets, queues and commands.
		request(`"url":"ORIGIN/","tls":{"ca_file":"/etc/shadow"}`):                           "jobs/0/request/tls/ca_file",
		request(`"url":"ORIGIN/","tls":{"cert_file":"/c","key_file":"/k"}`):                  "jobs/0/request/tls/cert_file jobs/0/request/tls/key_file",
		job(`"request":{"url":"ORIGIN/"},"auth":{"secret_refs":["key","file:/etc/shadow"]}`): "jobs/0/auth/secret_refs/1",
		job(`"request":{"url":"ORIGIN/"},"auth":{"secret_refs":["env:DIBS_STORE"]}`):         "jobs/0/auth/secret_refs/0",
		job(`"request":{"url":"ORIGIN/"},"auth":{"secret_refs":["env:key"]}`):                "jobs/0/auth/secret_refs/0",
		job(`"task":{"kind":"k"}`):                              "jobs/0/task/queue",
		limit(`"key":"digest"`):                                 "jobs/0/task/limit/key",
		limit(`"key":"shop"`):                                   "jobs/0/task/limit/key",
		limit(`"key":"billing/a"`):                              "jobs/0/task/limit/key",
		limit(`"key":"SMTP","shared":true`):                     "jobs/0/task/limit/key",
		job(`"command":["sh"]`):                                 "jobs/0/command",
		job(`"command":["sh"],"env_from":{"A":"env:B"}`):        "jobs/0/command",
		job(`"task":{"kind":"k","queue":"mail"},"when":["sh"]`): "jobs/0/when",
		hook(`"command":["sh"]`):                                "jobs/0/hooks/0/command",
		request(`"url":"https://one.example/"`) + "," + `{"name":"b","schedule":"@daily","request":{"url":"https://two.example/"}}`: "jobs/0/request/url jobs/1/request/url",
	} {
		_, err := fetched(t, jobs, granted)
		if got := strings.Join(refusals(t, err), " "); got != want {
			t.Errorf("%s\nrefused: %s\nwant:    %s\n%v", jobs, got, want, err)
		}
	}
}

// TestWhatIsInheritedIsCheckedToo: defaults are the same author's.
func TestWhatIsInheritedIsCheckedToo(t *testing.T) {
	s := application(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"version":1,"app":"shop","defaults":{"request":{"proxy":"http://localhost:1","tls":{"ca_file":"/ca"}},"hooks":[{"on":["start"],"ping":"https://internal.example/"}]},
			"jobs":[{"name":"a","schedule":"@daily","request":{"url":"https://%s/"}}]}`, r.Host)
	})
	_, err := load(t, s.URL, Options{Secrets: signing, Client: s.Client()})
	if got := strings.Join(refusals(t, err), " "); got != "jobs/0/request/proxy jobs/0/request/tls/ca_file jobs/0/hooks/0/ping/url" {
		t.Error(err)
	}
}

// TestTheOperatorsOwnManifestNamesEverything: of a file nothing is asked.
func TestTheOperatorsOwnManifestNamesEverything(t *testing.T) {
	dir := write(t, map[string]string{"m.yaml": `
version: 1
app: shop
jobs:
- {name: a, schedule: "@daily", command: [sh], when: [sh], env_from: {A: "file:/etc/shadow"}, hooks: [{on: [start], command: [sh]}]}
- {name: b, schedule: "@daily", request: {url: "http://localhost/", proxy: "http://localhost:1", tls: {}}, auth: {secret_refs: ["env:DIBS_STORE"]}}
- {name: c, schedule: "@daily", task: {kind: k}}
`})
	s, err := New(dir, Options{})
	if err != nil || s.Grants() != nil {
		t.Fatal(err)
	}
	m, err := load(t, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range m.Jobs {
		if j.Source != "" {
			t.Errorf("%s is said to be of %s", j.Name, j.Source)
		}
	}
}

// TestGrantedHostsHaveAForm: an address, or a pattern, is none.
func TestGrantedHostsHaveAForm(t *testing.T) {
	for host, ok := range map[string]bool{"h": true, "hooks.example": true, "hooks.example:8443": true, "10.0.0.7": true, "[::1]:80": true, "[::1]": true,
		"https://h": true, "http://h:8080": true, "http://[::1]:80": true, "socks5://h:1080": true,
		"ftp://h": false, "http://": false, "http://u@h": false, "http://h/": false, "://h": false,
		"": false, "h/": false, "*.example": false, "h:": false, "h:port": false, "h:65535": true, "h:65536": false, "http://h:0": false, "::1": false, "a b": false, "u@h": false, "h#": false} {
		if err := CheckHost(host); (err == nil) != ok {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestWhatIsMissingIsSaidAsItIsGranted: the cure is what dibs takes, and grants what was refused.
func TestWhatIsMissingIsSaidAsItIsGranted(t *testing.T) {
	for address, want := range map[string]string{"https://h/a": "h", "https://h:8443/a": "h:8443", "http://h/a": "http://h",
		"http://H:8080/": "http://H:8080", "http://[fd00::1]/": "http://[fd00::1]"} {
		jobs := `{"name":"a","schedule":"@daily","request":{"url":"` + address + `"}}`
		_, err := fetched(t, jobs, Grants{})
		if err == nil || !strings.HasSuffix(err.Error(), ": add --allow-host "+want) {
			t.Errorf("%s: want --allow-host %s, got %v", address, want, err)
		}
		if _, err := fetched(t, jobs, Grants{Hosts: []string{want}}); CheckHost(want) != nil || err != nil {
			t.Errorf("%s is granted, and %s refused: %v, %v", want, address, CheckHost(want), err)
		}
	}
}

// TestAnApplicationSpeaksForTheAppsThatItWasGranted, and where it was granted none, its jobs say whose they are.
func TestAnApplicationSpeaksForTheAppsThatItWasGranted(t *testing.T) {
	const jobs = `{"name":"a","schedule":"@daily","request":{"url":"ORIGIN/"}},
		{"name":"b","schedule":"@daily","request":{"url":"ORIGIN/"}}`
	granting := map[string]bool{"": true, "shop": true, "billing,shop": true, "billing": false, "shop2": false}
	for granted, ok := range granting {
		g := Grants{}
		if granted != "" {
			g.Apps = strings.Split(granted, ",")
		}
		m, err := fetched(t, jobs, g)
		if !ok {
			if strings.Join(refusals(t, err), " ") != "app" || !strings.HasSuffix(err.Error(), "add --app shop") {
				t.Errorf("%q is granted: %v", granted, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q is granted: %v", granted, err)
			continue
		}
		for _, j := range m.Jobs {
			own := strings.HasPrefix(j.Source, "https://127.0.0.1:") && strings.HasSuffix(j.Source, WellKnown)
			if own != (granted == "") {
				t.Errorf("%q is granted, and the source is %q", granted, j.Source)
			}
		}
	}
}

// TestTheIdentityOfAnApplication: one address has one, however it is written.
func TestTheIdentityOfAnApplication(t *testing.T) {
	for address, want := range map[string]string{
		"https://shop.example":                       "https://shop.example" + WellKnown,
		"HTTPS://Shop.Example:443/":                  "https://shop.example" + WellKnown,
		"https://shop.example:8443/Jobs?token=x":     "https://shop.example:8443/Jobs",
		"http://127.0.0.1:80/a%2Fb#c":                "http://127.0.0.1/a%2Fb",
		"https://[fd00::1]:443" + WellKnown + "?a=1": "https://[fd00::1]" + WellKnown,
	} {
		s, err := New(address, Options{Secrets: signing})
		if err != nil {
			t.Fatal(err)
		}
		if got := identity(s.origin); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// TestGrantedAppsHaveAForm: that of an app.
func TestGrantedAppsHaveAForm(t *testing.T) {
	forms := map[string]bool{"shop": true, "a-1": true, "": false, "Shop": false, "shop/a": false, "*": false, "-": false}
	for app, ok := range forms {
		if err := CheckApp(app); (err == nil) != ok {
			t.Errorf("%q: %v", app, err)
		}
	}
}
