//go:build linux

package file

import (
	"testing"

	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, OpenConfig, "file://"+t.TempDir()) }
