package lease

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A slow hearer misses old messages, and hears the latest.
// Holds: promise 27.
func TestAHearerHearsTheLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hearer
		var heard []int
		goOn := make(chan struct{})
		for i := range 5 {
			h.tell(func() { <-goOn; heard = append(heard, i) })
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		h.tell(func() { heard = append(heard, 5) })
		synctest.Wait()
		if !slices.Equal(heard, []int{0, 4, 5}) {
			t.Errorf("heard %v", heard)
		}
	})
}
