package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
)

type obj = map[string]any

// request is a document with one request job, changed.
func request(change func(top, job obj)) obj {
	j := obj{"name": "x", "schedule": "@daily", "request": obj{"url": "https://h/"}}
	top := obj{"version": 1, "app": "a", "jobs": []any{j}}
	change(top, j)
	return top
}

func of(field string, v any) obj { return request(func(_, j obj) { j[field] = v }) }

func inRequest(field string, v any) obj {
	return of("request", obj{"url": "https://h/", field: v})
}

func inPolicy(field string, v any) obj { return of("policy", obj{field: v}) }

func inRetries(of obj) obj { return inPolicy("retries", of) }

func command(fields obj) obj {
	return request(func(_, j obj) {
		delete(j, "request")
		j["command"] = []any{"true"}
		maps.Copy(j, fields)
	})
}

func jobs(n int) obj {
	return request(func(top, _ obj) {
		all := []any{}
		for i := range n {
			all = append(all, obj{"name": fmt.Sprintf("j%d", i), "schedule": "@daily", "request": obj{"url": "https://h/"}})
		}
		top["jobs"] = all
	})
}

func many(s string, n int) []any {
	all := []any{}
	for _, s := range repeat(s, n) {
		all = append(all, s)
	}
	return all
}

func schedules(n int) obj {
	return request(func(_, j obj) { delete(j, "schedule"); j["schedules"] = many("@daily", n) })
}

func without(field string) obj {
	return request(func(top, j obj) { delete(top, field); delete(j, field) })
}

func top(field string, v any) obj { return request(func(top, _ obj) { top[field] = v }) }

const long63, long64 = "a23456789-123456789-123456789-123456789-123456789-123456789-123", "a23456789-123456789-123456789-123456789-123456789-123456789-1234"

