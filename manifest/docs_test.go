package manifest

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentation: the examples of the page are manifests, and its errors are those of its
// wrong one.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```([a-z-]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	valid, invalid := 0, ""
	for _, block := range blocks {
		switch kind, text := block[1], block[2]; kind {
		case "yaml", "json":
			valid++
			if _, err := Load([]byte(text), "example."+kind); err != nil {
				t.Errorf("%v in\n%s", err, text)
			}
		case "yaml-invalid":
			invalid = text
		case "errors":
			_, err := Load([]byte(invalid), "example.yaml")
			var errs Errors
			if !errors.As(err, &errs) || errs.Error() != strings.TrimSpace(text) {
				t.Errorf("the page says\n%sbut it is\n%v", text, err)
			}
			invalid = "checked"
		}
	}
	if valid < 4 || invalid != "checked" {
		t.Errorf("%d examples, and the wrong one is %s: want at least 4, checked", valid, invalid)
	}
	eachProp(described().manifest, func(name string) {
		if !strings.Contains(string(page), "`"+name) && !strings.Contains(string(page), "."+name) {
			t.Errorf("the page does not mention %s", name)
		}
	})
}

// eachProp visits all names of fields.
func eachProp(s *shape, visit func(string)) {
	for _, p := range s.props {
		visit(p.name)
		eachProp(p.shape, visit)
	}
	for _, inner := range append(s.forms, s.item) {
		if inner != nil {
			eachProp(inner, visit)
		}
	}
}
