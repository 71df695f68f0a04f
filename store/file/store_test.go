//go:build linux

package file

import (
	"testing"

	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, OpenConfig, "file://"+t.TempDir())
}
