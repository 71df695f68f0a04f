package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// meant ends an error about a name that a store does not know: with the job or the key that was probably meant, if
// one is near. A store that is slow to list them is not waited for.
func (p *opened) meant(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	whole := map[string]string{} // the names, and the jobs without their apps
	add := func(known string) {
		if _, part, ok := strings.Cut(known, "/"); ok && whole[part] == "" {
			whole[part] = known
		}
		whole[known] = known
	}
	if p.Ticks != nil {
		jobs, _ := registry(ctx, p, "")
		for _, j := range jobs {
			if j.Removed.IsZero() {
				add(j.Name)
			}
		}
	}
	keys, _ := p.store.Leases.List(ctx, "", true)
	for _, a := range keys.Answers {
		if !a.Record.Key.Internal() {
			add(a.Record.Key.String())
		}
	}
	if whole[name] != "" {
		return "" // it is there, and the error is about something else
	}
	for _, n := range names(name) {
		if like := nearest(n, slices.Sorted(maps.Keys(whole))); like != "" {
			return "; did you mean " + whole[like] + "?"
		}
	}
	return ""
}

// meantAt is meant of a store that is not open; "" if it does not answer.
func meantAt(ctx context.Context, e env, a address, name string) string {
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return ""
	}
	defer p.close()
	return p.meant(ctx, name)
}
