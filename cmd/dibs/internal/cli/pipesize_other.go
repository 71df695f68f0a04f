//go:build !linux

package cli

// pipeSize is how many bytes a pipe holds at most; only Linux says it of each.
func pipeSize(uintptr) int { return usualPipe }
