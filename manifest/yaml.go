package manifest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of YAML, whose parser takes time that grows with the square of some documents. A
// manifest needs a depth of 6 and about a dozen tokens to a field.
const (
	maxDepth  = 50
	maxTokens = 100_000
)

// parseYAML reads exactly one YAML document.
func parseYAML(data []byte) (*node, error) {
	tokens := lexer.Tokenize(string(data))
	if err := checkSize(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(err, data)
	}
	switch {
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, position{1, 1}.errorf("", "the document is empty: want version, app and jobs")
	case len(file.Docs) > 1:
		return nil, positionOf(file.Docs[1].Start).errorf("", "a second document: want one manifest in a file")
	}
	p := yamlParser{anchors: map[string]*node{}}
	root, err := p.value(file.Docs[0].Body, 0)
	if err == nil && root.weight > MaxSize {
		return nil, root.at.errorf("", "with its aliases written out it is larger than %d bytes: say what jobs share under defaults", MaxSize)
	}
	return root, err
}

// checkSize refuses what the parser would take too long, or too deep a recursion, to read.
func checkSize(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return positionOf(tokens[maxTokens]).errorf("", "the document is too large: split it, or write it as JSON")
	}
	depth, line, entries := 0, 0, 0
	for _, t := range tokens {
		at := positionOf(t)
		if at.line != line {
			line, entries = at.line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType: // "- - - x" nests on one line
			entries++
		}
		if max(depth, entries) > maxDepth {
			return at.errorf("", "nested more than %d deep", maxDepth)
		}
	}
	return nil
}

// unquoted finds a value that begins with a character which YAML keeps for itself and which
// expressions of schedules begin with.
var unquoted = pattern(`(?:^|[:,[-])\s+([*@]\S*)`)

func syntaxError(err error, data []byte) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return position{1, 1}.errorf("", "not valid YAML: %v", err)
	}
	at, message := positionOf(syntax.GetToken()), syntax.GetMessage()
	if lines := strings.Split(string(data), "\n"); at.line <= len(lines) {
		if found := unquoted().FindStringSubmatch(lines[at.line-1]); found != nil {
			message = fmt.Sprintf("a value that begins with %s must stand in quotes (%s)", found[1], message)
		}
	}
	return at.errorf("", "not valid YAML: %s", message)
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

// numeral is what readers of YAML 1.2 take for a number where it stands without quotes.
var numeral = pattern(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

const (
	stringToken = token.StringType
	quoteName   = "a field's name is a string, and this is none without quotes"
)

type yamlParser struct{ anchors map[string]*node }

func (p *yamlParser) value(a ast.Node, depth int) (*node, error) {
	n := &node{at: positionOf(a.GetToken())}
	if depth > maxDepth {
		return nil, n.at.errorf("", "nested more than %d deep", maxDepth)
	}
	var err error
	switch a := a.(type) {
	case *ast.NullNode:
		n.kind = null
	case *ast.BoolNode:
		n.kind, n.text = boolean, strconv.FormatBool(a.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = number, a.GetToken().Value // as it is written: see plain
	case *ast.StringNode:
		n.kind, n.text = text, a.Value
		if a.GetToken().Type == token.StringType && numeral().MatchString(a.Value) {
			n.kind = number
		}
	case *ast.LiteralNode:
		n.kind, n.text = text, a.Value.Value
	case *ast.SequenceNode:
		n.kind = list
		n.items, err = p.items(a.Values, depth+1)
	case *ast.MappingNode:
		n.kind = object
		n.fields, err = p.members(a.Values, depth+1)
	case *ast.MappingValueNode:
		n.kind = object
		n.fields, err = p.members([]*ast.MappingValueNode{a}, depth+1)
	case *ast.AnchorNode:
		return p.anchor(a, depth)
	case *ast.AliasNode:
		return p.alias(a)
	default:
		n.kind = unreadable
		n.unread = fmt.Sprintf("a %s has no meaning here: write a plain value, in quotes if it is a string", strings.ToLower(a.Type().String()))
	}
	n.weigh()
	if len(n.fields) > 0 {
		n.at = n.fields[0].at // rather than that of the first colon
	}
	return n, err
}

func (p *yamlParser) items(values []ast.Node, depth int) (items []*node, err error) {
	for _, v := range values {
		n, err := p.value(v, depth)
		if err != nil {
			return nil, err
		}
		items = append(items, n)
	}
	return items, nil
}

func (p *yamlParser) members(values []*ast.MappingValueNode, depth int) (fields []member, err error) {
	for _, v := range values {
		token := v.Key.GetToken()
		m := member{name: token.Value, at: positionOf(token)}
		switch key := v.Key.(type) {
		case *ast.StringNode:
			m.name = key.Value
			if token.Type == stringToken && numeral().MatchString(key.Value) {
				m.unread = quoteName
			}
		case *ast.MergeKeyNode:
			m.unread = "merge keys (<<) are not read: say what jobs share under defaults"
		case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.BoolNode, *ast.NullNode:
			m.unread = quoteName
		default:
			m.unread = "a field's name is a plain string"
		}
		if m.value, err = p.value(v.Value, depth); err != nil {
			return nil, err
		}
		fields = append(fields, m)
	}
	return fields, nil
}

func (p *yamlParser) anchor(a *ast.AnchorNode, depth int) (*node, error) {
	n, err := p.value(a.Value, depth+1)
	if err == nil {
		p.anchors[a.Name.GetToken().Value] = n
	}
	return n, err
}

// alias answers the anchored node itself. An alias within its own anchor is not known yet, so
// there are no cycles.
func (p *yamlParser) alias(a *ast.AliasNode) (*node, error) {
	name := a.Value.GetToken().Value
	if n, ok := p.anchors[name]; ok {
		return n, nil
	}
	return nil, positionOf(a.GetToken()).errorf("",
		"there is no anchor &%s before this alias: put a value that begins with * in quotes", name)
}
