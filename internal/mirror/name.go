// Package mirror copies the records of a host's own directory to the shared store, afterwards, so that they can be
// read from any machine (rule H1).
//
// In the shared store a copied tick, run or event belongs to the job NAME, a separator and the host's id: three
// hosts' ticks of one job do not collide, and no server there takes them for its own. A host itself is a row of the
// registry without a schedule.
package mirror

import "strings"

// mark cannot be in the name of a user's job (rule L13).
const mark = "\x1f"

// idLength is how much of a host's random id identifies it: what fits after the longest name.
const idLength = 16

// short returns the part of a host's id that names carry.
func short(id string) string { return id[:min(len(id), idLength)] }

// On returns the name under which a host's job is copied.
func On(job, host string) string { return job + mark + host }

// Split is the reverse of On; host is empty if the name is not a copy's.
func Split(name string) (job, host string) {
	if job, host, ok := strings.Cut(name, mark); ok && job != "" {
		return job, host
	}
	return name, ""
}

const hostPrefix = mark + "host" + mark

// row returns the name of a host's row in the registry.
func row(host string) string { return hostPrefix + host }
