package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan writes the manual, for packages; nobody else needs it.
func newMan() *cobra.Command {
	return &cobra.Command{Use: "man DIR", Short: "Write the manual's pages into a directory", Hidden: true, Args: exactly(1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date := manDate(os.Getenv("SOURCE_DATE_EPOCH"))
			root := cmd.Root()
			root.InitDefaultVersionFlag()
			return eachCommand(root, func(c *cobra.Command) error {
				file := filepath.Join(args[0], manName(c)+".1")
				return os.WriteFile(file, []byte(manPage(c, date)), 0o644)
			})
		}}
}

// manDate is the day of a page: that of the source, so that the same source makes the same pages; else today.
func manDate(epoch string) string {
	at := time.Now()
	if s, err := strconv.ParseInt(epoch, 10, 64); err == nil {
		at = time.Unix(s, 0)
	}
	return at.UTC().Format(time.DateOnly)
}

// eachCommand calls do for a command and all below it that people see.
func eachCommand(c *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			if err := eachCommand(sub, do); err != nil {
				return err
			}
		}
	}
	return nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a command's help as a page of the manual.
func manPage(c *cobra.Command, date string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s dibs\n", roff(strings.ToUpper(manName(c))), date)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(c)), roff(strings.ReplaceAll(c.Short, "\n", " ")))
	c.InitDefaultHelpFlag()
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	asWritten(&b, long)
	manFlags(&b, "OPTIONS", c.NonInheritedFlags())
	manFlags(&b, "COMMON OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		asWritten(&b, c.Example)
	}
	manSeeAlso(&b, c)
	return b.String()
}

// asWritten keeps the lines: the helps have tables.
func asWritten(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(strings.Trim(text, "\n")))
}

func manFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, words := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(name), roff(words))
	})
}

func manSeeAlso(b *strings.Builder, c *cobra.Command) {
	var names []string
	if c.HasParent() {
		names = append(names, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, manName(sub))
		}
	}
	slices.Sort(names)
	for i, n := range names {
		if i == 0 {
			b.WriteString(".SH SEE ALSO\n")
		}
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Fprintf(b, ".BR %s (1)%s\n", roff(n), end)
	}
}

var inRoff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "\t", "    ")

// roff escapes text: a line that begins with . or ' would be a request.
func roff(text string) string {
	lines := strings.Split(inRoff.Replace(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
