package postgres

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestReadingMakesNoSchema(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	db := superuser(t, address)
	storetest.RunUnprepared(t, OpenConfig, address, func(t *testing.T) (made string) {
		if err := db.QueryRow(t.Context(), `SELECT coalesce(string_agg(nspname, ' '), '') FROM pg_namespace
			WHERE nspname NOT LIKE 'pg\_%' AND nspname NOT IN ('public', 'information_schema')`).Scan(&made); err != nil {
			t.Fatal(err)
		}
		return made
	})
}

func TestReadingUpgradesNoSchema(t *testing.T) {
	t.Parallel()
	address := database(t, testserver.Postgres(t))
	db := superuser(t, address)
	age := func(t *testing.T) {
		if _, err := db.Exec(t.Context(), "DELETE FROM dibs.migrations WHERE version = (SELECT max(version) FROM dibs.migrations)"); err != nil {
			t.Fatal(err)
		}
	}
	storetest.RunOutdated(t, knowing(t, 1), address, age, func(t *testing.T) (v int) {
		if err := db.QueryRow(t.Context(), "SELECT max(version) FROM dibs.migrations").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	})
}

func TestANewProgramLosesNoTick(t *testing.T) {
	t.Parallel()
	storetest.RunNewProgram(t, OpenConfig, database(t, testserver.Postgres(t)))
}