// TestRules: each rule of version 1 and each of ours, at its boundaries: the least and the most
// that is right, and the first that is wrong on either side, with the path of its one error. The
// JSON Schema says the same wherever a schema can.
// Holds: promise 25.
func TestRules(t *testing.T) {
	wide := func(field string, v any) obj { return of("policy", obj{"deadline_seconds": 1, field: v}) }
	cases := []struct {
		document obj
		path     string // of the one error; "" if there is none
	}{
		{top("version", 1), ""}, {top("version", 0), "version"}, {top("version", 2), "version"}, {top("version", "1"), "version"},
		{top("version", 1.5), "version"}, {top("version", json.Number("1.0")), ""}, {without("version"), "version"},
		{top("app", "a"), ""}, {top("app", long63), ""}, {top("app", long64), "app"}, {top("app", ""), "app"}, {top("app", "-a"), "app"},
		{top("app", "1"), "app"}, {top("app", "A"), "app"}, {top("app", "a_b"), "app"}, {top("app", "a\n"), "app"}, {top("app", "é"), "app"}, {top("app", nil), "app"}, {without("app"), "app"},
		{jobs(0), "jobs"}, {jobs(1), ""}, {jobs(256), ""}, {jobs(257), "jobs"}, {without("jobs"), "jobs"}, {top("jobs", obj{}), "jobs"}, {top("jobs", nil), "jobs"},
		{of("name", "no"), ""}, {of("name", long63), ""}, {of("name", long64), "jobs/0/name"}, {of("name", "X"), "jobs/0/name"}, {of("name", nil), "jobs/0/name"}, {without("name"), "jobs/0/name"},
		{request(func(top, j obj) { top["jobs"] = []any{j, j} }), "jobs/1/name"},
		{without("schedule"), "jobs/0"}, {of("schedules", many("@daily", 1)), "jobs/0"}, {schedules(0), "jobs/0/schedules"},
		{schedules(1), ""}, {schedules(64), ""}, {schedules(65), "jobs/0/schedules"}, {of("schedule", 5), "jobs/0/schedule"}, {of("schedule", ""), "jobs/0/schedule"},
		{of("schedule", "@every 60s"), ""}, {of("schedule", "@every 59s"), "jobs/0/schedule"}, {of("schedule", "@every 1m"), ""}, {of("schedule", "@every 1h"), ""}, {of("schedule", "@every 0m"), "jobs/0/schedule"},
		{of("schedule", "@every 90m"), ""}, {of("schedule", "@every 1m30s"), "jobs/0/schedule"}, {of("schedule", " @daily\t"), ""},
		{of("schedule", "@hourly"), ""}, {of("schedule", "@midnight"), ""}, {of("schedule", "@weekly"), ""}, {of("schedule", "@monthly"), ""}, {of("schedule", "@yearly"), ""}, {of("schedule", "@annually"), ""},
		{of("schedule", "* * * *"), "jobs/0/schedule"},
		{of("timezone", "UTC"), ""}, {of("timezone", "Europe/Berlin"), ""}, {of("timezone", "Europe/Nowhere"), "jobs/0/timezone"}, {of("timezone", ""), "jobs/0/timezone"}, {of("timezone", "Local"), "jobs/0/timezone"},
		{without("request"), "jobs/0/request"}, {of("request", obj{}), "jobs/0/request/url"}, {of("command", many("a", 1)), "jobs/0"},
		{inRequest("method", "GET"), ""}, {inRequest("method", "POST"), ""}, {inRequest("method", "PUT"), ""}, {inRequest("method", "PATCH"), ""}, {inRequest("method", "DELETE"), ""},
		{inRequest("method", "HEAD"), "jobs/0/request/method"}, {inRequest("method", "get"), "jobs/0/request/method"}, {inRequest("method", ""), "jobs/0/request/method"},
		{inRequest("url", "http://h"), ""}, {inRequest("url", "HTTPS://h:1/a?b=c"), ""}, {inRequest("url", "ftp://h"), "jobs/0/request/url"}, {inRequest("url", "/a"), "jobs/0/request/url"},
		{inRequest("url", "//h/a"), "jobs/0/request/url"}, {inRequest("url", "https://"), "jobs/0/request/url"}, {inRequest("url", "https:///a"), "jobs/0/request/url"}, {inRequest("url", "https://:1/"), "jobs/0/request/url"}, {inRequest("url", "https://h:port/"), "jobs/0/request/url"},
		{inRequest("headers", obj{}), ""}, {inRequest("headers", obj{"A": "b"}), ""}, {inRequest("headers", obj{"A": 1}), "jobs/0/request/headers/A"}, {inRequest("headers", obj{"A b": "c"}), "jobs/0/request/headers/A b"},
		{inRequest("headers", obj{"A": "b\n"}), "jobs/0/request/headers/A"}, {inRequest("headers", obj{"A": "b\tc"}), ""}, {inRequest("headers", obj{"A/b": "c"}), "jobs/0/request/headers/A~1b"}, {inRequest("headers", []any{}), "jobs/0/request/headers"},
		{inRequest("headers", obj{"Content-Length": "1"}), "jobs/0/request/headers/Content-Length"}, {inRequest("headers", obj{"transfer-encoding": "chunked"}), "jobs/0/request/headers/transfer-encoding"},
		{inRequest("headers", obj{"Trailer": "X"}), "jobs/0/request/headers/Trailer"}, {inRequest("headers", obj{"HOST": "shop.internal:8080"}), ""}, {inRequest("headers", obj{"Host": "a b"}), "jobs/0/request/headers/Host"},
		{inRequest("headers", obj{"Host": ""}), "jobs/0/request/headers/Host"},
		{inRequest("url", "https://h:65535/"), ""}, {inRequest("url", "https://h:65536/"), "jobs/0/request/url"}, {inRequest("url", "https://h:99999/"), "jobs/0/request/url"}, {inRequest("url", "https://[::1]:0/"), "jobs/0/request/url"},
		{inRequest("proxy", "http://p:99999"), "jobs/0/request/proxy"}, {inRequest("proxy", "socks5://p:1080"), ""},
		{inRequest("body", ""), ""}, {inRequest("body", "\x00"), ""}, {inRequest("body", obj{}), "jobs/0/request/body"},
		{inPolicy("concurrency", "Allow"), ""}, {inPolicy("concurrency", "Forbid"), ""}, {inPolicy("concurrency", "Replace"), ""}, {inPolicy("concurrency", "Wait"), "jobs/0/policy/concurrency"}, {inPolicy("concurrency", "allow"), "jobs/0/policy/concurrency"},
		{inPolicy("concurrency_scope", "host"), ""}, {inPolicy("concurrency_scope", "global"), ""}, {inPolicy("concurrency_scope", "fleet"), "jobs/0/policy/concurrency_scope"},
		{inPolicy("timeout_seconds", 0), "jobs/0/policy/timeout_seconds"}, {inPolicy("timeout_seconds", 1), ""}, {inPolicy("timeout_seconds", 600), ""}, {inPolicy("timeout_seconds", 601), "jobs/0/policy/timeout_seconds"},
		{inPolicy("timeout_seconds", json.Number("6e2")), ""}, {inPolicy("timeout_seconds", json.Number("600.0")), ""}, {inPolicy("timeout_seconds", json.Number("600.00000000000000000001")), "jobs/0/policy/timeout_seconds"}, {inPolicy("timeout_seconds", "60"), "jobs/0/policy/timeout_seconds"},
		{inRetries(obj{"max_attempts": 0}), "jobs/0/policy/retries/max_attempts"}, {inRetries(obj{"max_attempts": 1}), ""}, {inRetries(obj{"max_attempts": 10}), ""}, {inRetries(obj{"max_attempts": 11}), "jobs/0/policy/retries/max_attempts"},
		{inRetries(obj{"min_seconds": -1}), "jobs/0/policy/retries/min_seconds"}, {inRetries(obj{"min_seconds": 0}), ""}, {inRetries(obj{"min_seconds": 60}), ""}, {inRetries(obj{"min_seconds": 61}), "jobs/0/policy/retries"},
		{inRetries(obj{"max_seconds": 0}), "jobs/0/policy/retries/max_seconds"}, {inRetries(obj{"max_seconds": 1}), ""}, {inRetries(obj{"min_seconds": 5, "max_seconds": 5}), ""}, {inRetries(obj{"min_seconds": 5, "max_seconds": 4}), "jobs/0/policy/retries"},
		{inRetries(obj{"max_seconds": maxBackoff}), ""}, {inRetries(obj{"max_seconds": maxBackoff + 1}), "jobs/0/policy/retries/max_seconds"}, {inRetries(obj{"attempts": 1}), "jobs/0/policy/retries/attempts"},
		{of("auth", obj{"secret_refs": many("S", 1)}), ""}, {of("auth", obj{"secret_refs": many("S", 8)}), ""}, {of("auth", obj{"secret_refs": many("S", 9)}), "jobs/0/auth/secret_refs"}, {of("auth", obj{"secret_refs": []any{}}), ""}, {of("auth", obj{}), ""},
		{of("auth", obj{"secret_refs": many("a"+strings.Repeat("_:./-9Z", 18)+"x", 1)}), ""}, {of("auth", obj{"secret_refs": many("a"+strings.Repeat("x", 128), 1)}), "jobs/0/auth/secret_refs/0"}, {of("auth", obj{"secret_refs": many("1a", 1)}), "jobs/0/auth/secret_refs/0"},
		{top("x", 1), "x"}, {of("x", 1), "jobs/0/x"}, {inRequest("x", 1), "jobs/0/request/x"}, {inPolicy("x", 1), "jobs/0/policy/x"}, {of("auth", obj{"x": 1}), "jobs/0/auth/x"},
		// What is ours.
		{inRequest("redirects", "none"), ""}, {inRequest("redirects", "same_origin"), ""}, {inRequest("redirects", "follow"), "jobs/0/request/redirects"}, {inRequest("redirects", true), "jobs/0/request/redirects"},
		{inRequest("proxy", "environment"), ""}, {inRequest("proxy", "none"), ""}, {inRequest("proxy", "http://p:3128"), ""}, {inRequest("proxy", "HTTPS://p/"), ""}, {inRequest("proxy", "socks5://[::1]:1080"), ""},
		{inRequest("proxy", ""), "jobs/0/request/proxy"}, {inRequest("proxy", "p:3128"), "jobs/0/request/proxy"}, {inRequest("proxy", "ftp://p"), "jobs/0/request/proxy"}, {inRequest("proxy", "http://p:port"), "jobs/0/request/proxy"},
		{inRequest("proxy", "http://p/path"), "jobs/0/request/proxy"}, {inRequest("proxy", "http://me:hunter2@p:3128"), "jobs/0/request/proxy"},
		{inRequest("tls", obj{}), ""}, {inRequest("tls", obj{"ca_file": "/ca.pem", "cert_file": "c", "key_file": "k", "server_name": "h.internal", "min_version": "1.3"}), ""},
		{inRequest("tls", obj{"ca_file": ""}), "jobs/0/request/tls/ca_file"}, {inRequest("tls", obj{"cert_file": "c"}), "jobs/0/request/tls/cert_file"}, {inRequest("tls", obj{"key_file": "k"}), "jobs/0/request/tls/key_file"},
		{inRequest("tls", obj{"server_name": "a/b"}), "jobs/0/request/tls/server_name"}, {inRequest("tls", obj{"min_version": "1.1"}), "jobs/0/request/tls/min_version"}, {inRequest("tls", obj{"min_version": 1.2}), "jobs/0/request/tls/min_version"},
		{inRequest("tls", obj{"insecure_skip_verify": true}), "jobs/0/request/tls/insecure_skip_verify"}, {of("request", obj{"url": "http://h/", "tls": obj{"ca_file": "c"}}), "jobs/0/request/tls"}, {of("request", obj{"url": "http://h/", "tls": obj{"min_version": "1.2"}}), ""},
		{request(func(_, j obj) {
			j["request"] = obj{"url": "https://h/", "redirects": "same_origin", "proxy": "none"}
			j["policy"] = obj{"timeout_seconds": 601}
		}), "jobs/0/policy/timeout_seconds"},
		{top("defaults", obj{"request": obj{"redirects": "same_origin", "proxy": "none", "tls": obj{"ca_file": "c"}}}), ""}, {top("defaults", obj{"request": obj{"proxy": "p"}}), "defaults/request/proxy"},
		{wide("timeout_seconds", 0), "jobs/0/policy/timeout_seconds"}, {wide("timeout_seconds", 601), ""}, {wide("timeout_seconds", maxSeconds), ""}, {wide("timeout_seconds", maxSeconds+1), "jobs/0/policy/timeout_seconds"}, {wide("concurrency", "Wait"), ""},
		{of("policy", obj{"deadline_seconds": 0, "timeout_seconds": 601}), "jobs/0/policy/timeout_seconds"}, {of("policy", obj{"leftovers": "kill", "timeout_seconds": 601}), "jobs/0/policy/timeout_seconds"},
		{of("policy", obj{"stop_grace_seconds": 10, "timeout_seconds": 601}), "jobs/0/policy/timeout_seconds"}, {of("policy", obj{"stop_grace_seconds": 11, "timeout_seconds": 601}), ""},
		{command(obj{"policy": obj{"timeout_seconds": 0}}), ""}, {command(obj{"policy": obj{"timeout_seconds": -1}}), "jobs/0/policy/timeout_seconds"}, {command(obj{"policy": obj{"concurrency": "Wait"}}), ""}, {command(obj{"schedule": "@every 1s"}), ""},
		{of("dst", "vixie"), ""}, {of("dst", "repeat"), ""}, {of("dst", "twice"), "jobs/0/dst"}, {of("schedule", "0 0 4 * * *"), "jobs/0/schedule"},
		{request(func(_, j obj) { j["dst"] = "skip"; j["policy"] = obj{"timeout_seconds": 601} }), ""}, {request(func(_, j obj) { j["dst"] = "vixie"; j["policy"] = obj{"timeout_seconds": 601} }), "jobs/0/policy/timeout_seconds"},
		{request(func(_, j obj) { j["schedule"] = "0 0 L * *"; j["policy"] = obj{"timeout_seconds": 601} }), ""}, {request(func(_, j obj) { j["schedule"] = "0 0 * JUL WED"; j["policy"] = obj{"timeout_seconds": 601} }), "jobs/0/policy/timeout_seconds"},
		{request(func(top, j obj) { top["defaults"] = obj{"dst": "skip"}; j["policy"] = obj{"timeout_seconds": 601} }), ""}, {top("defaults", obj{"dst": "Skip"}), "defaults/dst"},
		{command(obj{"dir": "/", "env": obj{"A": ""}}), ""}, {of("dir", "/"), "jobs/0/dir"}, {of("env", obj{}), "jobs/0/env"}, {command(obj{"env": obj{"A=": ""}}), "jobs/0/env/A="}, {command(obj{"dir": "\x00"}), "jobs/0/dir"},
		{command(obj{"command": []any{}}), "jobs/0/command"}, {command(obj{"command": []any{""}}), "jobs/0/command/0"}, {command(obj{"command": []any{"a", ""}}), ""}, {command(obj{"command": []any{"a", "\x00"}}), "jobs/0/command/1"},
		{command(obj{"command": obj{"args": many("a", 1)}}), "jobs/0/command"}, {command(obj{"command": obj{"command": "a"}}), "jobs/0/command"},
		{command(obj{"command": "a"}), "jobs/0/command"}, {command(obj{"command": obj{"shell": "a"}}), ""}, {command(obj{"command": obj{"shell": " "}}), "jobs/0/command/shell"}, {command(obj{"command": obj{}}), "jobs/0/command/shell"},
		{top("defaults", obj{}), ""}, {top("defaults", obj{"policy": obj{"timeout_seconds": 600}}), ""}, {top("defaults", obj{"policy": obj{"timeout_seconds": 601}}), "defaults/policy/timeout_seconds"}, {top("defaults", obj{"policy": obj{"timeout_seconds": 601, "catch_up": "all"}}), ""},
		{top("defaults", obj{"policy": obj{"retries": obj{"min_seconds": 61}}}), "defaults/policy/retries"}, {top("defaults", obj{"timezone": "x"}), "defaults/timezone"}, {top("defaults", obj{"request": obj{"url": "https://h/"}}), "defaults/request/url"},
		{top("defaults", obj{"request": obj{"headers": numbered(64)}}), ""}, {top("defaults", obj{"request": obj{"headers": numbered(65)}}), "defaults/request/headers"},
	}
	hook := func(fields obj) obj { return of("hooks", []any{fields}) }
	const ping = "https://hc.example/x"
	cases = append(cases, []struct {
		document obj
		path     string
	}{
		{of("hooks", []any{}), ""}, {of("hooks", obj{}), "jobs/0/hooks"}, {of("hooks", hooks(maxHooks)), ""}, {of("hooks", hooks(maxHooks+1)), "jobs/0/hooks"}, {top("defaults", obj{"hooks": hooks(1)}), ""},
		{hook(obj{"ping": ping}), "jobs/0/hooks/0/on"}, {hook(obj{"on": many("start", 1)}), "jobs/0/hooks/0"}, {hook(obj{"on": []any{}, "ping": ping}), "jobs/0/hooks/0/on"},
		{hook(obj{"on": many("end", 1), "ping": ping}), "jobs/0/hooks/0/on/0"}, {hook(obj{"on": []any{"start", "success", "failure", "skip", "miss", "recovery", "start"}, "ping": ping}), ""},
		{hook(obj{"on": many("start", 1), "ping": ping, "command": many("true", 1)}), "jobs/0/hooks/0"}, {hook(obj{"on": many("start", 1), "command": many("true", 1)}), ""}, {hook(obj{"on": many("start", 1), "command": obj{"shell": "true"}}), ""},
		{hook(obj{"on": many("start", 1), "command": "true"}), "jobs/0/hooks/0/command"}, {hook(obj{"on": many("start", 1), "ping": "hc.example"}), "jobs/0/hooks/0/ping"}, {hook(obj{"on": many("start", 1), "ping": "https://hc.example/{app}/{job}"}), ""},
		{hook(obj{"on": many("start", 1), "request": obj{"url": ping, "headers": obj{"Trailer": "X"}}}), "jobs/0/hooks/0/request/headers/Trailer"}, {hook(obj{"on": many("start", 1), "ping": "https://h:99999/"}), "jobs/0/hooks/0/ping"},
		{hook(obj{"on": many("start", 1), "request": obj{}}), "jobs/0/hooks/0/request/url"}, {hook(obj{"on": many("start", 1), "request": obj{"url": ping, "headers": obj{"A": "b"}}}), ""}, {hook(obj{"on": many("start", 1), "request": obj{"url": ping, "method": "GET"}}), "jobs/0/hooks/0/request/method"},
		{hook(obj{"on": many("start", 1), "ping": obj{"url": ping, "proxy": "none"}}), ""}, {hook(obj{"on": many("start", 1), "ping": obj{"proxy": "none"}}), "jobs/0/hooks/0/ping/url"}, {hook(obj{"on": many("start", 1), "ping": obj{"url": "hc.example"}}), "jobs/0/hooks/0/ping/url"},
		{hook(obj{"on": many("start", 1), "ping": obj{"url": ping, "headers": obj{"A": "b"}}}), "jobs/0/hooks/0/ping/headers"}, {hook(obj{"on": many("start", 1), "ping": many(ping, 1)}), "jobs/0/hooks/0/ping"}, {hook(obj{"on": many("start", 1), "ping": obj{"url": "http://h/", "tls": obj{"ca_file": "/ca"}}}), "jobs/0/hooks/0/ping/tls"},
		{hook(obj{"on": many("start", 1), "request": obj{"url": ping, "redirects": "same_origin", "proxy": "socks5://p:1", "tls": obj{"cert_file": "/c", "key_file": "/k"}}}), ""}, {hook(obj{"on": many("start", 1), "request": obj{"url": ping, "tls": obj{"cert_file": "/c"}}}), "jobs/0/hooks/0/request/tls/cert_file"},
		{hook(obj{"on": many("too_long", 1), "ping": ping}), "jobs/0/hooks/0"}, {hook(obj{"on": many("too_long", 1), "ping": ping, "too_long_seconds": 1}), ""}, {hook(obj{"on": many("too_long", 1), "ping": ping, "too_long_seconds": 0}), "jobs/0/hooks/0/too_long_seconds"},
		{hook(obj{"on": many("start", 1), "ping": ping, "too_long_seconds": 1}), "jobs/0/hooks/0/too_long_seconds"}, {hook(obj{"on": many("start", 1), "ping": ping, "timeout_seconds": maxHookTime}), ""}, {hook(obj{"on": many("start", 1), "ping": ping, "timeout_seconds": maxHookTime + 1}), "jobs/0/hooks/0/timeout_seconds"},
		{request(func(_, j obj) { j["hooks"] = hooks(1); j["policy"] = obj{"timeout_seconds": 601} }), "jobs/0/policy/timeout_seconds"}, {top("defaults", obj{"hooks": []any{obj{"on": many("too_long", 1), "ping": ping}}}), "defaults/hooks/0"},
	}...)
	for _, field := range []string{"deadline_seconds", "starting_deadline_seconds", "stop_grace_seconds", "catch_up_window_seconds"} {
		least, path := 0, "jobs/0/policy/"+field
		if field == "catch_up_window_seconds" {
			least = 1
		}
		for v, path := range map[int]string{least - 1: path, least: "", maxSeconds: "", maxSeconds + 1: path} {
			cases = append(cases, struct {
				document obj
				path     string
			}{inPolicy(field, v), path})
		}
	}
	schema := compiled(t)
	for _, c := range cases {
		data, err := json.Marshal(c.document)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := load(data, "m.json")
		if c.path == "" && len(errs) > 0 || c.path != "" && (len(errs) != 1 || errs[0].Path != c.path) {
			t.Errorf("%.300s:\n got %v\nwant one error of %q", data, errs, c.path)
		}
		agree(t, schema, data)
	}
}

