package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

var targets = []struct{ os, arch string }{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (r *release) binary(system, arch string) string {
	return filepath.Join(r.out, "dibs-"+system+"-"+arch)
}

// binaries builds static binaries that hold no path and no time of this machine.
func (r *release) binaries() error {
	const build = "github.com/dibs-run/dibs/internal/build."
	flags := "-s -w -buildid= -X " + build + "version=v" + r.version + " -X " + build + "commit=" + r.commit
	for _, t := range targets {
		to, err := filepath.Abs(r.binary(t.os, t.arch))
		if err != nil {
			return err
		}
		_, err = output(r.source, []string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOFLAGS="},
			"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", to, "./cmd/dibs")
		if err != nil {
			return err
		}
	}
	return nil
}

// documents has the binary of this machine write its manual and the completions.
func (r *release) documents() (err error) {
	dibs, err := filepath.Abs(r.binary(runtime.GOOS, runtime.GOARCH))
	if err != nil {
		return err
	}
	if r.manual, err = os.MkdirTemp("", "dibs-man-"); err != nil {
		return err
	}
	env := []string{fmt.Sprint("SOURCE_DATE_EPOCH=", r.at.Unix())}
	if _, err = output("", env, dibs, "man", r.manual); err != nil {
		return err
	}
	r.shells = map[string][]byte{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r.shells[shell], err = output("", nil, dibs, "completion", shell); err != nil {
			return err
		}
	}
	return nil
}

// formula writes a formula for Homebrew.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, "class Dibs < Formula\n  desc \"Scheduled and queued jobs across a fleet of servers\"\n"+
		"  homepage \"https://github.com/dibs-run/dibs\"\n  version %q\n  license \"Apache-2.0\"\n", r.version)
	for _, t := range targets {
		binary, err := os.ReadFile(r.binary(t.os, t.arch))
		if err != nil {
			return err
		}
		on := map[string]string{"linux": "linux", "darwin": "macos"}[t.os]
		cpu := map[string]string{"amd64": "intel", "arm64": "arm"}[t.arch]
		fmt.Fprintf(&b, "\n  on_%s do\n    on_%s do\n      url \"https://github.com/dibs-run/dibs/releases/download/v%s/dibs-%s-%s\"\n"+
			"      sha256 \"%x\"\n    end\n  end\n", on, cpu, r.version, t.os, t.arch, sha256.Sum256(binary))
	}
	b.WriteString("\n  def install\n    bin.install Dir[\"dibs-*\"].first => \"dibs\"\n    generate_completions_from_executable(bin/\"dibs\", \"completion\")\n  end\n\n" +
		"  test do\n    assert_match version.to_s, shell_output(\"#{bin}/dibs version\")\n  end\nend\n")
	return os.WriteFile(filepath.Join(r.out, "dibs.rb"), []byte(b.String()), 0o644)
}

// bill writes an SBOM (CycloneDX 1.6) of the modules that the binary says it is made of.
func (r *release) bill() error {
	info, err := buildinfo.ReadFile(r.binary("linux", "amd64"))
	if err != nil {
		return err
	}
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	of := func(kind, name, version string) component {
		url := "pkg:golang/" + name + "@" + version
		return component{kind, url, name, version, url}
	}
	parts := []component{of("library", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, d := range info.Deps {
		parts = append(parts, of("library", d.Path, d.Version))
	}
	b, err := json.MarshalIndent(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"timestamp": r.at, "component": of("application", info.Main.Path, "v"+r.version)},
		"components": parts}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "dibs.cdx.json"), append(b, '\n'), 0o644)
}
