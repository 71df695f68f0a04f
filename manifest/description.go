package manifest

import (
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/dibs-run/dibs/job"
)

// The limits, in items and in seconds. Those of version 1 hold for requests that use no field of
// ours.
const (
	maxJobs      = 256
	maxSchedules = 64
	maxSecrets   = 8
	maxAttempts  = 10
	// maxTimeout is version 1's.
	maxTimeout = 600
	// maxSeconds is the limit of every duration of our own: 30 days.
	maxSeconds = 30 * 24 * 60 * 60
	// maxBackoff is what version 1 leaves open: 100 years, which a time.Duration still holds.
	maxBackoff = 100 * 365 * 24 * 60 * 60
	maxWindows = 64 // and environments
	// maxInherited bounds what each of 256 jobs gets a copy of.
	maxInherited = 64
	maxHooks     = 16
	// maxHookTime is that of one attempt of a hook, in seconds.
	maxHookTime = 600
	// widen says how a request gets out of version 1's limits.
	widen = "; a request without dibs's own policy fields has the limits of version 1"
)

const (
	nameWant    = "a lower-case letter, then up to 62 of a-z, 0-9 and -"
	urlWant     = "an absolute http or https address"
	lineWant    = "a line for /bin/sh"
	commandWant = `a list, the program and its arguments, or {"shell": "a line for /bin/sh"}`
)

