package manifest

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of YAML. The first two are checked before the parser sees the document, so that they bound its
// memory too: about 250 bytes for each mark, 60 MB in all. A manifest needs a depth of 6.
const (
	maxDepth = 50
	maxYAML  = 1 << 20
	maxMarks = 250_000
)

// parseYAML reads exactly one YAML document. Work and memory grow with the size of the document and no
// faster: TestYAMLWork.
func parseYAML(data []byte) (*node, error) {
	if err := checkYAML(data); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && isEmpty(doc.Content[0]):
		return nil, position{1, 1}.errorf("", "the document is empty: want version, app and jobs")
	case err != nil:
		return nil, syntaxError(err, data)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, positionOf(&second).errorf("", "a second document: want one manifest in a file")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(err, data)
	}
	p := yamlParser{known: map[*yaml.Node]*node{}}
	root, err := p.value(doc.Content[0], 0)
	switch {
	case err != nil:
		return nil, err
	case root.weight > MaxSize:
		return nil, root.at.errorf("", "with its aliases written out it is larger than %d bytes: put shared values under defaults", MaxSize)
	case root.values > maxValues:
		return nil, root.at.errorf("", "with its aliases written out it has more than %d values: put shared values under defaults", maxValues)
	}
	return root, nil
}

func isEmpty(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == "" }

// checkYAML refuses what would take the parser too much, or what readers take differently.
func checkYAML(data []byte) error {
	if len(data) > maxYAML {
		return position{1, 1}.errorf("", "it is larger than %d bytes, the most for YAML: split it, or write it as JSON", maxYAML)
	}
	marks, line, start := 0, 1, 0
	for i, b := range data {
		switch b {
		case '\n':
			line, start = line+1, i+1
			fallthrough
		case '\r', ',', ':', '-', '?', '[', '{':
			if marks++; marks > maxMarks {
				return position{line, i - start + 1}.errorf("", "the document is too large for YAML, with more than %d commas, colons, dashes and lines: split it, or write it as JSON", maxMarks)
			}
		case '%':
			if i == start {
				return position{line, 1}.errorf("", "a line that begins with %% is a directive, which is not supported: delete it, or indent it if it is text")
			}
		case 0xc2, 0xe2:
			if r, _ := utf8.DecodeRune(data[i:]); r == '\u0085' || r == '\u2028' || r == '\u2029' {
				return position{line, i - start + 1}.errorf("", "the character %U ends a line for some readers of YAML and not for others: write it as \"\\u%04x\", in double quotes", r, r)
			}
		}
	}
	return nil
}

// unquoted finds a value that begins with a character which YAML keeps for itself and which
// expressions of schedules begin with.
var unquoted = pattern(`(?:^|[:,[-])\s+([*@]\S*)`)

// The parser's errors are words.
var (
	errorLine   = pattern(`^yaml: line ([0-9]+): (?s:(.*))$`)
	errorAnchor = pattern(`unknown anchor '(.*)' referenced`)
)

// syntaxError finds the place. The parser counts some errors to the line after, and names no line at all
// for the first one.
func syntaxError(err error, data []byte) error {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if m := errorLine().FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	lines := bytes.Split(data, []byte("\n"))
	if m := errorAnchor().FindStringSubmatch(message); m != nil {
		at := find(lines, regexp.MustCompile(`(\*`+regexp.QuoteMeta(m[1])+`)`))
		return at.errorf("", "there is no anchor &%s before this alias: put a value that begins with * in quotes", m[1])
	}
	for _, n := range []int{line, line - 1} {
		if n < 1 || n > len(lines) {
			continue
		}
		if m := unquoted().FindSubmatchIndex(lines[n-1]); m != nil {
			value := lines[n-1][m[2]:m[3]]
			return position{n, m[2] + 1}.errorf("", "not valid YAML: a value that begins with %s must be in quotes (%s)", value, message)
		}
	}
	return position{max(line, 1), 1}.errorf("", "not valid YAML: %s", message)
}

