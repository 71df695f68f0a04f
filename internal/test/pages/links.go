package pages

import (
	"regexp"
	"strings"
	"unicode"
)

// Link is a relative link of a page: to a path, an anchor, or both.
type Link struct {
	Line         int
	Path, Anchor string
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	inside  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Links are the relative links of a page's prose.
func Links(page string) (all []Link) {
	for i, line := range strings.Split(Prose(page), "\n") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "x"), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			all = append(all, Link{Line: i + 1, Path: path, Anchor: anchor})
		}
	}
	return all
}

// Anchors are the anchors that GitHub makes of a page's headings.
func Anchors(page string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(Prose(page)) {
		if m := heading.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			all[anchorOf(inside.ReplaceAllString(m[1], "$1"))] = true
		}
	}
	return all
}

func anchorOf(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}
