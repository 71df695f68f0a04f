package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// statementsFor returns the statements of the documentation for a role of this name.
func statementsFor(t *testing.T, role string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\nGRANT USAGE ON SCHEMA dibs")
	text, _, ended := strings.Cut("GRANT USAGE ON SCHEMA dibs"+text, "\n```")
	if !found || !ended || strings.Count(text, " TO app;") != 3 {
		t.Fatal("the page grants other things than this test knows")
	}
	return strings.Split(strings.ReplaceAll(text, " TO app;", " TO "+role+";"), "\n")
}

// roleOf makes a role that may do nothing yet, and returns a connection of the server's owner and the role's address.
func roleOf(t *testing.T) (role, address string, exec func(sql string)) {
	t.Helper()
	own := database(t, testserver.Postgres(t))
	conn := superuser(t, own)
	role = "few_" + lease.NewNonce().String()[:12]
	exec = func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	init := config(t, own)
	open(t, init)
	exec("CREATE ROLE " + role + " LOGIN PASSWORD 'secret'")
	t.Cleanup(func() {
		admin, err := pgx.Connect(context.Background(), own)
		if err != nil {
			return
		}
		_, _ = admin.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", role, role))
		_ = admin.Close(context.Background())
	})
	u.User = url.UserPassword(role, "secret")
	return role, u.String(), exec
}

// A role with the rights of the documentation can do all that dibs does, once the owner has prepared the schema.
// Holds: H4.
func TestTheRightsOfThePage(t *testing.T) {
	t.Parallel()
	role, address, exec := roleOf(t)
	for _, sql := range statementsFor(t, role) {
		exec(sql)
	}
	storetest.RunRights(t, OpenConfig, address)
}

// A role that lacks one of the rights is refused when the store is opened, with its name; one that only reads is not.
// Holds: H4.
func TestARoleWithTooFewRights(t *testing.T) {
	t.Parallel()
	role, address, exec := roleOf(t)
	refused := func(want ...string) {
		t.Helper()
		_, err := OpenConfig(t.Context(), config(t, address))
		for _, w := range append(want, "docs/reference/stores.md") {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v; want %q in it", err, w)
			}
		}
	}
	refused("USAGE ON SCHEMA dibs", "SELECT ON dibs.")
	for _, sql := range statementsFor(t, role) {
		exec(sql)
	}
	open(t, config(t, address))
	for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
		exec("REVOKE " + right + " ON dibs.outputs FROM " + role)
		refused(right + " ON dibs.outputs")
	}
	exec("REVOKE ALL ON SEQUENCE dibs.task_ids FROM " + role)
	refused("USAGE ON dibs.task_ids", "INSERT ON dibs.outputs")

	exec("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dibs FROM " + role)
	c := config(t, address)
	c.Init, c.Read = false, true
	if _, err := OpenConfig(t.Context(), c); err == nil || !strings.Contains(err.Error(), "not prepared") {
		t.Errorf("a role that only reads, of a namespace that is not there: %v", err)
	}
}
