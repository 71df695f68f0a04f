package job_test

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs/job"
)

// A definition that no manifest can have made costs nothing but its own bytes.
func TestAnEnormousDefinitionIsNotRead(t *testing.T) {
	text := `{"schedules":["` + strings.Repeat(`","`, 3<<20) + `"]}`
	if _, err := job.ParseDefinition(text); err == nil || !strings.Contains(err.Error(), "are read") {
		t.Errorf("%d bytes: %v", len(text), err)
	}
}
