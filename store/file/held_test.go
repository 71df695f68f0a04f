//go:build linux

package file

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestSlotsAreHeldBack(t *testing.T) {
	t.Parallel()
	storetest.RunHeldSlots(t, OpenConfig, t.TempDir(), func(t *testing.T, c store.Config, until time.Time) {
		s, err := OpenConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		d := inside(s).dir
		n, err := d.meta.current()
		if err != nil {
			t.Fatal(err)
		}
		own, err := d.own()
		if err != nil {
			t.Fatal(err)
		}
		now := instantNow()
		n.Boot, n.Line = d.boot, now.wall-now.boot
		n.Hold = until.UnixMicro() - n.Line
		if err := replaceJSON(own, namespaceName, n, true); err != nil {
			t.Fatal(err)
		}
	}, nil)
}

func TestALimitThatIsNotUsedIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.RunForgottenLimits(t, OpenConfig, t.TempDir(), func(t *testing.T, c store.Config) {
		s, err := OpenConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = inside(s).write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE dibs_limits SET token = token - ?", (25 * time.Hour).Microseconds())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
