package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The page of commands has every command with every flag, and no other.
func TestThePageOfCommandsHasThemAll(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "reference", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	general, sections := sectionsOf(string(b))
	flags := regexp.MustCompile(`(?:^|[^\w-])(--[a-z][a-z-]*)`)
	named := func(text, flag string) bool {
		return slices.ContainsFunc(flags.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == flag })
	}

	root := newRoot(env{stdout: io.Discard, stderr: io.Discard})
	there := map[string]map[string]bool{"completion": {}} // the flags of what a section is about
	err = eachCommand(root, func(c *cobra.Command) error {
		path := strings.Fields(c.CommandPath())
		if len(path) < 2 || path[1] == "completion" {
			return nil
		}
		section, ok := sections[path[1]]
		if !ok || !strings.Contains(section, strings.Join(path[1:], " ")) {
			t.Errorf("%s is not in the page", c.CommandPath())
			return nil
		}
		if there[path[1]] == nil {
			there[path[1]] = map[string]bool{"--help": true}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			flag := "--" + f.Name
			there[path[1]][flag] = true
			short := f.Shorthand != "" && strings.Contains(section+general, "`-"+f.Shorthand)
			if !f.Hidden && f.Name != "help" && !named(section, flag) && !named(general, flag) && !short {
				t.Errorf("%s %s is not in the page", c.CommandPath(), flag)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, section := range sections {
		if there[name] == nil {
			t.Errorf("the page has a section on dibs %s, and there is no such command", name)
		}
		for line := range strings.Lines(section) {
			if !strings.HasPrefix(line, "| `-") {
				continue
			}
			cell, _, _ := strings.Cut(line[2:], " | ")
			for _, m := range flags.FindAllStringSubmatch(cell, -1) {
				if !slices.ContainsFunc(sharing(sections, name), func(of string) bool { return there[of][m[1]] }) {
					t.Errorf("the page has %s in the section on dibs %s, which knows no such flag", m[1], name)
				}
			}
		}
	}
}

// sharing are the commands whose section is that of name.
func sharing(sections map[string]string, name string) (names []string) {
	for of, text := range sections {
		if text == sections[name] {
			names = append(names, of)
		}
	}
	return names
}

// sectionsOf are the page's sections on commands by the word behind dibs, and the rest of the page.
func sectionsOf(page string) (general string, sections map[string]string) {
	sections = map[string]string{}
	var names []string // a title may name several
	for line := range strings.Lines(page) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			names = nil
			for part := range strings.SplitSeq(strings.TrimSpace(title), ", ") {
				if name, ok := strings.CutPrefix(part, "dibs "); ok {
					names = append(names, name)
				}
			}
		}
		if names == nil {
			general += line
		}
		for _, name := range names {
			sections[name] += line
		}
	}
	return general, sections
}
