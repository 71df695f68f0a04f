package testserver

import (
	"os"
	"os/exec"
	"sync"
)

// janitors keeps the write ends of the pipes by which the janitors notice our end.
var janitors struct {
	sync.Mutex
	pipes []*os.File
}

// removeAfterUs has dir removed when this process ends, however it ends: a shell waits for the
// end of file that comes when the last writer of its standard input is gone. Servers are killed
// by their death signal at the same moment, so it leaves them a second to let go of their files.
func removeAfterUs(dir string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command("sh", "-c", `read -r _; sleep 1; rm -rf -- "$1"`, "sh", dir)
	cmd.Stdin, cmd.Dir = r, "/"
	detach(cmd)
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return err
	}
	go func() { _ = cmd.Wait() }() // it normally outlives us
	janitors.Lock()
	defer janitors.Unlock()
	janitors.pipes = append(janitors.pipes, w)
	return nil
}
