package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ask returns the status of an answer and the answer.
func ask(h http.Handler, method, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// However many scrape, the store is asked once in ten seconds, and what one asks for does not end when it goes away.
func TestScrapesShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		h := Options{Read: func(ctx context.Context) Reading {
			looks.Add(1)
			time.Sleep(time.Second)
			return Reading{Err: ctx.Err()}
		}}.handler(t.Context(), new(sync.WaitGroup))
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if code, page := ask(h, "GET", "/metrics"); code != 200 {
					t.Errorf("%d: %s", code, page)
				}
			})
		}
		all.Wait()
		time.Sleep(fresh - 2*time.Second)
		ask(h, "GET", "/metrics")
		if n := looks.Load(); n != 1 {
			t.Errorf("%d looks within %s", n, fresh)
		}
		time.Sleep(3 * time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil).WithContext(gone))
		time.Sleep(2 * time.Second)
		_, page := ask(h, "GET", "/metrics")
		wantLines(t, page, "dibs_store_up 1")
		if n := looks.Load(); n != 2 {
			t.Errorf("%d looks after more than %s", n, fresh)
		}
	})
}

// A look that takes longer than a scraper waits: it gets the last one, as long as that is usable, and the next soon.
func TestALongLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := &cache{ctx: t.Context(), busy: new(sync.WaitGroup), read: func(context.Context) Reading {
			n++
			time.Sleep(time.Duration(n) * 8 * time.Second)
			return Reading{Took: time.Duration(n) * time.Second, Err: map[int]error{3: errors.New("gone")}[n]}
		}}
		wants := func(what string, look int, after time.Duration) {
			t.Helper()
			began := time.Now()
			page := string(c.get(t.Context()))
			if !strings.Contains(page, fmt.Sprintf("dibs_read_seconds %d\n", look)) || time.Since(began) != after {
				t.Errorf("%s: after %s, want look %d after %s:\n%s", what, time.Since(began), look, after, page)
			}
		}
		wants("the first", 1, 8*time.Second)
		time.Sleep(mostFresh)
		wants("it took long, and is fresh for longer", 1, 0)
		time.Sleep(time.Second)
		wants("one that takes long", 1, slow)
		wants("the same", 1, slow)
		time.Sleep(15 * time.Second)
		wants("it has ended", 2, 0)
		time.Sleep(usable)
		wants("there is nothing usable", 3, 24*time.Second)
		time.Sleep(fresh + time.Second)
		wants("what failed is looked for again soon", 3, slow)
		c.busy.Wait()
	})
}

// A process that hangs is not alive, and the question is asked once, however many ask.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var asked atomic.Int64
		h := Options{Alive: func() { asked.Add(1); <-hangs }}.handler(t.Context(), new(sync.WaitGroup))
		for range 3 {
			if code, _ := ask(h, "GET", "/livez"); code != http.StatusServiceUnavailable {
				t.Errorf("it hangs: %d", code)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(hangs)
		synctest.Wait()
		if code, text := ask(h, "GET", "/livez"); code != 200 || text != "ok\n" {
			t.Errorf("it goes on: %d %s", code, text)
		}
	})
}

func TestOtherQuestions(t *testing.T) {
	var wrong error
	h := Options{Ready: func(context.Context) error { return wrong }}.handler(t.Context(), new(sync.WaitGroup))
	for _, c := range []struct {
		method, path string
		wrong        error
		want         int
	}{{"GET", "/readyz", nil, 200}, {"GET", "/readyz", errors.New("draining"), 503}, {"GET", "/livez", nil, 200},
		{"HEAD", "/readyz", nil, 200}, {"POST", "/metrics", nil, 405}, {"GET", "/", nil, 200}, {"GET", "/secret", nil, 404}} {
		wrong = c.wrong
		if code, text := ask(h, c.method, c.path); code != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, code, text, c.want)
		}
	}
}

// A server ends with its context, also while somebody is connected and says nothing.
func TestTheServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, Options{Log: slog.New(slog.DiscardHandler)}) }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if again, err := net.Listen("tcp", l.Addr().String()); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
}

// calls is a listener without a network: who calls has one end of a pipe.
type calls struct {
	waiting  chan net.Conn
	accepted atomic.Int64
	closed   context.Context
	hangUp   context.CancelFunc
}

func newCalls(t *testing.T) *calls {
	l := &calls{waiting: make(chan net.Conn, 10*mostOpen)}
	l.closed, l.hangUp = context.WithCancel(t.Context())
	return l
}

func (l *calls) call() net.Conn {
	mine, its := net.Pipe()
	l.waiting <- its
	return mine
}

func (l *calls) Accept() (net.Conn, error) {
	select {
	case c := <-l.waiting:
		l.accepted.Add(1)
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l *calls) Close() error   { l.hangUp(); return nil }
func (l *calls) Addr() net.Addr { return &net.TCPAddr{} }

// So many are connected at a time, and others wait for one of them to go, which those who say nothing do soon.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newCalls(t)
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, l, Options{Log: slog.New(slog.DiscardHandler)}) }()
		first := l.call()
		for range mostOpen + 4 {
			l.call()
		}
		wants := func(what string, n int64) {
			t.Helper()
			synctest.Wait()
			if got := l.accepted.Load(); got != n {
				t.Errorf("%s: %d were accepted, want %d", what, got, n)
			}
		}
		wants("all call", mostOpen)
		first.Close()
		wants("one has gone", mostOpen+1)
		time.Sleep(time.Minute)
		wants("those that say nothing have gone", mostOpen+5)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Whoever closes what a look reads from waits for it, although its scraper is gone.
func TestTheServerWaitsForLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newCalls(t)
		over := false
		read := func(ctx context.Context) Reading {
			<-ctx.Done()
			time.Sleep(time.Second)
			over = true
			return Reading{Err: ctx.Err()}
		}
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, l, Options{Read: read, Log: slog.New(slog.DiscardHandler)}) }()
		_, _ = l.call().Write([]byte("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"))
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil || !over {
			t.Errorf("%v, the look has ended: %v", err, over)
		}
	})
}

// A look that takes longer than an answer may is delivered nevertheless.
func TestALookOfMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newCalls(t)
		read := func(context.Context) Reading { time.Sleep(3 * writing); return Reading{} }
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, l, Options{Read: read, Log: slog.New(slog.DiscardHandler)}) }()
		c := l.call()
		_, _ = c.Write([]byte("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"))
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		wantLines(t, string(page), "dibs_store_up 1")
		c.Close()
		cancel()
		<-ended
	})
}
