package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// misspelt is the error of a flag whose value is none of some words. It names the word that was probably meant.
func misspelt(flag, got string, err error, words ...string) error {
	err = fmt.Errorf("%s: %w", flag, err)
	if like := nearest(got, words); like != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, like)
	}
	return err
}

// nearest returns the word that is at most two edits from got, or that got begins or continues; "" if none is. Of
// words as near, it is the one that has more of its beginning in common with got.
func nearest(got string, words []string) (word string) {
	got = strings.ToLower(got)
	least := 3
	for _, w := range words {
		n := edits(got, w)
		if len(got) > 2 && (strings.HasPrefix(w, got) || strings.HasPrefix(got, w)) {
			n = min(n, 1)
		}
		if n < len(w)-1 && (n < least || word != "" && n == least && common(w, got) > common(word, got)) {
			word, least = w, n
		}
	}
	return word
}

// edits returns how many bytes must be inserted, removed or replaced to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			n := diagonal
			if a[i] != b[j] {
				n++
			}
			diagonal = row[j+1]
			row[j+1] = min(n, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

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
