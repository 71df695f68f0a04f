package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// The patience of a server of pages.
const (
	// fresh is how old a page may be: the store is asked once in this time, however many scrape. After a look that
	// took long it may be restShare times as old as the look was long, and mostFresh at most, so that looks take a
	// small part of the store's time.
	fresh, restShare, mostFresh = 10 * time.Second, 10, time.Minute
	// slow is how long a scrape waits for a look if the last page is younger than usable.
	slow, usable = 5 * time.Second, 3 * time.Minute
	// aliveWithin bounds the question whether the process is alive, which comes from what watches over it.
	aliveWithin = 5 * time.Second
	// writing bounds how long who asked may take to read the answer.
	writing = time.Minute
	// mostOpen is how many connections are open at a time: the descriptors are for the work.
	mostOpen = 64
)

// Options say what a server of pages shows.
type Options struct {
	// Read looks at the store; it bounds itself, and ends with its context.
	Read func(context.Context) Reading
	// Ready asks the store one question, and says why this process does nothing new: nil, it does.
	Ready func(context.Context) error
	// Counters are those of this process; nil: it has none.
	Counters *Counters
	// Alive returns while the process is well; nil: it always is.
	Alive func()
	Log   *slog.Logger
}

// Serve serves /metrics, /livez and /readyz until ctx ends. Then it closes the listener, and returns when nothing
// reads any more.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	var busy sync.WaitGroup
	s := &http.Server{Handler: o.handler(ctx, &busy), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: writing, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = s.Close(); close(ended) })
	err := s.Serve(&limited{Listener: l, room: make(chan struct{}, mostOpen)})
	if !stop() {
		<-ended
	}
	busy.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// limited is a listener with so many connections at a time as its room has: others wait, and take no descriptor.
type limited struct {
	net.Listener
	room chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{} // a connection ends by the server's timeouts, if not before
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &counted{Conn: c, free: sync.OnceFunc(func() { <-l.room })}, nil
}

type counted struct {
	net.Conn
	free func()
}

func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

func (o Options) handler(ctx context.Context, busy *sync.WaitGroup) http.Handler {
	facts := &cache{ctx: ctx, read: o.Read, busy: busy}
	life := &pulse{alive: o.Alive}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		page := facts.get(r.Context())
		// The look has bounded itself, and takes no time from who reads the page.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writing))
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page) // who scrapes may have gone
		_ = o.Counters.Write(w)
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) { answer(w, life.feel(r.Context())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, o.Ready(r.Context())) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "dibs: /metrics /livez /readyz") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.Add(1)
		defer busy.Done()
		mux.ServeHTTP(w, r)
	})
}

// answer says ok, or why not.
func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// pulse asks whether the process is alive, one question at a time: one that hangs is not asked again.
type pulse struct {
	alive func()
	mu    sync.Mutex
	asked chan struct{} // closed when the question under way is answered
}

func (p *pulse) feel(ctx context.Context) error {
	if p.alive == nil {
		return nil
	}
	p.mu.Lock()
	if p.asked == nil {
		asked := make(chan struct{})
		p.asked = asked
		go func() {
			p.alive()
			p.mu.Lock()
			p.asked = nil
			p.mu.Unlock()
			close(asked)
		}()
	}
	asked := p.asked
	p.mu.Unlock()
	select {
	case <-asked:
		return nil
	case <-time.After(aliveWithin):
		return fmt.Errorf("it has not answered for %s: it hangs", aliveWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cache keeps a page for a while. Whoever scrapes later has a look begin, and waits for it as all others do.
type cache struct {
	ctx  context.Context // of the process: a look goes on when who scraped has gone
	read func(context.Context) Reading
	busy *sync.WaitGroup

	mu      sync.Mutex
	page    []byte
	at      time.Time     // when it was made
	good    time.Duration // how long it is fresh
	looking chan struct{} // closed at the end of the look under way; nil: there is none
}

// get returns a page that is fresh, or the last one if a look takes long: a scraper waits for some seconds only, and
// would otherwise see nothing of a large fleet that is far away. It is empty if ctx ends first.
func (c *cache) get(ctx context.Context) []byte {
	c.mu.Lock()
	page, age := c.page, time.Since(c.at)
	if age <= c.good {
		c.mu.Unlock()
		return page
	}
	if c.looking == nil {
		looking := make(chan struct{})
		c.looking = looking
		c.busy.Go(func() { c.look(looking) })
	}
	looking := c.looking
	c.mu.Unlock()
	var enough <-chan time.Time
	if age < usable {
		enough = time.After(slow)
	}
	select {
	case <-looking:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.page
	case <-enough:
		return page
	case <-ctx.Done():
		return nil
	}
}

func (c *cache) look(done chan struct{}) {
	var b bytes.Buffer
	began := time.Now()
	r := c.read(c.ctx)
	_ = Write(&b, r) // a buffer takes all
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page, c.at, c.looking = b.Bytes(), time.Now(), nil
	if c.good = fresh; r.Err == nil {
		c.good = min(max(fresh, restShare*c.at.Sub(began)), mostFresh)
	}
	close(done)
}
