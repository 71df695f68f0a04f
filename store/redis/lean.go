package redis

import (
	"regexp"
	"slices"
	"strings"
)

var (
	luaFunction = regexp.MustCompile(`^local function (\w+)\(`)
	luaField    = regexp.MustCompile(`([\w\])])\.\w+`)
	luaWord     = regexp.MustCompile(`\w+`)
	luaComment  = regexp.MustCompile(`(^|\s)--.*`)
)

// lean leaves out of a script the functions that it does not use. The server makes each of them anew at every call,
// which is a third of what a small batch costs. What is put together is in one scope, in which a function is known to
// what follows it alone, so one pass from the end finds them. Comments go too.
//
// A function begins with 'local function' at the start of a line, and ends on that line or at the next one that begins
// with 'end'.
func lean(source string) string {
	blocks := luaBlocks(source)
	used := map[string]bool{}
	for i, b := range slices.Backward(blocks) {
		if m := luaFunction.FindStringSubmatch(b); m != nil && !used[m[1]] {
			blocks[i] = ""
			continue
		}
		for _, word := range luaWord.FindAllString(luaField.ReplaceAllString(b, "$1"), -1) {
			used[word] = true
		}
	}
	return strings.Join(blocks, "")
}

// luaBlocks are the functions of a script and the lines between them, without comments.
func luaBlocks(source string) (blocks []string) {
	inside := false
	for line := range strings.Lines(source) {
		line = luaComment.ReplaceAllString(strings.TrimSuffix(line, "\n"), "") + "\n"
		switch {
		case line == "\n":
		case inside:
			blocks[len(blocks)-1] += line
			inside = !strings.HasPrefix(line, "end")
		default:
			blocks = append(blocks, line)
			inside = luaFunction.MatchString(line) && !strings.HasSuffix(line, " end\n")
		}
	}
	return blocks
}
