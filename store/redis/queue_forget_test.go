package redis

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestALimitThatIsNotUsedIsForgotten(t *testing.T) {
	t.Parallel()
	storetest.RunForgottenLimits(t, OpenConfig, testserver.Redis(t), func(t *testing.T, c store.Config) {
		raw, prefix := rawClient(t, c), "dibs:{"+c.Namespace+"}:"
		for _, name := range raw.ZRange(t.Context(), prefix+"limits", 0, -1).Val() {
			if err := raw.HSet(t.Context(), prefix+"limit:"+name, "used", time.Now().Add(-31*24*time.Hour).UnixMicro()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
