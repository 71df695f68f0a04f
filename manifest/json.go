package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"
)

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
	p.decoder = json.NewDecoder(bytes.NewReader(data))
	p.decoder.UseNumber()
	return p.value()
}

type jsonParser struct {
	data    []byte
	decoder *json.Decoder
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
	switch t := t.(type) {
	case bool:
		n.kind = boolean
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
