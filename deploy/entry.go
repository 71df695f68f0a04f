package deploy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/lazy"
)

// An ID is the identity of an entry. It stays the same when the schedule, the command or the target's text changes.
type ID struct {
	App, Job string
	// Index is the position of the schedule among the job's, from 0.
	Index int
}

var name = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)

// String returns APP/JOB#INDEX.
func (id ID) String() string { return id.App + "/" + id.Job + "#" + strconv.Itoa(id.Index) }

// ParseID reads what String wrote, and nothing else.
func ParseID(s string) (ID, error) {
	app, rest, _ := strings.Cut(s, "/")
	job, index, _ := strings.Cut(rest, "#")
	n, err := strconv.Atoi(index)
	id := ID{app, job, n}
	if err != nil || id.check() != nil || id.String() != s {
		return ID{}, fmt.Errorf("%.200q is not an entry's identity: want APP/JOB#INDEX", s)
	}
	return id, nil
}

func (id ID) check() error {
	if !name().MatchString(id.App) || !name().MatchString(id.Job) || id.Index < 0 || id.Index > 9999 {
		return fmt.Errorf("%.200q: want the names of an app and a job (a lower-case letter, then up to 62 of a-z, 0-9 and -), and an index from 0 to 9999", id.String())
	}
	return nil
}

// Compare orders by app, job and index.
func (id ID) Compare(b ID) int {
	return cmp.Or(cmp.Compare(id.App, b.App), cmp.Compare(id.Job, b.Job), cmp.Compare(id.Index, b.Index))
}

// An Entry is one desired entry: one schedule of one job.
type Entry struct {
	ID
	// Declared is the schedule as the manifest has it, with its zone. It is hashed as part of the specification.
	// Empty: When is hashed instead, so another version's translation counts as an update.
	Declared string
	// When are the lines of the schedule in the target's own language; at least one.
	When []string
	// Zone is the zone in which the target reads When, an IANA name. Empty: the target's own zone.
	Zone string
	// Command is the program, by its absolute path, and its arguments, unchanged.
	Command []string
	// Env are variables that the command gets in addition to those of the target. Everybody who can read the target
	// can read them, so do not put secrets here.
	Env map[string]string
	// User is the user that the command runs as. Empty: the target's own user.
	User string
	// MailTo is the recipient of the output, if the target mails it. Nil: the target's setting; "": nobody.
	MailTo *string
	// Overlap lets the entry fire while an earlier fire is still running, on targets that prevent that by
	// themselves.
	Overlap bool
	// Persistent fires a missed entry once when the machine is on again, on targets that can.
	Persistent bool
	// StopGrace is how long the command may take to end once it is told to; 0 is the target's default.
	StopGrace time.Duration
	// StartWithin is how late a fire may still start, for targets that fire late; 0 is the target's own rule.
	StartWithin time.Duration
	// Sandbox are the properties of a unit that take rights away from the command, each as NAME=VALUE, for targets
	// that have units.
	Sandbox []string
	// Container is where the command runs, for targets that start one; nil for all others.
	Container *Container
	// Plain is what the job does without dibs: Adopt takes over an entry that does the same. Nil: no such form is
	// known. It is not part of the specification.
	Plain *Plain
}

// A Container is what a target that starts containers needs to know about one. It contains no secret's value.
type Container struct {
	Image string `json:"image"`
	// ServiceAccount is the account that it runs under; "" is none.
	ServiceAccount string `json:"service_account,omitempty"`
	// Manifest is the text of the manifest that the command reads, from the path that the target names.
	Manifest string `json:"manifest,omitempty"`
	// Secrets are the secrets that the command finds, by their references.
	Secrets []Secret `json:"secrets,omitempty"`
}

// A Secret says where the target has a secret that the command finds as Ref: env:NAME or file:/path.
type Secret struct {
	Ref  string `json:"ref"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Plain is a job as another scheduler would have it, without dibs.
type Plain struct {
	// When are the lines of the schedule in the language of the target, read in Zone, an IANA name.
	When []string
	Zone string
	// Shell is a line for /bin/sh, or else Args are a program and its arguments.
	Shell string
	Args  []string
	// Dir is where it starts, User is the user that it runs as ("" is the user whose table it is), Env is added to
	// the scheduler's own environment.
	Dir, User string
	Env       map[string]string
}

// SpecHash returns a hash of what the entry does, whatever the target's text for it. It is the same in every version
// of dibs.
func (e Entry) SpecHash() string {
	when := e.When
	if e.Declared != "" {
		when = []string{e.Declared}
	}
	b, err := json.Marshal(struct {
		ID      string            `json:"id"`
		When    []string          `json:"when"`
		Zone    string            `json:"zone,omitempty"`
		Command []string          `json:"command"`
		Env     map[string]string `json:"env,omitempty"` // written by key
		User    string            `json:"user,omitempty"`
		MailTo  *string           `json:"mail_to,omitempty"`

		Overlap    bool          `json:"overlap,omitempty"`
		Persistent bool          `json:"persistent,omitempty"`
		StopGrace  time.Duration `json:"stop_grace,omitempty"`

		StartWithin time.Duration `json:"start_within,omitempty"`
		Container   *Container    `json:"container,omitempty"`
		Sandbox     []string      `json:"sandbox,omitempty"`
	}{e.ID.String(), when, e.Zone, e.Command, e.Env, e.User, e.MailTo, e.Overlap, e.Persistent, e.StopGrace, e.StartWithin, e.Container, e.Sandbox})
	if err != nil {
		panic(err) // strings always marshal
	}
	return hashOf(string(b))
}

// TextHash returns the hash of an entry's text in the target.
func TextHash(text string) string { return hashOf(text) }

// hashOf returns 128 bits of SHA-256 in hexadecimal digits.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p) // no two lists of parts give the same bytes
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
