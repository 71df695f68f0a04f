package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/schedule"
)

// Match finds cronix's CronJob for e, or CronJobs that are as e's would be, or one that does what the job does without
// dibs: at the same times, in the same image, the same command with the same variables, and nothing else.
func (m *image) Match(e deploy.Entry) (deploy.Match, error) {
	s, err := render(e)
	if err != nil {
		return deploy.Match{}, err
	}
	want, err := specsOf(s)
	if err != nil {
		return deploy.Match{}, err
	}
	if found := m.cronix(e); len(found.Refs)+len(found.Near) > 0 {
		return found, nil
	}
	if found := m.equal(want); len(found.Refs) > 0 {
		return found, nil
	}
	return m.plain(e), nil
}

const cronixDomain = "cronix.dev/"

// cronix finds what cronix marked for the same app, job and index. It is taken over though it fires elsewhere than the
// manifest says: the note says where.
func (m *image) cronix(e deploy.Entry) (found deploy.Match) {
	for n, name := range m.others() {
		o := m.items[name].live
		labels := at(o, "metadata", "labels")
		if text(labels, cronixDomain+"managed") != "true" || text(labels, cronixDomain+"app") != e.App ||
			text(labels, cronixDomain+"job") != e.Job || text(labels, cronixDomain+"index") != strconv.Itoa(e.Index) {
			continue
		}
		if len(found.Refs) > 0 {
			twice := []string{"several CronJobs are marked by cronix for it: delete all but one"}
			return deploy.Match{Near: twice, Also: twice}
		}
		found.Refs = []int{n}
		found.Note = fmt.Sprintf("cronjob %s, cronix's", name)
		if was, will := whenOf(o), strings.Join(e.When, " and "); was != will {
			found.Note += fmt.Sprintf(": it fired at %s, and now fires at %s", was, will)
		}
		found.Note += fmt.Sprintf("; the ConfigMap %s-spec is not needed any more", name)
	}
	return found
}

// equal finds a CronJob for each spec that says the same, but for what the server fills in.
func (m *image) equal(want []object) (found deploy.Match) {
	others := m.others()
	var names []string
	for _, w := range want {
		at := slices.IndexFunc(others, func(name string) bool {
			o := m.items[name].live
			return !slices.Contains(names, name) && same(bare(o["spec"]), bare(w))
		})
		if at < 0 {
			return deploy.Match{}
		}
		names = append(names, others[at])
		found.Refs = append(found.Refs, at)
	}
	found.Note, found.Guarded = "cronjob "+strings.Join(names, ", "), true
	return found
}

// filled is what the server fills in, by the field's name.
var filled = map[string][]any{
	"suspend": {false}, "creationTimestamp": {nil}, "dnsPolicy": {"ClusterFirst"}, "schedulerName": {"default-scheduler"},
	"terminationMessagePath": {"/dev/termination-log"}, "terminationMessagePolicy": {"File"},
	"imagePullPolicy": {"Always", "IfNotPresent"}, "defaultMode": {int64(420)}, "apiVersion": {"v1"},
}

// bare is a spec without what the server fills in, and without what is empty.
func bare(v any) any {
	switch v := v.(type) {
	case object:
		b := object{}
		for k, is := range v {
			if slices.ContainsFunc(filled[k], func(f any) bool { return same(f, is) }) || k == "serviceAccount" && is == v["serviceAccountName"] {
				continue
			}
			if is = bare(is); is != nil && !same(is, object{}) || k == "emptyDir" {
				b[k] = is
			}
		}
		return b
	case []any:
		b := make([]any, len(v))
		for i := range v {
			b[i] = bare(v[i])
		}
		return b
	}
	return v
}

// whenOf is when a CronJob fires, as a line of this package; its own words where these mean something else.
func whenOf(o object) string {
	expr, name := text(o, "spec", "schedule"), text(o, "spec", "timeZone")
	own := strings.TrimSpace(expr + " " + name)
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || strings.ContainsAny(expr, "=HhLlWw#&") && !strings.HasPrefix(expr, "@") || strings.HasPrefix(expr, "@every") {
		return own
	}
	s, err := schedule.Parse(expr, zone)
	if err != nil {
		return own
	}
	f := s.Fields()
	day, weekday := f.Days, f.Weekdays
	words := strings.Fields(expr)
	star := func(n int) bool { return words[n] == "*" || words[n] == "?" || words[n] == "*/1" }
	switch {
	case len(words) != 5: // @daily and the like
		if len(day) == 31 {
			day = nil
		}
		if len(weekday) == 7 {
			weekday = nil
		}
	case star(2) || star(4):
		if star(2) {
			day = nil
		}
		if star(4) {
			weekday = nil
		}
	case len(day) == 31 || len(weekday) == 7:
		day, weekday = nil, nil
	}
	return line(f.Minutes, f.Hours, day, f.Months, weekday, zoneName(zone))
}

