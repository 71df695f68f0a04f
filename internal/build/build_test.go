package build

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfAProgram(t *testing.T) {
	dep := &debug.Module{Path: module, Version: "v1.2.3"}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "(devel)"},
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/shop", Version: "v9"}, Deps: []*debug.Module{{Path: "other", Version: "v8"}, dep}}, "v1.2.3"},
		{debug.BuildInfo{Main: debug.Module{Path: "example.com/shop"}, Deps: []*debug.Module{{Path: module, Version: "v1", Replace: &debug.Module{Path: "fork", Version: "v1.1"}}}}, "v1.1"},
		{debug.BuildInfo{}, ""},
	} {
		if got := of(&c.info); got != c.want {
			t.Errorf("%+v: %q, want %q", c.info, got, c.want)
		}
	}
}
