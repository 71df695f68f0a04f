// Package schedulerapi is the API of Amazon EventBridge Scheduler as its reference describes it, in memory: it refuses
// what the reference does not have, answers what nobody said as AWS does, and fails where a test says so.
package schedulerapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Fault answers a call instead of the server: with a status and a code, or by Hang never.
type Fault struct {
	Status int
	Code   string
	Hang   bool
	// After has the call carried out first: its answer is lost.
	After bool
}

// A Server is one region of one account. It has the group "default".
type Server struct {
	URL string
	// Fail is asked before each call, with its operation and how many calls there have been of it, from 1.
	Fail func(operation string, n int) *Fault

	mu        sync.Mutex
	groups    map[string]*group
	tokens    map[string]string // answers by client token
	calls     map[string]int
	changed   int
	hung      chan struct{}
	PageLimit int
}

type group struct {
	tags      []map[string]string
	schedules map[string]map[string]any
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	s := &Server{groups: map[string]*group{"default": {schedules: map[string]map[string]any{}}}, tokens: map[string]string{},
		calls: map[string]int{}, hung: make(chan struct{}), PageLimit: 2}
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(func() { close(s.hung); h.Close() })
	return s
}

// Changes counts the calls that changed something.
func (s *Server) Changes() int { s.mu.Lock(); defer s.mu.Unlock(); return s.changed }

// Calls counts the calls of an operation, refused ones too.
func (s *Server) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[operation]
}

// Group makes a group, or changes its tags.
func (s *Server) Group(name string, tags ...map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[name] == nil {
		s.groups[name] = &group{schedules: map[string]map[string]any{}}
	}
	s.groups[name].tags = tags
}

// Put has somebody else write a schedule, in JSON.
func (s *Server) Put(group, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	s.groups[group].schedules[name] = v
}

// Delete has somebody else delete a schedule.
func (s *Server) Delete(group, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.groups[group].schedules, name)
}

// Get is what is stored of a schedule, in JSON; empty if there is none.
func (s *Server) Get(group, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[group] == nil || s.groups[group].schedules[name] == nil {
		return ""
	}
	b, _ := json.MarshalIndent(s.groups[group].schedules[name], "", " ")
	return string(b)
}

// All is all that is stored, in one text.
func (s *Server) All() string {
	var b strings.Builder
	for _, g := range s.Groups() {
		for _, name := range s.Names(g) {
			b.WriteString(g + "/" + name + " " + s.Get(g, name) + "\n")
		}
	}
	return b.String()
}

// Groups are the names of the groups, and Names those of the schedules of one.
func (s *Server) Groups() []string { s.mu.Lock(); defer s.mu.Unlock(); return sortedKeys(s.groups) }

// Names are the schedules of a group, in order.
func (s *Server) Names(group string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups[group] == nil {
		return nil
	}
	return sortedKeys(s.groups[group].schedules)
}

func sortedKeys[V any](m map[string]V) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// a refused call
type refused struct {
	status  int
	code    string
	message string
}

func invalid(format string, args ...any) *refused {
	return &refused{400, "ValidationException", fmt.Sprintf(format, args...)}
}

func notFound(what string) *refused {
	return &refused{404, "ResourceNotFoundException", what + " does not exist."}
}

