package redis

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// rightsOfThePage returns the words of the ACL SETUSER that the documentation shows.
func rightsOfThePage(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\nACL SETUSER dibs ")
	text, _, ended := strings.Cut(text, "\n```")
	if !found || !ended {
		t.Fatal("the page shows no ACL SETUSER")
	}
	return strings.Fields(text)
}

// optional are the rights without which dibs does less, as the page says; select is for databases other than 0.
var optional = []string{"+fcall", "+function|load", "+config|get", "+select"}

// userOf makes a user of a server with these rights, and returns the address with it.
func userOf(t *testing.T, raw *goredis.Client, address, name string, rights []string) string {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", ">secret"}
	for _, word := range rights {
		if !strings.HasPrefix(word, ">") {
			args = append(args, word)
		}
	}
	if err := raw.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "secret")
	return u.String()
}

// A user with the rights of the documentation can do all that dibs does. All commands that it uses by then are checked
// when a store is opened.
// Holds: H4.
func TestTheRightsOfThePage(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--appendfsync", "no")
	raw := rawClient(t, config(t, server.URL))
	address := userOf(t, raw, server.URL, "few", rightsOfThePage(t))
	if err := raw.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	t.Run("suite", func(t *testing.T) { storetest.RunRights(t, OpenConfig, address) })
	stats, err := raw.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	connecting := []string{"HELLO", "AUTH", "CLIENT", "CLIENT|SETNAME", "CONFIG|RESETSTAT"}
	for _, word := range optional {
		connecting = append(connecting, strings.ToUpper(word[1:]))
	}
	checked := checkedRights(t)
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls`).FindAllStringSubmatch(stats, -1) {
		if name := strings.ToUpper(m[1]); !checked[name] && !slices.Contains(connecting, name) {
			t.Errorf("%s was used, and no right to it is asked for when a store is opened (lua/rights.lua)", name)
		}
	}
}

// checkedRights are the commands in lua/rights.lua.
func checkedRights(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("lua/rights.lua")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b[A-Z]{3,}\b`).FindAllString(string(text), -1) {
		names[name] = true
	}
	return names
}

// Every command of a script is one that is checked when a store is opened.
func TestTheRightToEachCommandOfAScriptIsChecked(t *testing.T) {
	t.Parallel()
	checked, words := checkedRights(t), []string{"COUNT", "LIMIT", "WITHSCORES"}
	for _, folder := range []string{"lua", "lua/queue", "lua/quick"} {
		paths, err := filepath.Glob(folder + "/*.lua")
		if err != nil || len(paths) == 0 {
			t.Fatal(folder, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`'([A-Z]{3,})'`).FindAllStringSubmatch(string(text), -1) {
				if !checked[m[1]] && !slices.Contains(words, m[1]) {
					t.Errorf("%s uses %s", path, m[1])
				}
			}
		}
	}
}

// A user who lacks one of the rights is refused when the store is opened, with its name, and before anything is
// written; without an optional one everything goes on.
// Holds: H4.
func TestAUserWithTooFewRights(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--appendfsync", "no")
	raw := rawClient(t, config(t, server.URL))
	rights := rightsOfThePage(t)
	names := map[string]string{"+@hash": "HSET", "+@list": "RPUSH", "+@set": "SADD", "+@sortedset": "ZADD", "+@string": "SET", "~dibs:*": "key", "&dibs:*": "PUBLISH"}
	for i, word := range rights {
		if strings.TrimLeft(word, "+~&") == word {
			continue
		}
		c := config(t, userOf(t, raw, server.URL, fmt.Sprint("few", i), slices.Delete(slices.Clone(rights), i, i+1)))
		c.Init = true
		s, err := OpenConfig(t.Context(), c)
		if slices.Contains(optional, word) {
			if err != nil {
				t.Errorf("without %s, which is optional: %v", word, err)
				continue
			}
			cycle(t, s, "k")
			_ = s.Close()
			continue
		}
		want := names[word]
		if want == "" {
			want = strings.ToUpper(word[1:])
		}
		if err == nil || !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(want)) ||
			!strings.Contains(err.Error(), "docs/reference/stores.md") {
			t.Errorf("without %s: %v; want it refused for %s", word, err, want)
		}
		if n := raw.Exists(t.Context(), "dibs:{"+c.Namespace+"}:meta").Val(); n > 0 {
			t.Errorf("without %s it wrote", word)
		}
	}
	several := slices.DeleteFunc(slices.Clone(rights), func(word string) bool { return word == "+del" || word == "+exists" || word == "+publish" })
	_, err := OpenConfig(t.Context(), config(t, userOf(t, raw, server.URL, "fewer", several)))
	if err == nil || !strings.Contains(err.Error(), "DEL, EXISTS, PUBLISH") {
		t.Errorf("without three: %v", err)
	}
}
