//go:build race

package testsize

const raced = true
