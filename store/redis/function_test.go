package redis

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// served is how often a server carried out each of some commands, since its start or since CONFIG RESETSTAT.
func served(t *testing.T, raw *goredis.Client, commands ...string) (counts []int) {
	t.Helper()
	stats := raw.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]
	for _, command := range commands {
		var n, failed int
		for field := range strings.SplitSeq(stats["cmdstat_"+command], ",") {
			_, _ = fmt.Sscanf(field, "calls=%d", &n)
			_, _ = fmt.Sscanf(field, "failed_calls=%d", &failed)
		}
		counts = append(counts, n-failed)
	}
	return counts
}

// cycle acquires and releases keys, of which it finds none held.
func cycle(t *testing.T, s *store.Store, keys ...lease.Key) {
	t.Helper()
	var reqs []lease.AcquireRequest
	for _, key := range keys {
		reqs = append(reqs, request(key))
	}
	r, err := s.Leases.Acquire(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	var refs []lease.Ref
	for _, a := range r.Answers {
		if a.Status != lease.OK {
			t.Fatalf("acquire %q: %s", a.Record.Key, a.Status)
		}
		refs = append(refs, a.Record.Ref())
	}
	if r, err = s.Leases.Release(t.Context(), refs); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatalf("release: %+v, %v", r.Answers, err)
	}
}

// withFunctions is an own server that has functions. One that has none is what TestLeasesWithoutFunctions is for.
func withFunctions(t *testing.T) (s *store.Store, c store.Config, raw *goredis.Client) {
	t.Helper()
	s, c = prepared(t, ownServer(t).URL)
	raw = rawClient(t, c)
	if err := raw.FunctionList(t.Context(), goredis.FunctionListQuery{}).Err(); err != nil {
		t.Skip("this server has no functions: ", err)
	}
	return s, c, raw
}

// wantFunctions fails unless a cycle takes two functions, and neither scripts nor INFO.
func wantFunctions(t *testing.T, s *store.Store, raw *goredis.Client) {
	t.Helper()
	raw.ConfigResetStat(t.Context())
	cycle(t, s, "a", "b", "c")
	if n := served(t, raw, "fcall", "evalsha", "eval", "info"); !slices.Equal(n, []int{2, 0, 0, 0}) {
		t.Errorf("a cycle took %v of FCALL, EVALSHA, EVAL and INFO, want two functions", n)
	}
}

func TestACycleIsTwoFunctions(t *testing.T) {
	t.Parallel()
	s, _, raw := withFunctions(t)
	cycle(t, s, "a")
	wantFunctions(t, s, raw)
}

