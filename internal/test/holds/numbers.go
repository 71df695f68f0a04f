package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A number is a promise or a rule, as its page has it.
type number struct {
	id, title string // "3" and "The work is gone before the lease is"; "L9" and "Identity and hold-back"
	unbuilt   bool   // the page says that it is not built yet, so no test can hold it
}

var (
	promiseTitle = regexp.MustCompile(`^\*\*(\d+)\. (.+?)[.,:]?\*\*(.*)`)
	ruleTitle    = regexp.MustCompile(`^\*\*([LTHQ]\d+) (.+?)[.,:]?\*\*(.*)`)
)

// readNumbers returns the numbers of a page in its order.
func readNumbers(path string, title *regexp.Regexp) ([]number, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []number
	for line := range strings.Lines(string(text)) {
		if m := title.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			all = append(all, number{m[1], m[2], strings.HasPrefix(m[3], " *Not built yet.*")})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no numbers; they begin a line, like **3. Title.** or **L9 Title.**", path)
	}
	return all, nil
}
