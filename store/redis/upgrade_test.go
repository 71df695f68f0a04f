package redis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/upgrade"
	"github.com/dibs-run/dibs/store"
)

// knowing is a program that knows one version more than this tree: making it adds a key, and a field to each lease, in
// steps of one lease.
func knowing(oldest int) func(context.Context, store.Config) (*store.Store, error) {
	s := &script{}
	s.once.Do(func() {
		s.source = `
			local prefix = KEYS[1]
			redis.call('SET', prefix .. 'next', 'next')
			for _, name in ipairs(redis.call('ZRANGE', prefix .. 'leases', 0, -1)) do
				if redis.call('HSETNX', prefix .. 'lease:' .. name, 'next', 'next') == 1 then return {0, 1} end
			end
			return {0, 0}`
		sum := sha1.Sum([]byte(s.source))
		s.sha = hex.EncodeToString(sum[:])
	})
	known := append(slices.Clone(versions), version{oldest: oldest, upgrade: s})
	return func(ctx context.Context, c store.Config) (*store.Store, error) {
		o, err := options(c.URL)
		if err != nil {
			return nil, err
		}
		client := goredis.NewClient(o)
		st, err := newKnowing(ctx, client, c, known)
		if err != nil {
			_ = client.Close()
			return nil, err
		}
		stop := st.Close
		st.Close = func() error { _ = stop(); return client.Close() }
		return st, nil
	}
}

// A namespace that a release made is upgraded with its data, while servers of the older version go on beside it.
// Holds: H4.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	upgrade.Run(t, upgrade.Subject{
		Open: OpenConfig,
		Next: knowing, Known: len(versions), Version: upgrade.Schema, HoldUntil: holdUntil,
		Empty: func(t *testing.T) store.Config {
			u, err := url.Parse(testserver.StartRedis(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			return store.Config{URL: u}
		},
		// A line for each key: its name, and what DUMP answers.
		Dump: func(t *testing.T, c store.Config, dir string) {
			raw := rawClient(t, c)
			keys := raw.Keys(t.Context(), "dibs:*").Val()
			slices.Sort(keys)
			var b bytes.Buffer
			for _, key := range keys {
				value, err := raw.Dump(t.Context(), key).Result()
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "%s %s\n", strconv.Quote(key), base64.StdEncoding.EncodeToString([]byte(value)))
			}
			if err := os.WriteFile(filepath.Join(dir, "dump.txt"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		Restore: func(t *testing.T, dir string, c store.Config) {
			f, err := os.Open(filepath.Join(dir, "dump.txt"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			raw := rawClient(t, c)
			for lines := bufio.NewScanner(f); lines.Scan(); {
				name, value, _ := strings.Cut(lines.Text(), " ")
				key, err := strconv.Unquote(name)
				if err != nil {
					t.Fatal(err)
				}
				b, err := base64.StdEncoding.DecodeString(value)
				if err == nil {
					err = raw.Restore(t.Context(), key, 0, string(b)).Err()
				}
				if err != nil {
					t.Fatalf("%s: %v", key, err)
				}
			}
		},
	})
}

// Of two programs that upgrade a namespace at once, the one that knows less changes nothing that the other did.
// Holds: H4.
func TestAnUpgradeNeverLowersTheVersion(t *testing.T) {
	t.Parallel()
	s, c := prepared(t, testserver.Redis(t))
	_ = s.Close()
	raw, key := rawClient(t, c), "dibs:{"+c.Namespace+"}:meta"
	raw.HSet(t.Context(), key, "schema", len(versions)+2, "oldest", len(versions)+1)
	d := &db{client: raw, prefix: "dibs:{" + c.Namespace + "}:", versions: append(slices.Clone(versions), version{oldest: 1})}
	d.layout = fmt.Sprint(len(d.versions), " 1")
	if _, err := d.upgrade(t.Context(), c, len(versions)); err != nil {
		t.Fatal(err)
	}
	if m := raw.HGetAll(t.Context(), key).Val(); m["schema"] != strconv.Itoa(len(versions)+2) || m["oldest"] != strconv.Itoa(len(versions)+1) {
		t.Errorf("the record: %v", m)
	}
}
