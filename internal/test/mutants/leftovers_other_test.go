//go:build !linux

package mutants

import "testing"

// Guardians are for Linux alone, and so is what ends them.
func adopt(*testing.T)              {}
func below(*testing.T) map[int]bool { return nil }
func end(*testing.T, map[int]bool)  {}
