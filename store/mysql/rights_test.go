package mysql

import (
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// granted returns the two statements of the documentation for a database and its users.
func granted(t *testing.T, database, owner, user string) (forOwner, forUser string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(page)) {
		if before, after, found := strings.Cut(strings.TrimSpace(line), " ON app.* TO "); found {
			to := map[string]string{"owner;": owner, "app;": user}[after]
			all = append(all, before+" ON "+database+".* TO "+to)
		}
	}
	if len(all) != 2 || !strings.HasSuffix(all[0], owner) || !strings.HasSuffix(all[1], user) {
		t.Fatalf("the page grants other things than this test knows: %q", all)
	}
	return all[0], all[1]
}

// people makes an owner and a user, who may do nothing yet, and returns their addresses.
func people(t *testing.T) (db *sql.DB, forOwner, forUser, owner, user string) {
	t.Helper()
	own := ownDatabase(t)
	db = raw(t, own, nil)
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	// Of users with one name the server takes the one whose host is the closest, and a new server has nameless ones.
	var host string
	if err := db.QueryRow("SELECT SUBSTRING_INDEX(USER(), '@', -1)").Scan(&host); err != nil {
		t.Fatal(err)
	}
	as := func(who string) (account, address string) {
		name := who + lease.NewNonce().String()[:12]
		account = "'" + name + "'@'" + host + "'"
		exec(t, db, "CREATE USER "+account+" IDENTIFIED BY 'secret'")
		t.Cleanup(func() { _, _ = db.Exec("DROP USER " + account) })
		with := *u
		with.User = url.UserPassword(name, "secret")
		return account, with.String()
	}
	ownerAccount, owner := as("owner")
	userAccount, user := as("few")
	forOwner, forUser = granted(t, strings.TrimPrefix(u.Path, "/"), ownerAccount, userAccount)
	return db, forOwner, forUser, owner, user
}

// A user with the rights of the documentation can do all that dibs does, once one with an owner's has prepared the
// tables.
// Holds: H4.
func TestTheRightsOfThePage(t *testing.T) {
	t.Parallel()
	db, forOwner, forUser, owner, user := people(t)
	exec(t, db, forOwner)
	exec(t, db, forUser)
	mustOpen(t, config(t, owner))
	storetest.RunRights(t, OpenConfig, user)
}

// A user who lacks one of the rights is refused when the store is opened, with its name; one who only reads is not.
// Holds: H4.
func TestAUserWithTooFewRights(t *testing.T) {
	t.Parallel()
	db, forOwner, forUser, owner, user := people(t)
	exec(t, db, forOwner)
	mustOpen(t, config(t, owner))
	on := forUser[strings.Index(forUser, " ON "):]
	from := strings.Replace(on, " TO ", " FROM ", 1)
	refused := func(want ...string) {
		t.Helper()
		_, err := OpenConfig(t.Context(), config(t, user))
		for _, w := range append(want, "docs/reference/stores.md") {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v; want %q in it", err, w)
			}
		}
	}
	refused()
	for _, right := range []string{"INSERT", "UPDATE", "DELETE"} {
		exec(t, db, forUser)
		mustOpen(t, config(t, user))
		exec(t, db, "REVOKE "+right+from)
		refused(right + " ON dibs_meta, dibs_leases, ")
	}
	exec(t, db, "REVOKE ALL"+from)
	exec(t, db, "GRANT SELECT"+on)
	refused("INSERT ON dibs_meta, ", "UPDATE ON dibs_meta, ", "DELETE ON dibs_meta, ")
	c := config(t, user)
	c.Init, c.Read = false, true
	if _, err := OpenConfig(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("a user who only reads, of a namespace that is not there: %v", err)
	}
}
