package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// What `make run` prints into a pipe is text, for logs and for CI.
func TestAPipeGetsNoColours(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm-256color")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	terminal := os.Stdout
	defer func() { os.Stdout = terminal }()
	os.Stdout = w
	(&fleet{from: time.Now()}).say("A", "a line")
	w.Close()
	b, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(b), "A │ a line\n") || strings.Contains(string(b), "\x1b") {
		t.Errorf("%q, %v", b, err)
	}
}
