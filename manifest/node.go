package manifest

// A node is one value of a document, whether that was JSON or YAML, and where it stands. Both
// formats meet here, so that they cannot differ in what they mean.
type node struct {
	kind   kind
	text   string // of text; the digits of a number; true or false
	items  []*node
	fields []member // in the document's order, duplicates included
	at     position
	weight int    // about its bytes, with aliases written out; never much more than MaxSize
	values int    // how many there are in it, itself among them, with aliases written out; as bounded
	unread string // what is wrong, of something that has no meaning here (kind unreadable)
}

type member struct {
	name   string
	at     position
	value  *node
	unread string // what is wrong with the name itself
}

// A position counts lines and columns from 1.
type position struct{ line, column int }

type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
	unreadable
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object", "something else"}[k]
}

// weigh sums up what is in a node of YAML. It stops counting where a document is refused anyway,
// since aliases of aliases grow beyond any number.
func (n *node) weigh() {
	n.weight, n.values = 1+len(n.text), 1
	for _, item := range n.items {
		n.weight, n.values = min(n.weight+item.weight, MaxSize+1), min(n.values+item.values, maxValues+1)
	}
	for _, m := range n.fields {
		n.weight = min(n.weight+len(m.name)+m.value.weight, MaxSize+1)
		n.values = min(n.values+m.value.values, maxValues+1)
	}
}
