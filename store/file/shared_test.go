//go:build linux

package file

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/dibs-run/dibs/store/storetest"
)

func TestAnInstallationIDIsNoPath(t *testing.T) {
	c := configAt(t.TempDir(), true)
	openAt(t, c.URL.Path)
	storetest.AnInstallationIDIsNoPath(t, Open, c, func(id string) {
		b, err := json.Marshal(hostMeta{Layout: layout, ID: id})
		if err == nil {
			err = os.WriteFile(filepath.Join(c.URL.Path, hostName), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
