package cli

import (
	"fmt"
	"strings"
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
