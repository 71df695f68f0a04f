package redis

import (
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/lazy"
)

var (
	luaFunction = lazy.Regexp(`^local function (\w+)\(`)
	luaField    = lazy.Regexp(`([\w\])])\.\w+`)
	luaWord     = lazy.Regexp(`\w+`)
	luaComment  = lazy.Regexp(`(^|\s)--.*`)

	luaConstants = lazy.Regexp(`^local ([A-Z_]+(?:, [A-Z_]+)*) = (\d+(?:, \d+)*)\s*(?:--.*)?$`)
	luaNames     = lazy.Regexp(`'(?:[^'\\]|\\.)*'|\b[A-Z][A-Z_]*\b`)
)

// lean removes the functions that a script does not use, and comments. The server makes each function anew at every
// call, which is a third of what a small batch costs. All of a script is one scope, in which a function is known only
// to what follows it: so one pass from the end finds the unused ones.
//
// A function begins with 'local function' at the start of a line, and ends on that line or at the next one that
// begins with 'end'.
func lean(source string) string {
	blocks := luaBlocks(inline(source))
	used := map[string]bool{}
	for i, b := range slices.Backward(blocks) {
		if m := luaFunction().FindStringSubmatch(b); m != nil && !used[m[1]] {
			blocks[i] = ""
			continue
		}
		for _, word := range luaWord().FindAllString(luaField().ReplaceAllString(b, "$1"), -1) {
			used[word] = true
		}
	}
	return strings.Join(blocks, "")
}

// inline writes numbers in place of a script's names for them. Lua would look each name up every time, and a script
// may have two hundred names only.
func inline(source string) string {
	var b strings.Builder
	values := map[string]string{}
	for line := range strings.Lines(source) {
		if m := luaConstants().FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			numbers := strings.Split(m[2], ", ")
			if names := strings.Split(m[1], ", "); len(names) == len(numbers) {
				for i, name := range names {
					values[name] = numbers[i]
				}
				continue
			}
		}
		b.WriteString(luaNames().ReplaceAllStringFunc(line, func(word string) string { // quoted words are no names
			if n, found := values[word]; found {
				return n
			}
			return word
		}))
	}
	return b.String()
}

// luaBlocks are the functions of a script and the lines between them, without comments.
func luaBlocks(source string) (blocks []string) {
	inside := false
	for line := range strings.Lines(source) {
		line = luaComment().ReplaceAllString(strings.TrimSuffix(line, "\n"), "") + "\n"
		switch {
		case line == "\n":
		case inside:
			blocks[len(blocks)-1] += line
			inside = !strings.HasPrefix(line, "end")
		default:
			blocks = append(blocks, line)
			inside = luaFunction().MatchString(line) && !strings.HasSuffix(line, " end\n")
		}
	}
	return blocks
}