// plain finds a CronJob that does what the job does without dibs.
func (m *image) plain(e deploy.Entry) (found deploy.Match) {
	p := e.Plain
	if p == nil {
		return found
	}
	for n, name := range m.others() {
		o := m.items[name].live
		why, near := differs(o, e, p)
		switch {
		case why == "":
			found.Refs = append(found.Refs, n)
		case near:
			found.Near = append(found.Near, fmt.Sprintf("cronjob %s has the same command and %s", name, why))
		}
	}
	if len(found.Refs) > 1 {
		twice := []string{"several CronJobs do the same: delete all but one"}
		return deploy.Match{Near: twice, Also: twice}
	}
	if len(found.Refs) == 1 {
		found.Note = "cronjob " + m.others()[found.Refs[0]]
	}
	return found
}

// differs says why a CronJob is not the same as a plain job; nothing if it is. near says that its command is.
func differs(o object, e deploy.Entry, p *deploy.Plain) (why string, near bool) {
	spec, _ := bare(o["spec"]).(object)
	pod, _ := at(spec, "jobTemplate", "spec", "template", "spec").(object)
	containers, _ := at(pod, "containers").([]any)
	if len(containers) != 1 {
		return "several containers", false
	}
	c, _ := containers[0].(object)
	command, _ := c["command"].([]any)
	args, _ := c["args"].([]any)
	words := slices.Concat(command, args)
	want := literals(p.Args)
	if p.Shell != "" {
		want = literals([]string{"/bin/sh", "-c", p.Shell})
	}
	if len(command) == 0 || !same(words, want) {
		return "another command", false
	}
	switch is := whenOf(o); {
	case len(p.When) != 1 || is != p.When[0]:
		return fmt.Sprintf("another schedule, %s, not %s", is, strings.Join(p.When, " and ")), true
	case text(c, "image") != e.Container.Image:
		return "another image", true
	case text(c, "workingDir") != p.Dir:
		return "another directory", true
	case p.User != "":
		return "the job has a user", true
	}
	if name := otherVariable(c, p.Env); name != "" {
		return "another value of the variable " + name, true
	}
	return beside(spec, pod, c), true
}

// otherVariable names a variable that differs. It says no value.
func otherVariable(c object, want map[string]string) string {
	missing := maps.Clone(want)
	env, _ := c["env"].([]any)
	for _, v := range env {
		name, value := text(v, "name"), text(v, "value")
		w, ok := want[name]
		if !ok || literal(w) != value || at(v, "valueFrom") != nil {
			return name
		}
		delete(missing, name)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		return name
	}
	return ""
}

// known are the fields that a plain CronJob may have: what they say is the manifest's matter, or compared.
var known = map[string][]string{
	"spec": {"schedule", "timeZone", "concurrencyPolicy", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "jobTemplate"},
	"job":  {"backoffLimit", "ttlSecondsAfterFinished", "template"},
	"pod":  {"containers", "restartPolicy", "terminationGracePeriodSeconds", "automountServiceAccountToken", "enableServiceLinks"},
	"box":  {"name", "image", "command", "args", "env", "workingDir"},
}

// beside names what a CronJob has beside what was compared, and dibs would not keep.
func beside(spec, pod, c object) string {
	job, _ := at(spec, "jobTemplate", "spec").(object)
	for _, part := range []struct {
		of string
		o  object
	}{{"spec", spec}, {"job", job}, {"pod", pod}, {"box", c}} {
		for _, key := range slices.Sorted(maps.Keys(part.o)) {
			if !slices.Contains(known[part.of], key) {
				return key + ", which dibs would not keep"
			}
		}
	}
	for _, meta := range []any{at(spec, "jobTemplate", "metadata"), at(job, "template", "metadata")} {
		for _, key := range []string{"labels", "annotations"} {
			if at(meta, key) != nil { // networks, sidecars and clouds' roles go by them
				return key + " of its Jobs or pods, which dibs would not keep"
			}
		}
	}
	return ""
}
