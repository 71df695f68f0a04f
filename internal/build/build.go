// Package build says which version of dibs this program is, or contains.
package build

import (
	"runtime/debug"
	"sync"
)

// Set by make dist with -ldflags -X; empty in other builds, whose build info tells them.
var (
	version string // such as v0.1.0
	commit  string // of git, whole
)

// Linked returns what make dist set; "": nothing.
func Linked() (v, c string) { return version, commit }

const module = "github.com/dibs-run/dibs"

// Version returns the version of dibs: that of the command line, or of the module that a program requires.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if version != "" || !ok {
		return version
	}
	return of(info)
})

func of(info *debug.BuildInfo) string {
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path != module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return m.Version
	}
	return ""
}