func hooks(n int) (all []any) {
	for range n {
		all = append(all, obj{"on": many("failure", 1), "ping": "https://hc.example/x"})
	}
	return all
}

func numbered(n int) obj {
	all := obj{}
	for i := range n {
		all[fmt.Sprintf("X-%d", i)] = "v"
	}
	return all
}

// TestAllAtOnce: a field that is wrong hides no other.
func TestAllAtOnce(t *testing.T) {
	data, _ := json.Marshal(obj{"version": 2, "app": "A", "defaults": obj{"timezone": "Nowhere"}, "jobs": []any{
		obj{"name": "N", "schedule": "x", "schedules": []any{"y"}, "timezone": "Mars", "request": obj{"url": "no", "method": "X"},
			"command": []any{""}, "policy": obj{"timeout_seconds": -1, "retries": obj{"max_attempts": 0}}, "auth": obj{"secret_refs": []any{"1"}}, "zzz": 1},
		7,
	}})
	_, errs := load(data, "m.json")
	var paths []string
	for _, e := range errs {
		paths = append(paths, e.Path)
	}
	slices.Sort(paths)
	want := []string{"app", "defaults/timezone", "jobs/0", "jobs/0", "jobs/0/auth/secret_refs/0", "jobs/0/command/0", "jobs/0/name", "jobs/0/policy/retries/max_attempts",
		"jobs/0/policy/timeout_seconds", "jobs/0/request/method", "jobs/0/request/url", "jobs/0/schedule", "jobs/0/schedules/0", "jobs/0/timezone", "jobs/0/zzz", "jobs/1", "version"}
	if !slices.Equal(paths, want) {
		t.Errorf("got  %q\nwant %q\n%v", paths, want, errs)
	}
}