var (
	signature = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=[A-Z0-9]+/\d{8}/[a-z0-9-]+/scheduler/aws4_request, SignedHeaders=\S*host;\S*x-amz-date\S*, Signature=[0-9a-f]{64}$`)
	nameForm  = regexp.MustCompile(`^[0-9A-Za-z_.-]{1,64}$`)
)

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	operation, path, ok := route(r)
	if !ok {
		answer(w, nil, &refused{404, "UnknownOperationException", ""})
		return
	}
	s.mu.Lock()
	s.calls[operation]++
	fail, n := s.Fail, s.calls[operation]
	s.mu.Unlock()
	var f *Fault
	if fail != nil {
		f = fail(operation, n) // it may make calls of its own
	}
	if f != nil && f.Hang {
		select {
		case <-r.Context().Done():
		case <-s.hung:
		}
		return
	}
	if f != nil && !f.After {
		answer(w, nil, &refused{f.Status, f.Code, "by the test"})
		return
	}
	out, no := s.do(operation, path, r)
	if f != nil {
		answer(w, nil, &refused{f.Status, f.Code, "by the test, after the call"})
		return
	}
	answer(w, out, no)
}

func answer(w http.ResponseWriter, out any, no *refused) {
	w.Header().Set("Content-Type", "application/json")
	if no != nil {
		w.Header().Set("X-Amzn-ErrorType", no.code+":http://internal.amazon.com/coral/")
		w.WriteHeader(no.status)
		out = map[string]string{"Message": no.message}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// route finds the operation, and the last part of the path.
func route(r *http.Request) (operation, last string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if len(parts) == 2 {
		var err error
		if last, err = url.PathUnescape(parts[1]); err != nil {
			return "", "", false
		}
	}
	operation, ok = map[string]string{
		"GET schedules 1": "ListSchedules", "GET schedules 2": "GetSchedule", "POST schedules 2": "CreateSchedule",
		"PUT schedules 2": "UpdateSchedule", "DELETE schedules 2": "DeleteSchedule",
		"GET schedule-groups 2": "GetScheduleGroup", "POST schedule-groups 2": "CreateScheduleGroup", "GET tags 2": "ListTagsForResource",
	}[r.Method+" "+parts[0]+" "+strconv.Itoa(len(parts))]
	return operation, last, ok
}

func (s *Server) do(operation, name string, r *http.Request) (any, *refused) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !signature.MatchString(r.Header.Get("Authorization")) || r.Header.Get("X-Amz-Date") == "" {
		return nil, &refused{403, "InvalidSignatureException", "The request is not signed."}
	}
	if name != "" && operation != "ListTagsForResource" && !nameForm.MatchString(name) {
		return nil, invalid("the name %q does not match", name)
	}
	switch operation {
	case "GetScheduleGroup":
		if s.groups[name] == nil {
			return nil, notFound("Schedule group " + name)
		}
		return map[string]any{"Arn": arnOf(name), "Name": name, "State": "ACTIVE"}, nil
	case "ListTagsForResource":
		for g, of := range s.groups {
			if arnOf(g) == name {
				return map[string]any{"Tags": of.tags}, nil
			}
		}
		return nil, notFound(name)
	case "CreateScheduleGroup":
		return s.createGroup(name, r)
	case "ListSchedules":
		return s.list(r.URL.Query())
	}
	return s.schedule(operation, name, r)
}

func arnOf(group string) string {
	return "arn:aws:scheduler:eu-central-1:123456789012:schedule-group/" + group
}

func (s *Server) createGroup(name string, r *http.Request) (any, *refused) {
	var in struct {
		ClientToken string
		Tags        []map[string]string
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil || in.ClientToken == "" || len(in.ClientToken) > 64 {
		return nil, invalid("%v", err)
	}
	if s.groups[name] != nil {
		if s.tokens[in.ClientToken] != "" {
			return map[string]any{"ScheduleGroupArn": arnOf(name)}, nil
		}
		return nil, &refused{409, "ConflictException", "Schedule group " + name + " already exists."}
	}
	for _, t := range in.Tags {
		if len(t) != 2 || t["Key"] == "" || strings.HasPrefix(t["Key"], "aws:") {
			return nil, invalid("the tag %v", t)
		}
	}
	s.changed++
	s.tokens[in.ClientToken] = name
	s.groups[name] = &group{tags: in.Tags, schedules: map[string]map[string]any{}}
	return map[string]any{"ScheduleGroupArn": arnOf(name)}, nil
}

func (s *Server) list(q url.Values) (any, *refused) {
	for name := range q {
		if !slices.Contains([]string{"ScheduleGroup", "NamePrefix", "MaxResults", "NextToken", "State"}, name) {
			return nil, invalid("the parameter %s", name)
		}
	}
	if g := q.Get("ScheduleGroup"); g != "" && s.groups[g] == nil {
		return nil, notFound("Schedule group " + g)
	}
	var all []map[string]any
	for _, g := range sortedKeys(s.groups) {
		for _, name := range sortedKeys(s.groups[g].schedules) {
			if (q.Get("ScheduleGroup") == "" || q.Get("ScheduleGroup") == g) && strings.HasPrefix(name, q.Get("NamePrefix")) {
				all = append(all, map[string]any{"GroupName": g, "Name": name, "State": "ENABLED", "Target": map[string]string{"Arn": "arn"}})
			}
		}
	}
	from, _ := strconv.Atoi(q.Get("NextToken"))
	most, err := strconv.Atoi(q.Get("MaxResults"))
	if err != nil || most < 1 || most > 100 {
		return nil, invalid("MaxResults %q", q.Get("MaxResults"))
	}
	to := min(from+min(most, s.PageLimit), len(all))
	out := map[string]any{"Schedules": all[min(from, to):to]}
	if to < len(all) {
		out["NextToken"] = strconv.Itoa(to)
	}
	return out, nil
}
