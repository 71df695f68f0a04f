//go:build !race

package testsize

const raced = false
