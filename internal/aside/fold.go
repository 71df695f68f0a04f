package aside

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// foldFor is how long records that are like one just logged are counted instead (promise 24).
	foldFor = time.Minute
	// mostFolds bounds what is counted at once; beyond it each record is logged.
	mostFolds = 1000
)

// once are the attributes by which records differ that are alike.
var once = []string{"tick", "run_id", "token", "took", "wait", "task"}

// folds make one of many records that are alike: the first is logged at once, and after a minute the last one of
// those that followed, with how many times it came.
type folds struct {
	mu  sync.Mutex
	hot map[string]*hot
}

// hot is what followed a record that was logged.
type hot struct {
	times int
	log   func(times int)
}

// take counts a record; false: it is to be logged. log logs it later, for all of them.
func (f *folds) take(key string, log func(times int)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.hot[key]; h != nil {
		h.times, h.log = h.times+1, log
		return true
	}
	if len(f.hot) >= mostFolds {
		return false
	}
	if f.hot == nil {
		f.hot = map[string]*hot{}
	}
	f.hot[key] = &hot{}
	time.AfterFunc(foldFor, func() { f.tell(key) })
	return false
}

// tell logs what was counted, and goes on counting if there was anything.
func (f *folds) tell(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hot[key]
	switch {
	case h == nil:
	case h.times == 0:
		delete(f.hot, key)
	default:
		h.log(h.times)
		h.times = 0
		time.AfterFunc(foldFor, func() { f.tell(key) })
	}
}

// end logs all that was counted.
func (f *folds) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hot {
		if h.times > 0 {
			h.log(h.times)
		}
	}
	clear(f.hot)
}

// about is what a record tells of, as far as it says so.
type about struct {
	event    string
	job, run bool
}

// contended is the one event whose run is another job's: the holder's.
const contended = "lock-contended"

func (b *about) take(a slog.Attr) {
	switch a.Key {
	case "event":
		b.event = a.Value.String()
	case "job":
		b.job = a.Value.String() != ""
	case "run_id":
		b.run = a.Value.String() != ""
	}
}

func (b about) of(r slog.Record) about {
	r.Attrs(func(a slog.Attr) bool {
		b.take(a)
		return true
	})
	return b
}

// folds says whether a record may be counted with those that are like it.
func (b about) folds(l slog.Level) bool {
	return l >= slog.LevelWarn || l == slog.LevelInfo && b.job && b.event != "" && (!b.run || b.event == contended)
}

// likeness is the same for records that are alike: but for the instants and the numbers in them.
func likeness(with string, r slog.Record) string {
	var b strings.Builder
	b.WriteString(r.Level.String() + with + "\x00" + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(likenessOf(a))
		return true
	})
	return b.String()
}

func likenessOf(a slog.Attr) string {
	if slices.Contains(once, a.Key) {
		return ""
	}
	letters := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, a.Value.String())
	if a.Key == "job" || a.Key == "store" { // there, a digit is part of the name
		letters = a.Value.String()
	}
	return "\x00" + a.Key + "=" + letters
}
