package testsize_test

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/testsize"
)

func TestOf(t *testing.T) {
	for told, want := range map[string]int{"": 10, "0": 10, "1": 1000, "0.2": 200, "0.001": 10, "2": 2000} {
		t.Setenv(testsize.Env, told)
		if n := testsize.Of(10, 1000); n != want || testsize.Long() != (want > 10 || told == "0.001") {
			t.Errorf("%q: %d, long %v", told, n, testsize.Long())
		}
	}
	t.Setenv(testsize.Env, "yes")
	defer func() {
		if recover() == nil {
			t.Error("yes is taken for a number")
		}
	}()
	testsize.Long()
}
