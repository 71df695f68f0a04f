//go:build !dibstest

package clock

const testWallOffset = 0
