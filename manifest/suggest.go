package manifest

import (
	"fmt"
	"strings"
)

// suggest names the known word that is nearest to a wrong one: by a few typing errors, else by
// its beginning; or lists all.
func suggest(wrong string, known []string) string {
	wrong = strings.ToLower(wrong)
	best, distance, common := "", 2+len(wrong)/3, 3
	for _, k := range known {
		if d := edits(wrong, k); d < distance {
			best, distance, common = k, d, len(k)
		}
		if n := prefix(wrong, k); n > common {
			best, common = k, n
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ": want one of " + strings.Join(known, ", ")
}

func prefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// edits is the number of single bytes to insert, delete or replace to make a of b, as far as
// len(b) and a few more matter.
func edits(a, b string) int {
	if len(a) > 2*len(b) { // no near miss, and not worth the time
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
