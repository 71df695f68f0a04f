package all_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/redis"
)

// A program opens a store by its address alone, and its parameters count.
func TestAStoreIsOpenedByItsAddress(t *testing.T) {
	dir := t.TempDir()
	for url, open := range map[string]func(context.Context, string) (*store.Store, error){
		"memory:?namespace=by-address":               memory.Open,
		dir + "/path":                                file.Open,
		"file://" + dir + "/url?namespace=elsewhere": all.Open,
	} {
		s, err := open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if _, err := s.Leases.Read(t.Context(), []lease.Key{"k"}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if s.Properties.InstallationID == "" {
			t.Errorf("%s: it has no installation id", url)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An address of another technology is refused, and no error shows what may be a password.
func TestAWrongAddressIsRefusedWithoutItsPassword(t *testing.T) {
	for name, open := range map[string]func(context.Context, string) (*store.Store, error){
		"redis": redis.Open, "postgres": postgres.Open, "mysql": mysql.Open, "all": all.Open,
	} {
		for _, url := range []string{"other://user:s3cret@host/x", "user:s3cret@:no/address", "redis://u:s3cret@h/x?ttl=never"} {
			s, err := open(t.Context(), url)
			if err == nil {
				_ = s.Close()
				t.Errorf("%s opened %s", name, url)
			} else if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
