//go:build linux

package guardian

import "testing"

// What the kernel writes arrives wherever the stack of the caller has moved to meanwhile: each call
// here is made with a little less of it left, so that some of them make it grow.
func TestTheKernelWritesWhereItIsRead(t *testing.T) {
	missed := make(chan int)
	for range 200 {
		go func() { missed <- descend(2000) }()
	}
	for range 200 {
		if n := <-missed; n > 0 {
			t.Fatalf("%d answers of the kernel did not arrive", n)
		}
	}
}

// descend asks for the time at each of so many depths, and counts the answers that did not come.
func descend(depth int) (missed int) {
	if depth == 0 {
		return 0
	}
	if bootTime() == 0 {
		missed++
	}
	return missed + descend(depth-1)
}
