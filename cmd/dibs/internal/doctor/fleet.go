package doctor

import (
	"strings"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/tick"
)

// Fleet looks for apps that nobody serves any more, servers and workers that are gone, and hosts whose clock is off.
// jobs are those of the store.
func Fleet(where string, c fleet.Census, jobs []tick.Job) []Finding {
	return findings(where, status.Fleet(c, jobs))
}

// findings are problems of a fleet as findings.
func findings(where string, problems []status.Problem) (all []Finding) {
	severities := map[status.Severity]Severity{status.Critical: Error, status.Warning: Warning, status.Note: Info}
	for _, p := range problems {
		all = append(all, found(severities[p.Severity], string(p.Kind), where, p.Cure, "%s.", strings.ToUpper(p.What[:1])+p.What[1:]))
	}
	return all
}
