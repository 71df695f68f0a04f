package all_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

func TestSchemes(t *testing.T) {
	if got := slices.Sorted(maps.Keys(all.Drivers)); !slices.Equal(got, store.Schemes) {
		t.Errorf("there are stores for %q, and addresses for %q", got, store.Schemes)
	}
}

// password is what no output ever shows.
const password = "hunter2"

// forms are addresses with a password, as people write them, rightly and wrongly: %s is it.
var forms = []string{
	"redis://:%s@127.0.0.1:1/0", "redis://app:%s@127.0.0.1:1/0", "rediss://:%s@127.0.0.1:1/0", "redis://%s@127.0.0.1:1/0",
	"REDIS://:%s@127.0.0.1:1", "redis:/:%s@127.0.0.1", "redis::%s@127.0.0.1", "redis://:%s@[::1/0", "redis://:%s@127.0.0.1:1/x",
	"redis://:%s@127.0.0.1:1/0?bogus=1", "redis://:%s@127.0.0.1:1/0?ttl=1s", "redis://:%s@127.0.0.1:1/0?lock=session",
	"redis://127.0.0.1:1/0?password=%s",
	"postgres://app:%s@127.0.0.1:1/db", "postgresql://app:%s@127.0.0.1:1/db?sslmode=bogus", "postgres:app:%s@127.0.0.1/db",
	"postgres://app:%s@127.0.0.1:1,127.0.0.1:2/db", "postgres://127.0.0.1:1/db?user=a&password=%s", "postgres://app%%3A%s@127.0.0.1:1/db",
	"postgres://app@%s@127.0.0.1:1/db", "postgres://app/%s@127.0.0.1:1/db", "pg://app:%s@127.0.0.1/db", "//app:%s@127.0.0.1/db",
	"postgres://app:%s@127.0.0.1:1/db?pool_max_conns=x", "postgres://app:%s@/db?host=/nowhere", "user=app password=%s host=127.0.0.1 dbname=db",
	"jdbc:postgresql://127.0.0.1/db?user=app&password=%s", `"postgres://app:%s@127.0.0.1:1/db"`, "DIBS_STORE=redis://:%s@127.0.0.1:1",
	"postgres://app:%s@127.0.0.1:1/db\nredis://127.0.0.1", " redis://:%s@127.0.0.1:1", "postgres://app:%s@127.0.0.1:1/db?namespace=a b",
	"mysql://app:%s@127.0.0.1:1/db", "mariadb://app:%s@127.0.0.1:1/db?tls=x", "mysql://app:%s@127.0.0.1:1", "mysql://app:%s@127.0.0.1:1/db?timeout=x",
	"mysql://127.0.0.1:1/db?user=app&password=%s", "app:%s@tcp(127.0.0.1:3306)/db", "app:%s@unix(/nowhere)/db", "mysql://app:%s@tcp(127.0.0.1:1)/db",
	"mysql://app:%s@/db?socket=/nowhere", "file://app:%s@127.0.0.1/dir", "memory:%s", "file:///nowhere/dir?password=%s", "etcd://app:%s@127.0.0.1",
}

// manglings are what is in front of a password and behind it, that people forget to escape.
var manglings = [][2]string{{"", ""}, {"", "#x"}, {"#", ""}, {"", "/x"}, {"/", ""}, {"", "?x"}, {"?", ""}, {"x?", "=y"}, {"", "%"}, {"%", ""}, {"", "%zz"},
	{"", " x"}, {" ", ""}, {"", "["}, {"[", "]"}, {"", "@x"}, {"x@", ""}, {"", ":x"}, {":", ""}, {"\x1b[2J", ""}, {"", "\n"}, {"", "\x00"}, {"", "é"},
	{"", "\xff"}, {"%2F", "%40"}, {"12/", ""}, {"12#", ""}, {"12?", ""}, {"12?db=", ""}, {"x&", ""}, {"", ";x"}, {"\\", "\\"}, {"{", "}"}, {"<", ">"}, {"//", ""},
	{"x@127.0.0.1/", ""}, {"x@127.0.0.1/0?bogus=", ""}, {"`", "`"}, {"'", "'"}, {"\"", "\""}}

// said is everything that dibs says of an address.
func said(address string, open bool) (texts []string) {
	c, err := store.Parse(address)
	texts = append(texts, fmt.Sprint(err), fmt.Sprintf("%+v", errors.Unwrap(err)))
	if err != nil {
		return texts
	}
	_, err = all.For(c)
	texts = append(texts, c.String(), store.Redact(c.URL), fmt.Sprint(err))
	if err != nil || !open || c.URL.Scheme == "file" || c.URL.Scheme == "memory" {
		return texts
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := all.OpenConfig(ctx, c)
	if err == nil {
		texts = append(texts, s.URL)
		_ = s.Close()
	}
	return append(texts, fmt.Sprint(err))
}

// Promise 28: no address shows its password, and one that is not understood shows nothing.
// Holds: promise 28.
func TestNoAddressShowsItsPassword(t *testing.T) {
	understood := 0
	for _, form := range forms {
		for i, m := range manglings {
			address := fmt.Sprintf(form, m[0]+password+m[1])
			texts := said(address, i == 0)
			for _, text := range texts {
				if strings.Contains(text, password) {
					t.Errorf("%q is told as %s", address, text)
				}
			}
			if len(texts) > 2 {
				understood++
			}
		}
	}
	if understood < 50 {
		t.Errorf("%d addresses were understood: the others test nothing of the clients", understood)
	}
}

// What the client says is said without the secrets, and is still what it was.
func TestScrub(t *testing.T) {
	c, err := store.Parse("postgres://app:p%2Fword@db/app?sslpassword=other%20one")
	if err != nil {
		t.Fatal(err)
	}
	cause := fmt.Errorf("cannot reach app at p%%2Fword with %q, %q or other+one: %w", "p/word", "other one", lease.ErrUnavailable)
	err = c.Scrub(cause)
	if got := err.Error(); strings.Contains(got, "word") || strings.Contains(got, "other") || !strings.Contains(got, "reach app at xxxxx") {
		t.Error(got)
	}
	if !errors.Is(err, lease.ErrUnavailable) || c.Scrub(nil) != nil || c.Scrub(lease.ErrUnavailable) != lease.ErrUnavailable {
		t.Error("another error")
	}
	same, err := store.Parse("postgres://app:app@db/app")
	if err != nil || same.Scrub(errors.New("no database app")).Error() != "no database app" {
		t.Error("a word that is shown anyway is left out", err)
	}
}

// FuzzAddresses puts anything round the password.
func FuzzAddresses(f *testing.F) {
	seeds := 0
	for i := range forms {
		for _, m := range manglings {
			f.Add(uint8(i), m[0], m[1])
			seeds++
		}
	}
	if seeds < 1000 {
		f.Fatalf("%d seeds", seeds)
	}
	f.Fuzz(func(t *testing.T, form uint8, front, behind string) {
		in := forms[int(form)%len(forms)]
		if strings.Contains(front+behind, password) || strings.Contains(in, "password=") && strings.ContainsAny(front, "=") {
			return // a parameter that is shown
		}
		address := fmt.Sprintf(in, front+password+behind)
		for _, text := range said(address, false) {
			if strings.Contains(text, password) {
				t.Errorf("%q is told as %s", address, text)
			}
		}
	})
}