// What a server loses of functions and scripts costs no call.
func TestAFlushedLibraryIsLoadedAgain(t *testing.T) {
	t.Parallel()
	for _, lost := range [][]any{{"FUNCTION", "FLUSH"}, {"SCRIPT", "FLUSH"}, {"FUNCTION", "FLUSH", "ASYNC"}} {
		s, _, raw := withFunctions(t)
		for range 3 {
			cycle(t, s, "a")
			if err := raw.Do(t.Context(), lost...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		cycle(t, s, "a")
		wantFunctions(t, s, raw)
	}
}

func TestALibraryOutlivesNoServer(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--appendonly", "no", "--save", "")
	s, c := prepared(t, server.URL)
	raw := rawClient(t, c)
	cycle(t, s, "a")
	server.Restart()
	reopened(t, s)
	wantHeldBack(t, s, "a")
	holdUntil(t, c, storeNow(t, s).Add(-time.Second))
	cycle(t, s, "a")
	wantFunctions(t, s, raw)
}

// A replica that is promoted and never had the library, as one of a version without functions, is another
// server (rule L9), and is given it.
func TestAPromotedServerWithoutTheLibrary(t *testing.T) {
	t.Parallel()
	_, c, old := withFunctions(t)
	if err := old.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0").Err(); err != nil {
		t.Fatal(err)
	}
	replica := config(t, ownServer(t).URL)
	raw := rawClient(t, replica)
	var primary atomic.Value
	primary.Store(c.URL.Host)
	client := goredis.NewClient(&goredis.Options{ContextTimeoutEnabled: true, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, primary.Load().(string))
		}})
	t.Cleanup(func() { _ = client.Close() })
	following, err := New(t.Context(), client, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = following.Close() })
	cycle(t, following, "a")
	host, port, _ := net.SplitHostPort(c.URL.Host)
	if err := raw.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the replica", func() bool { return raw.Exists(t.Context(), "dibs:{"+c.Namespace+"}:lease:a").Val() == 1 })
	for _, cmd := range [][]any{{"REPLICAOF", "NO", "ONE"}, {"FUNCTION", "FLUSH"}} {
		if err := raw.Do(t.Context(), cmd...).Err(); err != nil {
			t.Fatal(cmd, err)
		}
	}
	primary.Store(replica.URL.Host)
	// The connections to the old one end with it.
	if err := old.ClientKillByFilter(t.Context(), "TYPE", "normal").Err(); err != nil {
		t.Fatal(err)
	}
	reopened(t, following)
	wantHeldBack(t, following, "a")
	past := storeNow(t, following).Add(-time.Second).UnixMicro()
	if err := raw.HSet(t.Context(), "dibs:{"+c.Namespace+"}:meta", "hold_until", past).Err(); err != nil {
		t.Fatal(err)
	}
	cycle(t, following, "a")
	wantFunctions(t, following, raw)
}

// Two versions of the library are on a server side by side.
func TestALibraryOfAnotherVersionStays(t *testing.T) {
	t.Parallel()
	s, _, raw := withFunctions(t)
	other := strings.ReplaceAll(quickLibrary().source, quickLibrary().name, "dibs_0123456789abcdef")
	if err := raw.FunctionLoad(t.Context(), other).Err(); err != nil {
		t.Fatal(err)
	}
	cycle(t, s, "a")
	libraries, err := raw.FunctionList(t.Context(), goredis.FunctionListQuery{LibraryNamePattern: "dibs_*"}).Result()
	if err != nil || len(libraries) != 2 {
		t.Errorf("%d libraries, %v", len(libraries), err)
	}
	wantFunctions(t, s, raw)
}

// A user who may not load functions has them where somebody else loaded them, and scripts where nobody did.
func TestAUserWhoMayNotLoadFunctions(t *testing.T) {
	t.Parallel()
	s, c, raw := withFunctions(t)
	for user, denied := range map[string]string{"caller": "-function", "scripter": "-fcall"} {
		rules := []any{"ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", denied}
		if err := raw.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) *store.Store {
		o, err := options(c.URL)
		if err != nil {
			t.Fatal(err)
		}
		o.Username, o.Password = user, "secret"
		client := goredis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
		d, err := New(t.Context(), client, c)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	off := func(s *store.Store) bool { return s.Leases.(leases).functions.off.Load() }
	for _, user := range []string{"caller", "scripter"} {
		stranger := as(user)
		cycle(t, stranger, "a")
		if !off(stranger) {
			t.Errorf("%s is asked to use functions again", user)
		}
		cycle(t, stranger, "a")
	}
	cycle(t, s, "a")
	caller := as("caller")
	cycle(t, caller, "a")
	wantFunctions(t, caller, raw)
}

// A full server says so of a function before it runs: what it only looks at, or frees, is answered as ever, and
// functions are used again once it has room.
func TestAFullServerKeepsItsFunctions(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		s, c, raw := withFunctions(t)
		held := grantOf(t, s, "held")
		fill(t, c)
		if flush {
			raw.FunctionFlush(t.Context())
		}
		if a := acquire(t, s, request("held")); a.Status != lease.Held || a.Record.Ref() != held.Ref() {
			t.Errorf("acquire of what is held: %s, %+v", a.Status, a.Record)
		}
		if _, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("new")}); err == nil {
			t.Error("a full server granted a new key")
		}
		if r, err := s.Leases.Release(t.Context(), []lease.Ref{held.Ref()}); err != nil || r.Answers[0].Status != lease.OK {
			t.Errorf("release: %+v, %v", r.Answers, err)
		}
		if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
		cycle(t, s, "held")
		wantFunctions(t, s, raw)
	}
}

