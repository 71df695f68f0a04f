package redis

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/dibs-run/dibs/lease"
)

// hold is how a Ref's owner and token are stored and compared: as one string.
func hold(r lease.Ref) string {
	b := make([]byte, 0, 49) // on the stack
	b = append(hex.AppendEncode(b, r.Owner[:]), ':')
	return string(strconv.AppendInt(b, int64(r.Token), 10))
}

// parseHold is the reverse; what is no hold is the zero Ref.
func parseHold(key lease.Key, s string) lease.Ref {
	if len(s) < 34 {
		return lease.Ref{}
	}
	owner, err := lease.ParseNonce(s[:32])
	token, err2 := strconv.ParseInt(s[33:], 10, 64)
	if err != nil || err2 != nil {
		return lease.Ref{}
	}
	return lease.Ref{Key: key, Owner: owner, Token: lease.Token(token)}
}

// parseRecord reads what common.lua's record answers; the record of a lease that was never taken is zero.
func parseRecord(key lease.Key, r reply) lease.Record {
	ref := parseHold(key, r.text(0))
	if ref.Owner == (lease.Nonce{}) {
		return lease.Record{}
	}
	rec := lease.Record{
		Key: key, Owner: ref.Owner, Token: ref.Token,
		Expires: r.time(1), TTL: duration(r.int(2)), Acquired: r.time(3), Renewed: r.time(4), BusyUntil: r.time(5),
	}
	if h := parseHolder(r.text(6)); h != nil {
		rec.Holder = *h
	}
	rec.Wanted = parseHolder(r.text(7))
	if s := r.text(8); s != "" {
		rec.Broken = new(lease.Broken)
		_ = json.Unmarshal([]byte(s), rec.Broken)
		rec.Broken.At = r.time(9)
	}
	return rec
}

// parseHolder reads a holder, nil where there is none. It is for people and decides nothing: what
// cannot be read is left out.
func parseHolder(s string) *lease.Holder {
	if s == "" {
		return nil
	}
	h := new(lease.Holder)
	_ = json.Unmarshal([]byte(s), h)
	return h
}

// text is v as JSON. Holders, breaks and attempts always have one.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
