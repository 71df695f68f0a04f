package cli

import (
	"runtime/debug"
	"strings"
	"testing"
)

// A binary tells what make dist set, else what Go knows of it: go install's version, a clone's commit.
func TestVersionOfABuild(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}}
	for _, c := range []struct {
		of                          *debug.BuildInfo
		version, commit             string // set
		wantVersion, wantCommitTold string
	}{
		{info, "", "", "v0.1.0", "abc-dirty"},
		{info, "v0.2.0", "def", "v0.2.0", "def"},
		{&debug.BuildInfo{}, "", "", "(devel)", ""},
	} {
		b := buildOf(c.of, c.version, c.commit)
		if b.Version != c.wantVersion || b.Commit != c.wantCommitTold {
			t.Errorf("built as %q at %q, told as %q at %q, want %q at %q", c.version, c.commit, b.Version, b.Commit, c.wantVersion, c.wantCommitTold)
		}
	}
	if lacks("linux") != nil || len(lacks("darwin")) == 0 {
		t.Error("Linux lacks something, or macOS nothing")
	}
	if text := (buildInfo{Version: "v1", Lacks: lacks("darwin")}).String(); !strings.Contains(text, "lacks   directory stores") || !strings.Contains(text, "commit  unknown") {
		t.Error(text)
	}
}
