package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/build"
	"github.com/dibs-run/dibs/store"
)

// buildInfo is what a binary was made from; its JSON form is stable.
type buildInfo struct {
	Version string   `json:"version"`
	Commit  string   `json:"commit,omitempty"` // "-dirty" at the end: with changes that are in no commit
	Go      string   `json:"go"`
	OS      string   `json:"os"`
	Arch    string   `json:"arch"`
	Stores  []string `json:"stores"`          // the schemes of addresses
	Lacks   []string `json:"lacks,omitempty"` // what dibs cannot do on this system
}

func newVersion(e env) *cobra.Command {
	var out format
	cmd := &cobra.Command{Use: "version", Short: "Print the version, and which stores this binary knows", Args: exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			b := thisBuild()
			return e.answer(out, b, b.String())
		}}
	formatFlag(cmd, &out)
	return cmd
}

func thisBuild() buildInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	version, commit := build.Linked()
	b := buildOf(info, version, commit)
	b.Lacks = lacks(runtime.GOOS)
	return b
}

// buildOf is what make dist set, else what Go's own build info says: go install …@v0.1.0 leaves the version there,
// and go build in a clone the commit.
func buildOf(info *debug.BuildInfo, version, commit string) buildInfo {
	b := buildInfo{Version: cmp.Or(version, info.Main.Version, "(devel)"), Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Stores: store.Schemes}
	if b.Commit != "" {
		return b
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if b.Commit != "" && dirty {
		b.Commit += "-dirty"
	}
	return b
}

// lacks is what dibs cannot promise on a system; each is refused there with the reason when it is asked for.
func lacks(system string) []string {
	if system == "linux" {
		return nil
	}
	return []string{"directory stores and jobs of scope host: their kernel locks work on Linux only"}
}

// String is what dibs version prints; the first line begins as that of dibs --version.
func (b buildInfo) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "dibs %s\ncommit  %s\ngo      %s %s/%s\nstores  %s\n", b.Version, cmp.Or(b.Commit, "unknown"), b.Go, b.OS, b.Arch, strings.Join(b.Stores, ", "))
	for _, l := range b.Lacks {
		fmt.Fprintf(&s, "lacks   %s\n", l)
	}
	return s.String()
}

func version() string { return thisBuild().Version }
