package mysql

import (
	"testing"

	"github.com/dibs-run/dibs/store/storetest"
)

func TestReadingMakesNoTables(t *testing.T) {
	t.Parallel()
	address := ownDatabase(t)
	db := raw(t, address, nil)
	storetest.RunUnprepared(t, OpenConfig, address, func(t *testing.T) (made string) {
		if err := db.QueryRowContext(t.Context(),
			"SELECT COALESCE(GROUP_CONCAT(table_name), '') FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&made); err != nil {
			t.Fatal(err)
		}
		return made
	})
}

func TestReadingUpgradesNoTables(t *testing.T) {
	t.Parallel()
	address := ownDatabase(t)
	db := raw(t, address, nil)
	age := func(t *testing.T) { exec(t, db, "DELETE FROM dibs_schema ORDER BY version DESC LIMIT 1") }
	storetest.RunOutdated(t, knowing(t, 1), address, age, func(t *testing.T) (v int) {
		if err := db.QueryRowContext(t.Context(), "SELECT MAX(version) FROM dibs_schema").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	})
}

func TestANewProgramLosesNoTick(t *testing.T) {
	t.Parallel()
	storetest.RunNewProgram(t, OpenConfig, ownDatabase(t))
}
