// Package lambdaapi is the runtime API of AWS Lambda in memory, for one function. It is strict: what the real one
// would refuse is an error of the test.
package lambdaapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Answer is what the function said of an invocation.
type Answer struct {
	ID string
	// Body is the response, or empty if Type and Message say what was wrong.
	Body, Type, Message string
}

// An API is the runtime API. It is safe for concurrent use.
type API struct {
	t      testing.TB
	server *httptest.Server
	events chan event
	// Answers has each invocation's answer; an invocation named "init" is the error of the start.
	Answers chan Answer

	mu      sync.Mutex
	current string // the invocation that is not answered yet
	n       int
	// Broken has next answer 500, as the real one does when it gives the process up.
	Broken bool
}

type event struct {
	body     string
	deadline time.Time
}

// New starts one.
func New(t testing.TB) *API {
	a := &API{t: t, events: make(chan event, 100), Answers: make(chan Answer, 100)}
	a.server = httptest.NewServer(a)
	t.Cleanup(a.server.Close)
	return a
}

// Address is for AWS_LAMBDA_RUNTIME_API.
func (a *API) Address() string { return strings.TrimPrefix(a.server.URL, "http://") }

// Invoke hands an event to the function, which Lambda would end after timeout.
func (a *API) Invoke(body string, timeout time.Duration) {
	a.events <- event{body, time.Now().Add(timeout)}
}

// Wait returns the next answer.
func (a *API) Wait() Answer {
	a.t.Helper()
	select {
	case got := <-a.Answers:
		return got
	case <-time.After(time.Minute):
		a.t.Fatal("the function answers nothing")
	}
	return Answer{}
}

const root = "/2018-06-01/runtime/"

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, root)
	parts := strings.Split(rest, "/")
	switch {
	case !ok:
		a.refuse(w, http.StatusNotFound, "%s %s is no call of the runtime API", r.Method, r.URL.Path)
	case r.Method == http.MethodGet && rest == "invocation/next":
		a.next(w, r)
	case r.Method == http.MethodPost && rest == "init/error":
		a.failed(w, r, "init")
	case r.Method == http.MethodPost && len(parts) == 3 && parts[0] == "invocation" && parts[2] == "response":
		body, _ := io.ReadAll(r.Body)
		if a.ends(w, parts[1]) {
			if !json.Valid(body) {
				a.t.Errorf("the response of %s is no JSON: %s", parts[1], body)
			}
			a.Answers <- Answer{ID: parts[1], Body: string(body)}
		}
	case r.Method == http.MethodPost && len(parts) == 3 && parts[0] == "invocation" && parts[2] == "error":
		if a.ends(w, parts[1]) {
			a.failed(nil, r, parts[1])
		}
	default:
		a.refuse(w, http.StatusNotFound, "%s %s is no call of the runtime API", r.Method, r.URL.Path)
	}
}

func (a *API) refuse(w http.ResponseWriter, status int, format string, args ...any) {
	a.t.Errorf(format, args...)
	http.Error(w, `{"errorMessage":"refused","errorType":"InvalidRequest"}`, status)
}

func (a *API) next(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	broken, current := a.Broken, a.current
	a.mu.Unlock()
	switch {
	case broken:
		http.Error(w, `{"errorMessage":"container error","errorType":"InternalServerError"}`, http.StatusInternalServerError)
		return
	case current != "":
		a.refuse(w, http.StatusForbidden, "the next invocation is asked for before %s is answered", current)
		return
	}
	select {
	case e := <-a.events:
		a.mu.Lock()
		a.n++
		a.current = fmt.Sprintf("8476a536-e9f4-11e8-9739-%012d", a.n)
		id := a.current
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(e.deadline.UnixMilli()))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:jobs")
		fmt.Fprint(w, e.body)
	case <-r.Context().Done():
	}
}

// ends accepts the answer to the current invocation, once.
func (a *API) ends(w http.ResponseWriter, id string) bool {
	a.mu.Lock()
	current := a.current
	if current == id {
		a.current = ""
	}
	a.mu.Unlock()
	if current != id {
		a.refuse(w, http.StatusForbidden, "an answer to %s, and the invocation is %q", id, current)
		return false
	}
	w.WriteHeader(http.StatusAccepted)
	return true
}

func (a *API) failed(w http.ResponseWriter, r *http.Request, id string) {
	var is struct {
		Message string    `json:"errorMessage"`
		Type    string    `json:"errorType"`
		Trace   *[]string `json:"stackTrace"`
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&is); err != nil || is.Trace == nil || is.Type == "" || is.Type != r.Header.Get("Lambda-Runtime-Function-Error-Type") {
		a.t.Errorf("the error of %s is %+v, %v, with the header %q", id, is, err, r.Header.Get("Lambda-Runtime-Function-Error-Type"))
	}
	if w != nil {
		w.WriteHeader(http.StatusAccepted)
	}
	a.Answers <- Answer{ID: id, Type: is.Type, Message: is.Message}
}

// Break has the next question for an invocation fail.
func (a *API) Break() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Broken = true
}