// TestManyErrors: a document made of errors is told of in bounded space and in time that grows
// with its size.
func TestManyErrors(t *testing.T) {
	testsize.Counts(t)
	var b strings.Builder
	b.WriteString("{")
	for i := range 200_000 {
		fmt.Fprintf(&b, `"%d":1,`, i)
	}
	b.WriteString(`"version":1}`)
	_, errs := load([]byte(b.String()), "m.json")
	if len(errs) != maxErrors+1 {
		t.Errorf("%d errors: want %d and a word about the rest", len(errs), maxErrors)
	}
}

// TestWords: the description's words are those that package job knows.
func TestWords(t *testing.T) {
	policy := described().job.prop("policy")
	for field, known := range map[string]string{
		"concurrency":       parseError(job.ParseConcurrency),
		"concurrency_scope": parseError(job.ParseScope),
		"catch_up":          parseError(job.ParseCatchUp),
		"on_crash":          parseError(job.ParseOnCrash),
		"leftovers":         parseError(job.ParseLeftovers),
		"on_lost_request":   parseError(job.ParseOnLostRequest),
		"dst":               parseError(job.ParseDST),
	} {
		of := policy.prop(field)
		if of == nil {
			of = described().job.prop(field)
		}
		if got := of.wrong(&node{kind: text, text: "?"}); got != known {
			t.Errorf("%s: the description says %s, and the job %s", field, got, known)
		}
	}
}

func parseError[T any](parse func(string) (T, error)) string {
	_, err := parse("?")
	return err.Error()
}
