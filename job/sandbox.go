package job

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// A Sandbox is what a service of systemd takes away from a command: properties by their names, as in systemd.exec(5),
// each with its values as a unit has them. Only a unit that systemd starts has a sandbox; package manifest says which
// properties there may be.
type Sandbox map[string][]string

// Names returns the properties in a fixed order.
func (s Sandbox) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Hash tells sandboxes apart. A unit passes it on to the dibs that it starts, in SandboxVariable.
func (s Sandbox) Hash() string {
	h := sha256.New()
	for _, name := range s.Names() {
		fmt.Fprintf(h, "%q%q", name, s[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// SandboxVariable is the variable in which a unit says which sandbox it has.
const SandboxVariable = "DIBS_SANDBOX"