// Every promise of leases holds on a server that knows no functions, as one before 7.0. What else there is takes none.
func TestLeasesWithoutFunctions(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--rename-command", "FCALL", "", "--rename-command", "FUNCTION", "")
	leasesAlone := func(ctx context.Context, c store.Config) (*store.Store, error) {
		s, err := OpenConfig(ctx, c)
		if err == nil {
			s.Ticks, s.History, s.Queue, s.Tasks = nil, nil, nil, nil
		}
		return s, err
	}
	storetest.Run(t, leasesAlone, server.URL)
	s, c := prepared(t, server.URL)
	cycle(t, s, "a")
	raw := rawClient(t, c)
	raw.ConfigResetStat(t.Context())
	cycle(t, s, "a", "b")
	if n := served(t, raw, "evalsha"); n[0] != 2 || !s.Leases.(leases).functions.off.Load() {
		t.Errorf("a cycle took %d scripts", n)
	}
}

// A function keeps in the server what it read before. It goes by that only while the same text is read again: each of
// these calls differs from the one before it in one thing that is kept.
func TestWhatAFunctionKeepsIsReadAgain(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	one, _ := prepared(t, server.URL)
	other, c := prepared(t, server.URL)
	var seen lease.Epoch
	ask := func(s *store.Store, ttl time.Duration) lease.Answer {
		t.Helper()
		q := request("k")
		q.TTL, q.Seen = ttl, seen
		a := acquire(t, s, q)
		if a.Status != lease.OK {
			return a
		}
		found := read(t, s, "k").Record
		if found.TTL != ttl || !found.Expires.Equal(a.Record.Acquired.Add(ttl)) || !found.Acquired.Equal(a.Record.Acquired) || found.Token != a.Record.Token {
			t.Errorf("a lease of %s is stored as %+v, answered as %+v", ttl, found, a.Record)
		}
		if _, err := s.Leases.Release(t.Context(), []lease.Ref{a.Record.Ref()}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := func(what string, got, want lease.Status) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	for range 3 {
		for _, ttl := range []time.Duration{ttl, ttl - time.Second, 2500 * time.Millisecond, time.Microsecond, ttl} {
			want("one", ask(one, ttl).Status, lease.OK)
			want("other", ask(other, ttl).Status, lease.OK)
		}
		want("one, for too long", ask(one, ttl+time.Second).Status, lease.TooLong)
		holdUntil(t, c, storeNow(t, other).Add(10*time.Second))
		want("other, held back", ask(other, ttl).Status, lease.HeldBack)
		want("one, beside it", ask(one, ttl).Status, lease.OK)
		holdUntil(t, c, storeNow(t, other).Add(-time.Second))
		want("other again", ask(other, ttl).Status, lease.OK)
	}
	for _, lost := range []string{"run_id", "epoch", "max_ttl"} {
		seen = 2
		set(t, c, lost, "1")
		want("other, whose "+lost+" is another", ask(other, ttl).Status, lease.HeldBack)
		want("one, beside it", ask(one, ttl).Status, lease.OK)
		holdUntil(t, c, storeNow(t, other).Add(-time.Second))
		want("other again", ask(other, ttl).Status, lease.OK)
	}
	// Into the first tenth of a second, whose text is shorter than others.
	for ask(one, ttl).Record.Acquired.Nanosecond() < 1e8 {
	}
	for ask(one, ttl).Record.Acquired.Nanosecond() >= 1e8 {
	}
}
