package guardian

import "os"

// fault is the status of a process that could not do its work.
const fault = 125

// RefuseOthersRights ends a process whose file is setuid or setgid: with another user's rights it would read files and
// start commands for everybody.
func RefuseOthersRights() {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		_, _ = os.Stderr.WriteString("dibs: its file is setuid or setgid: with the rights of another user it runs for nobody; chmod u-s,g-s it, and use sudo\n")
		os.Exit(fault)
	}
}
