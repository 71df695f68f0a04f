package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// maxValues bounds what a document of small values takes in memory, to about 40 MB.
const maxValues = 250_000

// parseJSON reads exactly one JSON value.
func parseJSON(data []byte) (*node, error) {
	p := &jsonParser{data: data}
	for i, b := range data {
		if b == '\n' {
			p.lines = append(p.lines, i+1)
		}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		at := len(data)
		if errors.As(err, &syntax) {
			at = max(int(syntax.Offset)-1, 0)
		}
		return nil, p.position(at).errorf("", "not valid JSON: %v", err)
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, p.position(at).errorf("", "half of a surrogate pair is no character: want both halves, or the character itself")
	}
	p.decoder = json.NewDecoder(bytes.NewReader(data))
	p.decoder.UseNumber()
	return p.value()
}

type jsonParser struct {
	data    []byte
	decoder *json.Decoder
	values  int
	lines   []int // offsets at which the lines after the first begin
}

func (p *jsonParser) position(offset int) position {
	line := sort.SearchInts(p.lines, offset+1)
	start := 0
	if line > 0 {
		start = p.lines[line-1]
	}
	return position{line + 1, offset - start + 1}
}

// token reads the next token and where it begins.
func (p *jsonParser) token() (json.Token, position, error) {
	at := int(p.decoder.InputOffset())
	for at < len(p.data) && strings.IndexByte(" \t\r\n,:", p.data[at]) >= 0 {
		at++
	}
	t, err := p.decoder.Token()
	return t, p.position(at), err
}

func (p *jsonParser) value() (*node, error) {
	t, at, err := p.token()
	if err != nil {
		return nil, err
	}
	n := &node{at: at}
	if p.values++; p.values > maxValues {
		return nil, at.errorf("", "there are more than %d values: split it", maxValues)
	}
	switch t := t.(type) {
	case bool:
		n.kind, n.text = boolean, strconv.FormatBool(t)
	case json.Number:
		n.kind, n.text = number, t.String()
	case string:
		n.kind, n.text = text, t
	case json.Delim:
		if t == '[' {
			n.kind = list
			n.items, err = p.items()
		} else {
			n.kind = object
			n.fields, err = p.members()
		}
	}
	return n, err
}

func (p *jsonParser) items() (items []*node, err error) {
	for p.decoder.More() {
		n, err := p.value()
		if err != nil {
			return nil, err
		}
		items = append(items, n)
	}
	_, err = p.decoder.Token()
	return slices.Clip(items), err
}

func (p *jsonParser) members() (fields []member, err error) {
	for p.decoder.More() {
		name, at, err := p.token()
		if err != nil {
			return nil, err
		}
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		fields = append(fields, member{name: name.(string), at: at, value: value})
	}
	_, err = p.decoder.Token()
	return slices.Clip(fields), err
}

// loneSurrogate finds an escape such as \ud800 without its other half, which encoding/json would
// replace by U+FFFD without a word; -1 is none. In valid JSON a backslash stands only in strings.
func loneSurrogate(data []byte) int {
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		switch r := escaped(data[i:]); {
		case !utf16.IsSurrogate(r):
			i++
		case utf16.DecodeRune(r, escaped(data[i+6:])) == unicode.ReplacementChar:
			return i
		default:
			i += 11
		}
	}
	return -1
}

// escaped is the code unit of an escape at the beginning of b; 0 if there is none.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	v, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(v)
}
