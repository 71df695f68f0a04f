package redis

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
)

// Append keeps an event as JSON in one hash of all events, without its id and instant, which the indexes have.
func (p past) Append(ctx context.Context, events []history.Event) error {
	events = bounds.Of(events)
	return inBatches(events, func(events []history.Event) error {
		a := p.newArgs(5 * len(events))
		for _, e := range events {
			id, at := e.ID, micros(e.At)
			e.ID, e.At, e.Tick = "", time.Time{}, whole(e.Tick)
			a = append(a, id, at, e.Job, e.RunID, text(e))
		}
		_, err := p.run(ctx, "append events", appendScript, a)
		return err
	})
}

// Events goes through the narrowest index.
func (p past) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	index, in := of("events", q.Job), q
	if q.RunID != "" {
		index, in.Limit = "events-of:"+q.RunID, 10_000 // whose job is looked at below; a run has few
	}
	found, err := p.scored(ctx, index, in)
	if err != nil {
		return nil, err
	}
	var events []history.Event
	err = inBatches(found, func(part []goredis.Z) error {
		page, err := p.readEvents(ctx, part)
		events = append(events, page...)
		return err
	})
	events = slices.DeleteFunc(events, func(e history.Event) bool { return q.Job != "" && q.Job != e.Job })
	return events[:min(len(events), q.Max())], err
}

// readEvents reads events by id; pruned ones are left out.
func (p past) readEvents(ctx context.Context, found []goredis.Z) ([]history.Event, error) {
	ids := make([]string, len(found))
	for i, z := range found {
		ids[i] = z.Member.(string)
	}
	texts, err := p.client.HMGet(ctx, p.prefix+"event", ids...).Result()
	if err != nil {
		return nil, p.wrap("read events", err)
	}
	var events []history.Event
	for i, v := range texts {
		s, kept := v.(string)
		if !kept {
			continue // pruned meanwhile
		}
		var e history.Event
		_ = json.Unmarshal([]byte(s), &e) // told, never decided upon
		e.ID, e.At = strings.TrimLeft(ids[i], "0"), instant(int64(found[i].Score))
		events = append(events, e)
	}
	return events, nil
}
