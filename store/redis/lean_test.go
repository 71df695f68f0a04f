package redis

import (
	"regexp"
	"strings"
	"testing"
)

func TestLean(t *testing.T) {
	const source = `-- what it is about
local call = redis.call
local function one() return 1 end -- used by two
local function two()
  if call then
    return one()
  end
end
local function three() return two() end
local function four(n)
  return n > 0 and four(n - 1) -- three()
end

local function five() return '-- no comment' end
local function six() return 6 end
local t = {}
t.six = t[1].six and two().six
return two() + five()
`
	const want = `local call = redis.call
local function one() return 1 end
local function two()
  if call then
    return one()
  end
end
local function five() return '-- no comment' end
local t = {}
t.six = t[1].six and two().six
return two() + five()
`
	if got := lean(source); got != want {
		t.Errorf("it left\n%s", got)
	}
}

// luaFiles are the texts of a folder's files, by name.
func luaFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := files.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := files.ReadFile(dir + "/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(text)
	}
	return texts
}

// Every file keeps to what lean takes for granted: the text of each begins and ends outside of a function.
func TestScriptsAreMadeOfWholeFunctions(t *testing.T) {
	for _, dir := range []string{"lua", "lua/queue", "lua/quick"} {
		for name, text := range luaFiles(t, dir) {
			if !strings.HasSuffix(text, "\n") {
				t.Errorf("%s does not end with a line break", name)
			}
			for _, b := range luaBlocks(text) {
				if strings.Count("\n"+b, "\nlocal function ") > 1 || luaFunction().MatchString(b) && strings.Count("\n"+b, "\nend") > 1 {
					t.Errorf("%s: this is no whole function:\n%s", name, b)
				}
			}
		}
	}
}

// What the queue keeps and what leases, jobs and ticks keep share a prefix: but for what is meant to be one
// they share no name.
func TestTheQueueHasNamesOfItsOwn(t *testing.T) {
	// A name follows the prefix, or is the first word of what later.lua keeps a write by.
	key := regexp.MustCompile(`(?:prefix \.\. |(?:put|drop|mark|zset|fields|passed)\(|(?:add|remove|order)\('[A-Z]+', )(\([^()]*\)|'[a-z-]+:?')`)
	named := regexp.MustCompile(`'([a-z-]+):?'`)
	shared := map[string]bool{"meta": true, "event": true, "events": true, "sequence": true}
	names := func(dir string) map[string]bool {
		all := map[string]bool{}
		for _, text := range luaFiles(t, dir) {
			for _, k := range key.FindAllString(text, -1) {
				for _, m := range named.FindAllStringSubmatch(k, -1) {
					all[m[1]] = true
				}
			}
		}
		return all
	}
	queue, others := names("lua/queue"), names("lua")
	if len(queue) < 30 || len(others) < 10 {
		t.Fatalf("it sees only %v and %v", queue, others)
	}
	for name := range others {
		if queue[name] && !shared[name] {
			t.Errorf("both keep something in %q", name)
		}
	}
}