// find answers where the first group of what first matches begins.
func find(lines [][]byte, what *regexp.Regexp) position {
	for i, line := range lines {
		if m := what.FindSubmatchIndex(line); m != nil {
			return position{i + 1, m[2] + 1}
		}
	}
	return position{1, 1}
}

func positionOf(n *yaml.Node) position { return position{max(n.Line, 1), max(n.Column, 1)} }

// numeral is what some reader takes for a number where it stands without quotes.
var numeral = pattern(`^([-+]?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?0([xX][0-9a-fA-F_]+|[oO][0-7_]+|[bB][01_]+)|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)

const (
	quoteName = "a field's name must be a string: put it in quotes"
	quoted    = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
)

// scalar says what a scalar is, and its words. What the parser takes it for does not count: it reads
// numbers, times and booleans as YAML 1.1 did.
func scalar(n *yaml.Node) (kind, string) {
	if n.Style&quoted != 0 {
		return text, n.Value
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return null, ""
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return boolean, strings.ToLower(n.Value)
	}
	if numeral().MatchString(n.Value) {
		return number, n.Value // as it is written: see plain
	}
	return text, n.Value
}

// yamlParser makes nodes of the parser's. known are those that are whole, for aliases.
type yamlParser struct{ known map[*yaml.Node]*node }

func (p *yamlParser) value(y *yaml.Node, depth int) (n *node, err error) {
	n = &node{at: positionOf(y)}
	switch {
	case depth > maxDepth:
		return nil, n.at.errorf("", "nested more than %d deep", maxDepth)
	case y.Style&yaml.TaggedStyle != 0:
		n.kind, n.unread = unreadable, "tags are not supported: write a plain value, in quotes if it is a string"
	case y.Kind == yaml.ScalarNode:
		n.kind, n.text = scalar(y)
	case y.Kind == yaml.SequenceNode:
		n.kind = list
		n.items, err = p.items(y.Content, depth+1)
	case y.Kind == yaml.MappingNode:
		n.kind = object
		n.fields, err = p.members(y.Content, depth+1)
	case y.Kind == yaml.AliasNode:
		return p.alias(y)
	default:
		return nil, n.at.errorf("", "not valid YAML")
	}
	if err != nil {
		return nil, err
	}
	n.weigh()
	if y.Anchor != "" {
		p.known[y] = n
	}
	return n, nil
}

func (p *yamlParser) items(values []*yaml.Node, depth int) ([]*node, error) {
	items := make([]*node, 0, len(values))
	for _, v := range values {
		n, err := p.value(v, depth)
		if err != nil {
			return nil, err
		}
		items = append(items, n)
	}
	return items, nil
}

func (p *yamlParser) members(pairs []*yaml.Node, depth int) ([]member, error) {
	fields := make([]member, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m := nameOfMember(pairs[i])
		var err error
		if m.value, err = p.value(pairs[i+1], depth); err != nil {
			return nil, err
		}
		fields = append(fields, m)
	}
	return fields, nil
}

// nameOfMember reads a field's name, which is a plain string.
func nameOfMember(key *yaml.Node) member {
	m := member{name: key.Value, at: positionOf(key)}
	switch kind, _ := scalar(key); {
	case key.Style&yaml.TaggedStyle != 0:
		m.name, m.unread = key.Tag, "a field's name is a plain string"
	case key.Kind != yaml.ScalarNode || key.Anchor != "":
		m.unread = "a field's name is a plain string"
	case key.Value == "<<" && key.Style&quoted == 0:
		m.unread = "merge keys (<<) are not supported: put shared values under defaults"
	case kind != text:
		m.unread = quoteName
	}
	return m
}

// alias answers the anchored node itself. One within its own anchor is not known yet, so there are no cycles.
func (p *yamlParser) alias(y *yaml.Node) (*node, error) {
	if n, ok := p.known[y.Alias]; ok {
		return n, nil
	}
	return nil, positionOf(y).errorf("", "the alias *%s contains itself", y.Value)
}
