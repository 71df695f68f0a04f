// Package output is what becomes of what work prints: it is passed on line by line, without anybody waiting for a slow
// reader, as text or as lines of a JSON log, and its end is kept.
package output
