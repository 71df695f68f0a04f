package redis

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

func (l leases) RequestRelease(ctx context.Context, ref lease.Ref, by lease.Holder) (lease.Reply, error) {
	by = bounds.Of(by)
	r, err := l.run(ctx, "ask", askScript, append(l.newArgs(3), string(ref.Key), hold(ref), text(by)))
	return single(ref.Key, r), err
}

func (l leases) Break(ctx context.Context, ref lease.Ref, b lease.Broken) (lease.Reply, error) {
	b = bounds.Of(b)
	whose := ""
	if ref.Owner != (lease.Nonce{}) {
		whose = hold(ref)
	}
	a := append(l.newArgs(4), string(ref.Key), whose, text(b), flag(b.Now))
	r, err := l.run(ctx, "break", breakScript, a)
	return single(ref.Key, r), err
}

// single reads the answer of RequestRelease and Break.
func single(key lease.Key, r reply) lease.Reply {
	if r == nil {
		return lease.Reply{}
	}
	a := lease.Answer{Status: lease.Status(r.int(1)), Record: parseRecord(key, r.list(2))}
	return lease.Reply{Now: r.time(0), Answers: []lease.Answer{a}}
}

func (l leases) Trim(ctx context.Context, keys []lease.Key) error {
	return inBatches(keys, func(keys []lease.Key) error {
		a := append(l.newArgs(1+len(keys)), lease.MaxStep.Microseconds())
		for _, key := range keys {
			a = append(a, string(key))
		}
		_, err := l.run(ctx, "trim", trimScript, a)
		return err
	})
}

func (l leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	if len(keys) == 0 {
		now, err := l.client.Time(ctx).Result()
		if err != nil {
			return lease.Reply{}, l.wrap("time", err)
		}
		return lease.Reply{Now: now.UTC()}, nil
	}
	out := lease.Reply{Answers: make([]lease.Answer, 0, len(keys))}
	err := inBatches(keys, func(keys []lease.Key) error {
		a := l.newArgs(len(keys))
		for _, key := range keys {
			a = append(a, string(key))
		}
		r, err := l.run(ctx, "read", readScript, a)
		if err != nil {
			return err
		}
		out.Now = r.time(0)
		for i, key := range keys {
			out.Answers = append(out.Answers, readAnswer(parseRecord(key, r.list(1+i))))
		}
		return nil
	})
	return out, err
}

func readAnswer(rec lease.Record) lease.Answer {
	if rec.Key == "" {
		return lease.Answer{Status: lease.Gone}
	}
	return lease.Answer{Status: lease.OK, Record: rec}
}

// maxList is the most records that List returns.
const maxList = 10_000

// List goes through the index of all keys in pages, each of which is one atomic look.
func (l leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	var out lease.Reply
	from, to := lexRange(prefix)
	for len(out.Answers) < maxList {
		r, err := l.run(ctx, "list", listScript, append(l.newArgs(4), from, to, maxBatch, flag(all)))
		if err != nil {
			return lease.Reply{}, fmt.Errorf("%w (leases that begin with %q)", err, prefix)
		}
		out.Now = r.time(0)
		for i := 3; i < len(r) && len(out.Answers) < maxList; i++ {
			found := r.list(i)
			rec := parseRecord(lease.Key(found.text(0)), found.list(1))
			out.Answers = append(out.Answers, lease.Answer{Status: lease.OK, Record: rec})
		}
		if r.int(1) < maxBatch {
			break
		}
		from = "(" + r.text(2)
	}
	return out, nil
}

// lexRange bounds the names that begin with prefix. They are UTF-8, in which no byte is 0xff.
func lexRange(prefix string) (from, to string) { return "[" + prefix, "(" + prefix + "\xff" }
