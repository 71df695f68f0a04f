package cli

import (
	"os"

	"golang.org/x/term"
)

// screen is what is known of who reads an output: a person at a terminal, or a file, a pipe, a mail.
type screen struct {
	tty   bool
	width int  // columns; 0: as many as it takes
	color bool // it may be coloured
}

// screenOf looks at an output as the process was given it.
func screenOf(to any) screen {
	f, ok := to.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	s := screen{tty: true, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"} // https://no-color.org
	if w, _, err := term.GetSize(int(f.Fd())); err == nil {
		s.width = w
	}
	return s
}
