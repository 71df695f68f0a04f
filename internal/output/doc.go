// Package output handles what work prints: it passes it on line by line, without waiting for a slow reader, as text
// or as lines of a JSON log, and keeps the end of it.
package output
