// Command packaging makes what people install: binaries, packages for deb, rpm and apk, an image, a formula, a chart,
// an SBOM and SHA256SUMS. make dist runs it. The same source makes the same bytes.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// release is what is made, of which source.
type release struct {
	source  string // the root of the repository
	out     string
	version string // without the v
	commit  string
	at      time.Time // the commit's time, which all files in all archives have
	manual  string    // the folder of man pages
	shells  map[string][]byte
}

func main() {
	source := flag.String("source", "..", "the repository's root")
	version := flag.String("version", "0.1.0", "the version, without a v")
	flag.Parse()
	if err := dist(*source, *version); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

func dist(source, version string) error {
	r := release{source: source, out: filepath.Join(source, "dist"), version: version}
	said, err := output(source, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of commit %s: %w", commit, err)
	}
	r.commit, r.at = commit, time.Unix(epoch, 0).UTC()
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, step := range []func() error{r.binaries, r.documents, r.packages, r.image, r.formula, r.chart, r.bill, r.sums} {
		if err := step(); err != nil {
			return err
		}
	}
	return os.RemoveAll(r.manual)
}

// output runs a program and returns what it prints.
func output(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return b, nil
}

// sums writes SHA256SUMS, as sha256sum -c reads it.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
