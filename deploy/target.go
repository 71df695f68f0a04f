package deploy

import (
	"context"
	"errors"
)

// ErrChanged is wrapped if the target, or the plan, is no longer what it was. Nothing was written; plan again.
var ErrChanged = errors.New("it has changed in the meantime")

// A Target is a place where entries are installed, such as one crontab. Its methods are safe for concurrent use,
// also by several processes, within the limits that each method states.
type Target interface {
	// String names the target in plans and errors. It is the same on each run, and part of a plan's hash.
	String() string
	// Lock keeps other applies out until unlock is called. It waits until ctx ends. Programs other than dibs do
	// not know this lock.
	Lock(ctx context.Context) (unlock func(), err error)
	// Read reads what is there now. A target that does not exist yet is an empty image.
	Read(ctx context.Context) (Image, error)
	// Write replaces from by to; both came from Read and Edit. It reads again first: if the target is no longer
	// equal to from, the error wraps ErrChanged. After any other error the target holds from or to, or some of each
	// if it has several documents, and the next Apply repairs it.
	Write(ctx context.Context, from, to Image) error
}

// A Checker is a Target whose server can say in advance what it would refuse. Check writes nothing.
type Checker interface {
	Check(ctx context.Context, to Image) error
}

// An Image is what a target holds at one moment, or should hold. It does not change.
type Image interface {
	// Documents returns the texts that the image consists of, in a fixed order.
	Documents() []Document
	// Installed returns the entries with dibs's mark, in order of their IDs.
	Installed() []Installed
	// Foreign returns the active entries without dibs's mark, in the order of the target.
	Foreign() []Foreign
	// Render returns the text that the target would have for an entry. The error says why it cannot be expressed.
	Render(Entry) (string, error)
	// Match returns which foreign entries, all of them together, do what e does, and which differ and how.
	Match(e Entry) (Match, error)
	// Edit returns the image after these edits, applied one after the other.
	Edit([]Edit) (Image, error)
	// Problems returns what keeps entries of dibs in this image from doing what their text says, such as a variable
	// that a foreign line above sets.
	Problems() []Problem
}

// A Document is one text of a target. A name stays the same when the text changes.
type Document struct {
	Name   string
	Exists bool
	Text   string
}

// Installed is an entry with dibs's mark.
type Installed struct {
	ID ID
	// Spec and TextSum are the mark's hashes; Text is the text that is there now.
	Spec, TextSum, Text string
	// Where is its position, for people: "line 12".
	Where string
}

// Edited reports whether somebody changed the text after it was written.
func (i Installed) Edited() bool { return TextHash(i.Text) != i.TextSum }

// Foreign is an active entry that is not dibs's.
type Foreign struct {
	Where string `json:"where"`
	Text  string `json:"text"`
}

// A Match is what was found for an entry among the foreign ones.
type Match struct {
	// Refs are the places to take over, in the target's own terms. None: nothing matches.
	Refs []int
	// Note says what is taken over and how it differs, if it does: an entry of cronix may.
	Note string
	// Guarded states that they call dibs trigger: started beside e, each tick still runs once.
	Guarded bool
	// Also are entries that start the same job, and that are not taken over.
	Also []string
	// Near are entries that fire the same job or look like it, but are not proven to be the same, with the reason.
	Near []string
}

// A Problem keeps an entry from doing what its text says.
type Problem struct {
	ID ID
	// Text says what is wrong, where, and how to fix it.
	Text string
}

// An Op is what an Edit does.
type Op int

// The operations.
const (
	Put    Op = iota // write Text with its mark: in the place of the entry Old, or as a new one if Old is nil
	Remove           // remove the entry ID with its mark
	Unmark           // take away the mark of ID, and leave its text as a foreign entry
	Take             // write Text with its mark in the place of the foreign entries Refs
)

// An Edit is one change of an image.
type Edit struct {
	Op   Op
	ID   ID
	Old  *ID
	Refs []int
	// Spec and Text are what is written, and the specification's hash.
	Spec, Text string
}
