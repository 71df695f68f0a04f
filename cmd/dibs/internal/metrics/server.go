package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// The patience of a server of pages.
const (
	// fresh is how old the facts of a page may be: the store is asked once in this time, however many scrape.
	fresh = 10 * time.Second
	// slow is how long a scrape waits for a look if the last reading is younger than usable.
	slow, usable = 5 * time.Second, 2 * time.Minute
	// aliveWithin bounds the question whether the process is alive, which comes from what watches over it.
	aliveWithin = 5 * time.Second
	// mostAtOnce is how many pages are made at a time.
	mostAtOnce = 4
)

// Options say what a server of pages shows.
type Options struct {
	// Read looks at the store; it bounds itself.
	Read func(context.Context) Reading
	// Ready asks the store one question, and says why this process does nothing new: nil, it does.
	Ready func(context.Context) error
	// Alive returns while the process is well; nil: it always is.
	Alive func()
}

// Serve serves /metrics, /livez and /readyz until ctx ends. The listener is closed then.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	s := &http.Server{Handler: o.handler(ctx), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (o Options) handler(ctx context.Context) http.Handler {
	facts := &cache{ctx: ctx, read: o.Read}
	life := &pulse{alive: o.Alive}
	mux := http.NewServeMux()
	room := make(chan struct{}, mostAtOnce)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Write(w, facts.get(r.Context())) // who scrapes has gone
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) { answer(w, life.feel(r.Context())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, o.Ready(r.Context())) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "dibs: /metrics /livez /readyz") })
	return mux
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

// cache keeps a reading for a while. Whoever scrapes later has a look begin, and waits for it as all others do.
type cache struct {
	ctx  context.Context // of the process: a look goes on when who scraped has gone
	read func(context.Context) Reading

	mu      sync.Mutex
	last    Reading
	at      time.Time     // when it was read
	looking chan struct{} // closed at the end of the look under way; nil: there is none
}

// get returns a reading that is fresh, or the last one if a look takes long: a scraper waits for some seconds only, and
// would otherwise see nothing of a large fleet that is far away.
func (c *cache) get(ctx context.Context) Reading {
	c.mu.Lock()
	last, age := c.last, time.Since(c.at)
	if age <= fresh {
		c.mu.Unlock()
		return last
	}
	if c.looking == nil {
		c.looking = make(chan struct{})
		go c.look(c.looking)
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
		return c.last
	case <-enough:
		return last
	case <-ctx.Done():
		return Reading{Err: ctx.Err()}
	}
}

func (c *cache) look(done chan struct{}) {
	r := c.read(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.at, c.looking = r, time.Now(), nil
	close(done)
}
