package redis

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/store"
)

// A probe has every script of a store run in a frame that looks at each command of it, and can make one fail.
type probe struct {
	step int // what the scripts take STEP for; 0: what it is

	mu    sync.Mutex
	texts map[*script]framedText
	fail  int             // the command that fails, of the next script, unless the script has written by then
	seen  map[string]bool // the scripts that were run
	plain int             // the most values that a command outside of scripts was given, or answered with, since told
}

// probed is what a script did.
type probed struct {
	Calls int // commands
	Wide  int // the most values that a command was given, or answered with
	Work  int // values that commands were given, and answered with, in all
	Late  []string
	Types map[string]string // of each family of keys, the type that it is written as
	Error string            // what it ended with
}

// framedText is a script in the frame, and the digest by which a server knows it.
type framedText struct{ source, sha string }

// The frame looks at each command, and tells of them in a key beside the store's. The second key is the number of the
// command that fails.
const frame = `
local probe = {Calls = 0, Wide = 0, Work = 0, Late = {}, Types = {}, Error = ''}
local fail, wrote = tonumber(KEYS[2]), false
local kinds = {HSET = 'hash', HDEL = 'hash', HINCRBY = 'hash', HSETNX = 'hash', ZADD = 'zset', ZREM = 'zset', ZREMRANGEBYRANK = 'zset',
  ZREMRANGEBYSCORE = 'zset', SADD = 'set', SREM = 'set', RPUSH = 'list', LTRIM = 'list', SET = 'string', INCR = 'string', INCRBY = 'string',
  DEL = '', UNLINK = '', PUBLISH = ''}
local function size(r)
  if type(r) ~= 'table' then return 1 end
  local n = #r
  for _, x in ipairs(r) do
    if type(x) == 'table' then n = n + #x end
  end
  return n
end
local function probed(name, key, ...)
  probe.Calls = probe.Calls + 1
  if probe.Calls == fail and not wrote then error('injected at ' .. name) end
  local kind = kinds[name]
  if kind then
    wrote = true
    local family = string.match(string.sub(key, #KEYS[1] + 1), '^[^:]*')
    if kind ~= '' then
      local was = probe.Types[family]
      probe.Types[family] = (not was or was == kind) and kind or was .. ' and ' .. kind
    end
  elseif wrote then
    table.insert(probe.Late, name .. ' ' .. tostring(key))
  end
  local r = key == nil and redis.call(name) or redis.call(name, key, ...)
  local n = select('#', ...) + size(r)
  probe.Work, probe.Wide = probe.Work + n, math.max(probe.Wide, n)
  return r
end
local function main()
%s
end
local ok, r = pcall(main)
if not ok then probe.Error = type(r) == 'table' and r.err or tostring(r) end
if #probe.Late == 0 then probe.Late = nil end
if not next(probe.Types) then probe.Types = nil end
redis.call('RPUSH', 'probe:' .. KEYS[1], cjson.encode(probe))
if not ok then return redis.error_reply('ERR ' .. string.gsub(probe.Error, '^ERR ', '')) end
return r
`

// framed puts a script into the frame. Call it with the lock held.
func (p *probe) framed(s *script) framedText {
	if _, there := p.texts[s]; !there {
		text := strings.Replace(s.assemble(cmp.Or(p.step, maxStep)), "local call = redis.call\n", "local call = probed\n", 1)
		text = fmt.Sprintf(frame, text)
		p.texts[s] = framedText{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
	}
	return p.texts[s]
}

func (p *probe) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (p *probe) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			p.measure(cmd)
		}
		return err
	}
}

// measure takes the size of a command outside of scripts.
func (p *probe) measure(cmd goredis.Cmder) {
	n := len(cmd.Args())
	switch c := cmd.(type) {
	case *goredis.StringSliceCmd:
		n += len(c.Val())
	case *goredis.SliceCmd:
		n += len(c.Val())
	case *goredis.ZSliceCmd:
		n += 2 * len(c.Val())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plain = max(p.plain, n)
}

// told is the most values that a command outside of scripts had since the last time.
func (p *probe) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.plain
	p.plain = 0
	return n
}

func (p *probe) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		a := cmd.Args()
		if len(a) < 4 || a[0] != "evalsha" {
			err := next(ctx, cmd)
			p.measure(cmd)
			return err
		}
		var s *script
		for _, x := range scripts {
			if _, sha := x.text(); sha == a[1] {
				s = x
			}
		}
		p.mu.Lock()
		text, args := p.framed(s), append([]any{"evalsha", "", 2, a[3], p.fail}, a[4:]...)
		p.seen[s.names[len(s.names)-1]] = true
		p.fail = 0
		p.mu.Unlock()
		args[1] = text.sha
		own := goredis.NewCmd(ctx, args...)
		err := next(ctx, own)
		if goredis.HasErrorPrefix(err, "NOSCRIPT") {
			args[0], args[1] = "eval", text.source
			own = goredis.NewCmd(ctx, args...)
			err = next(ctx, own)
		}
		cmd.(once).SetVal(own.Val())
		cmd.SetErr(err)
		return err
	}
}

// drain reads what the scripts told since the last time, the latest last.
func drain(t testing.TB, raw *goredis.Client, prefix string) (all []probed) {
	t.Helper()
	for _, line := range raw.LRange(t.Context(), "probe:"+prefix, 0, -1).Val() {
		var r probed
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	raw.Del(t.Context(), "probe:"+prefix)
	return all
}

// probes puts a probe between a store and its server.
func probes(s *store.Store, step int) *probe {
	p := &probe{step: step, texts: map[*script]framedText{}, seen: map[string]bool{}}
	d := s.Queue.(tasks).db
	d.functions.off.Store(true) // what a function does is the script's text
	d.client.AddHook(p)
	return p
}

// next has the command of this number fail in the script that comes next.
func (p *probe) next(fail int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}