// The rules of strings. They avoid what regexp and ECMAScript read differently, such as \s.
var (
	nameRule   = ruleOf(`^[a-z][a-z0-9-]{0,62}$`, "%q: want "+nameWant)
	secretRule = ruleOf(`^[a-zA-Z][a-zA-Z0-9_:./-]{0,127}$`, "%q: want a letter, then up to 127 letters, digits and _ : . / -")
	urlRule    = ruleOf(`^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]`, "%q: want "+urlWant)
	tokenRule  = ruleOf("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "%q is no name of a header: want letters, digits and !#$%&'*+-.^_`|~")
	valueRule  = ruleOf(`^[^\x00-\x08\x0a-\x1f\x7f]*$`, "a header's value cannot have line ends or other control characters: remove them")
	envRule    = ruleOf(`^[^=\x00]+$`, "%q is no name of a variable: want one without = in it")
	nulRule    = ruleOf(`^[^\x00]*$`, "a NUL character cannot be passed to a program: remove it")
	userRule   = ruleOf(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`, "%q: want a name or a number")
	umaskRule  = ruleOf(`^0?[0-7]{3}$`, "%q: want three octal digits in quotes, as in \"027\"")
	lineRule   = ruleOf(`[^ \t\n\v\f\r]`, "the line is empty: want "+lineWant)
	proxyRule  = ruleOf(`^(environment|none|([Hh][Tt][Tt][Pp][Ss]?|[Ss][Oo][Cc][Kk][Ss]5)://([0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?/?)$`, "want environment, none, or an address such as http://proxy:3128; put a proxy's password into dibs's environment (HTTPS_PROXY)")
	pathRule   = ruleOf(`^[^\x00]{1,1000}$`, "want the path of a PEM file")
	wordRule   = ruleOf(`^[!-~]{1,128}$`, "%q: want 1 to 128 letters, digits and signs of ASCII, without blanks")
	keyRule    = ruleOf(`^[ -~]{1,512}$`, "%q: want 1 to 512 letters, digits, signs and blanks of ASCII")
	hostRule   = ruleOf(`^[0-9A-Za-z._:-]{1,253}$`, "%q: want the name of a host")
	argRule    = ruleOf(`^[^\x00]`, "the program's name is empty: want "+commandWant)
)

// plainRule is an expression that surely uses nothing beyond version 1's dialect: with any other
// one a request may have the wider limits.
var plainRule = ruleOf(plainExpression(), "%q is not plain")

func plainExpression() string {
	var names []string
	for _, name := range strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC SUN MON TUE WED THU FRI SAT") {
		either := ""
		for _, c := range name {
			either += "[" + string(c) + string(unicode.ToLower(c)) + "]"
		}
		names = append(names, either)
	}
	one := "([-*/,0-9]|" + strings.Join(names, "|") + ")+"
	return "^[ \\t]*(@.*|" + one + "([ \\t]+" + one + "){4,6})[ \\t]*$"
}

// widening are the fields of the defaults on which the limits of a job depend.
var widening = []string{"policy", "dst"}

// A description is the whole of the format, as far as it can be said without looking at other
// places of the document.
type description struct {
	manifest *shape
	// job is what every job keeps to; ofRequest and version1 say what is narrower for a request,
	// and for one that uses nothing of ours.
	job, ofRequest, version1 *shape
	// requestJob and version1Job are job narrowed by these.
	requestJob, version1Job *shape
}

// described is made when it is first needed: a program that reads no manifest, such as dibs run,
// need not pay for it at each start.
var described = sync.OnceValue(func() *description {
	d := &description{job: jobShape()}
	d.ofRequest = objectOf("", prop{"policy", false, objectOf("",
		prop{"timeout_seconds", false, numberOf("", 1, maxSeconds)})})
	d.version1 = objectOf("", prop{"policy", false, objectOf("",
		prop{"concurrency", false, wordOf("", job.Allow, job.Forbid, job.Replace).unless(widen)},
		prop{"timeout_seconds", false, numberOf("", 1, maxTimeout).unless(widen)})})
	d.requestJob = d.job.narrowed(d.ofRequest)
	d.version1Job = d.requestJob.narrowed(d.version1)
	d.manifest = manifestShape(d.job)
	return d
})

func manifestShape(ofJob *shape) *shape {
	jobs := listOf("The jobs; their names are unique.", 1, maxJobs, ofJob)
	jobs.want = "a list of jobs"
	version := numberOf("The version of the format.", Version, Version)
	version.want = "1"
	return objectOf("The scheduled jobs of one application.",
		prop{"version", true, version},
		prop{"app", true, nameOf("The name of the application.")},
		prop{"jobs", true, jobs},
		prop{"defaults", false, objectOf("Defaults for all jobs of this manifest.",
			prop{"policy", false, policyShape()},
			prop{"timezone", false, zoneShape()},
			prop{"dst", false, dstShape()},
			prop{"request", false, objectOf("Defaults for all requests.",
				append([]prop{{"headers", false, headersShape(maxInherited)}}, wayProps()...)...)},
			prop{"hooks", false, hooksShape()})})
}

func jobShape() *shape {
	expression := func() *shape {
		return textOf("When it is due: five fields (minute hour day-of-month month day-of-week), @hourly and the like, or @every 90s.")
	}
	s := objectOf("A job: when, what, and under which policy.",
		prop{"name", true, nameOf("The name of the job, unique in the application.")},
		prop{"schedule", false, expression()},
		prop{"schedules", false, listOf("Several expressions; it is due when any of them is.", 1, maxSchedules, expression())},
		prop{"timezone", false, zoneShape()},
		prop{"request", false, requestShape()},
		prop{"policy", false, policyShape()},
		prop{"auth", false, objectOf("The secrets that sign the requests.",
			prop{"secret_refs", false, listOf("Names of secrets, as env:NAME, file:/path or a name from --secret; the first one signs.", 0, maxSecrets, textOf("A secret's name, never the secret.", secretRule))})},
		prop{"command", false, commandShape()},
		prop{"task", false, taskShape()},
		prop{"dir", false, textOf("The working directory of the command; default: dibs's.", nulRule)},
		addition("dst", dstShape()),
		prop{"env", false, mapOf("Added to dibs's environment.", envRule, textOf("", nulRule))},
		prop{"env_from", false, mapOf("Variables whose values are secrets, as env:NAME, file:/path or a name from --secret.", envRule, textOf("", secretRule))},
		prop{"user", false, textOf("The user of the command, by name or number; dibs must be root.", userRule)},
		prop{"group", false, textOf("The group of the command; default: the user's groups.", userRule)},
		prop{"umask", false, textOf("Its umask, in octal.", umaskRule)},
		prop{"nice", false, numberOf("Its niceness; 0 is dibs's.", -20, 19)},
		prop{"sandbox", false, sandboxShape()},
		addition("environments", listOf("The servers that run it, by their --environment; default: any.", 1, maxWindows, nameOf("An environment."))),
		addition("when", commandShape()),
		prop{"hooks", false, hooksShape()})
	s.prop("when").about = "A condition that runs before each tick: an exit status other than 0 skips the tick."
	s.choices = []choice{
		{[]string{"schedule", "schedules"}, "", "either schedule, one expression, or schedules, a list of them"},
		{[]string{"request", "command", "task"}, "request", "one of request, command and task"},
	}
	s.prop("request").want = "a request, a command or a task"
	for _, name := range []string{"dir", "env", "env_from", "user", "group", "umask", "nice", "sandbox"} {
		s.needs = append(s.needs, need{name, "command", "only a command can have this"})
	}
	s.varies = true
	return s
}

func requestShape() *shape {
	url := textOf("The address of the request.", urlRule)
	url.want = urlWant
	return objectOf("An HTTP request to send.", append([]prop{
		{"method", false, wordOf("", "GET", "POST", "PUT", "PATCH", "DELETE").byDefault("POST")},
		{"url", true, url},
		{"headers", false, headersShape(0)},
		{"body", false, textOf("").byDefault("")}}, wayProps()...)...)
}

// wayProps are which way a request goes. They leave it within version 1's limits.
func wayProps() []prop {
	file := func(about string) *shape { return textOf(about, pathRule) }
	tls := objectOf("How to verify the server, and the client certificate.",
		prop{"ca_file", false, file("Certificates of the trusted authorities, instead of the system's.")},
		prop{"cert_file", false, file("dibs's client certificate.")},
		prop{"key_file", false, file("Its private key.")},
		prop{"server_name", false, textOf("The name to verify, if it differs from the address's.", hostRule)},
		prop{"min_version", false, wordOf("The oldest TLS version to accept.", "1.2", "1.3").byDefault("1.2")})
	tls.needs = []need{{"cert_file", "key_file", "want key_file as well"}, {"key_file", "cert_file", "want cert_file as well"}}
	return []prop{
		{"redirects", false, wordOf("Which redirects to follow: none, or those to the same scheme, host and port.",
			job.RedirectsNone, job.RedirectsSameOrigin).byDefault(string(job.RedirectsNone))},
		{"proxy", false, textOf("The address of a proxy; environment: from HTTPS_PROXY, HTTP_PROXY and NO_PROXY; none.", proxyRule).byDefault(job.ProxyEnvironment)},
		{"tls", false, tls},
	}
}

func headersShape(most int) *shape {
	s := mapOf("Headers of the request; names ignore case.", tokenRule, textOf("", valueRule))
	s.maxNames = most
	return s
}

func commandShape() *shape {
	line := textOf("A line for /bin/sh.", lineRule, nulRule)
	line.want = lineWant
	args := listOf("The program and its arguments, passed unchanged.", 1, 0, textOf("", nulRule))
	args.first = textOf("", argRule)
	shell := objectOf("", prop{"shell", true, line})
	shell.instead = map[string]string{}
	for _, name := range []string{"args", "argv", "cmd", "command", "exec", "program", "run"} {
		shell.instead[name] = "want " + commandWant
	}
	return &shape{about: "A program to run, instead of a request.", want: commandWant, forms: []*shape{args, shell}}
}

// policyShape is the widest: that of a command, and of the defaults.
func policyShape() *shape {
	p := job.DefaultPolicy(false)
	return objectOf("What happens on contention, lateness, failure and crash.",
		prop{"concurrency", false, wordOf("What happens when a run is due while another one is active.",
			job.Allow, job.Forbid, job.Replace, job.Wait).byDefault(string(p.Concurrency))},
		prop{"concurrency_scope", false, wordOf("host: every host runs every tick; global: one host of the fleet does.",
			job.Host, job.Global).byDefault(string(p.Scope))},
		prop{"timeout_seconds", false, numberOf("Bounds each attempt; default: 60 for a request or a task, none (0) for a command.", 0, maxSeconds)},
		prop{"retries", false, objectOf("The number of attempts, and the pauses between them.",
			prop{"max_attempts", false, numberOf("The first one included; default: 3 for a request or a task, 1 for a command.", 1, maxAttempts)},
			prop{"min_seconds", false, numberOf("The shortest pause.", 0, maxBackoff).byDefault(inSeconds(p.Retries.Min))},
			prop{"max_seconds", false, numberOf("The longest pause, at least min_seconds.", 1, maxBackoff).byDefault(inSeconds(p.Retries.Max))})},
		addition("deadline_seconds", numberOf("Bounds the whole run, with all its attempts; 0 is none.", 0, maxSeconds).byDefault(inSeconds(p.Deadline))),
		addition("catch_up", wordOf("Which missed ticks run later.",
			job.CatchUpSkip, job.CatchUpLatest, job.CatchUpAll).byDefault(string(p.CatchUp))),
		addition("catch_up_window_seconds", numberOf("How old a tick may be for catch-up, and for a rerun after a crash.", 1, maxSeconds).byDefault(inSeconds(p.CatchUpWindow))),
		addition("on_crash", wordOf("After a run that crashed, lost its lease or was stopped by a shutdown. A task's default is rerun.",
			job.CrashSkip, job.CrashRerun).byDefault(string(p.OnCrash))),
		addition("starting_deadline_seconds", numberOf("How late a start is still on time; 0 is half the schedule's period, at most 5 minutes.", 0, maxSeconds).byDefault(inSeconds(p.StartingDeadline))),
		addition("stop_grace_seconds", numberOf("Time between asking a run to stop and killing it.", 0, maxSeconds).byDefault(inSeconds(p.StopGrace))),
		// It has no effect on a request, so it widens nothing.
		prop{"leftovers", false, wordOf("Processes that outlive their command.",
			job.LeftoversWait, job.LeftoversKill, job.LeftoversLeave).byDefault(string(p.Leftovers))},
		addition("on_lost_request", wordOf("After the lease expired during a request: wait until the request must have ended, or proceed.",
			job.LostRequestWait, job.LostRequestProceed).byDefault(string(p.OnLostRequest))),
		addition("jitter_seconds", numberOf("Start later than the tick, by a part of this that is constant for the job.", 0, maxSeconds).byDefault(inSeconds(p.Jitter))),
		addition("between", listOf("Skip ticks outside all these windows, as in MON-FRI 09:00-17:00, in the job's zone.", 1, maxWindows, textOf(windowAbout))),
		addition("unless_between", listOf("Skip ticks inside one of these windows.", 1, maxWindows, textOf(windowAbout))))
}

// windowAbout marks what schedule.ParseWindow checks, which no pattern can.
const windowAbout = "A window of the week: HH:MM-HH:MM, after weekdays if it is not every day."

func inSeconds(d time.Duration) int64 { return int64(d / time.Second) }

func addition(name string, s *shape) prop {
	s.addition = true
	return prop{name, false, s}
}

func nameOf(about string) *shape {
	s := textOf(about, nameRule)
	s.want = nameWant
	return s
}

func zoneShape() *shape {
	return textOf("The IANA name of the zone whose wall clock the schedules read.").byDefault("UTC")
}

func dstShape() *shape {
	return wordOf("What happens to fixed times when the zone's clocks change.",
		job.DSTVixie, job.DSTSkip, job.DSTRepeat).byDefault(string(job.DSTVixie))
}

func textOf(about string, rules ...rule) *shape {
	return &shape{kind: text, about: about, rules: rules}
}

func wordOf[T ~string](about string, all ...T) *shape {
	s := &shape{kind: text, about: about}
	for _, w := range all {
		s.words = append(s.words, string(w))
	}
	return s
}

func numberOf(about string, lo, hi int64) *shape {
	return &shape{kind: number, about: about, min: lo, max: hi}
}

func listOf(about string, lo, hi int64, item *shape) *shape {
	return &shape{kind: list, about: about, min: lo, max: hi, item: item}
}

func objectOf(about string, props ...prop) *shape {
	return &shape{kind: object, about: about, props: props}
}

func mapOf(about string, names rule, values *shape) *shape {
	return &shape{kind: object, about: about, names: names, values: values}
}

func (s *shape) byDefault(v any) *shape {
	s.standard = v
	return s
}

func (s *shape) unless(hint string) *shape {
	s.hint = hint
	return s
}
