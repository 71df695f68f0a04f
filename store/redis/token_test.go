package redis

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// Lua prints numbers with 14 digits, and a token has 16.
func TestTokensKeepTheirDigits(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	r := grantOf(t, s, "k")
	raw, key := rawClient(t, c), "dibs:{"+c.Namespace+"}:lease:k"
	last := lease.Token(1<<53 - 1000) // far ahead of the clock: the next ones count on from it
	if err := raw.HSet(t.Context(), key, "hold", r.Owner.String()+":"+strconv.FormatInt(int64(last), 10), "expires", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		var also []lease.AcquireRequest // with another TTL: such a batch is not plain, and goes through another script
		if i%2 == 1 {
			also = append(also, request("l"))
			also[0].TTL /= 2
		}
		a, err := s.Leases.Acquire(t.Context(), append([]lease.AcquireRequest{request("k")}, also...))
		if err != nil || a.Answers[0].Status != lease.OK {
			t.Fatalf("%+v, %v", a, err)
		}
		r := a.Answers[0].Record
		if r.Token != last+1 {
			t.Fatalf("token %d after %d", r.Token, last)
		}
		last = r.Token
		if stored := read(t, s, "k").Record; stored.Token != r.Token || !stored.Expires.Equal(r.Expires) {
			t.Fatalf("granted %+v, stored %+v", r, stored)
		}
		if _, err := s.Leases.Release(t.Context(), []lease.Ref{r.Ref()}); err != nil {
			t.Fatal(err)
		}
	}
	for field, v := range raw.HGetAll(t.Context(), key).Val() {
		if strings.Contains(v, "e+") {
			t.Errorf("%s is stored as %q", field, v)
		}
	}
}

func TestLeaseHasNoRedisTTL(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	grantOf(t, s, "k")
	raw := rawClient(t, c)
	keys, err := raw.Keys(t.Context(), "dibs:{"+c.Namespace+"}:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, k := range keys {
		if d := raw.TTL(t.Context(), k).Val(); d != -1 {
			t.Errorf("%s has a TTL of %v: a server that evicts could take it", k, d)
		}
	}
}

// What never changes about a hold is asked for once, and forgotten with it.
func TestRenewTellsHolderAndStart(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	r := grantOf(t, s, "k")
	other := open(t, c)
	for i := range 3 {
		a := renew(t, other, r.Ref())
		if a.Status != lease.OK || a.Record.Holder != r.Holder || !a.Record.Acquired.Equal(r.Acquired) || !a.Record.Renewed.After(r.Renewed) {
			t.Errorf("renewal %d: %+v", i, a)
		}
	}
	known := other.Leases.(leases).known
	if len(known.m) != 1 {
		t.Errorf("knows %d holds, want 1", len(known.m))
	}
	if _, err := other.Leases.Release(t.Context(), []lease.Ref{r.Ref()}); err != nil || len(known.m) != 0 {
		t.Errorf("after the release it knows %d holds, %v", len(known.m), err)
	}
}
