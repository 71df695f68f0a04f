package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// The mark of an object of dibs.
const (
	managedBy    = "app.kubernetes.io/managed-by"
	managerName  = "dibs"
	appLabel     = "dibs.run/app"
	jobLabelName = "dibs.run/job"

	entryAnnotation = "dibs.run/entry"
	lineAnnotation  = "dibs.run/line"
	specAnnotation  = "dibs.run/spec"
	textAnnotation  = "dibs.run/text"
)

// maxName is that of a CronJob: its Jobs have 11 characters more.
const maxName = 52

// nameOf is the name of a new CronJob: what it is for, as far as that fits, and a hash, since the parts may have - in
// them.
func nameOf(id deploy.ID, line int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", id, line))
	end := "-" + hex.EncodeToString(sum[:])[:8]
	name := fmt.Sprintf("dibs-%s-%s-%d", id.App, id.Job, id.Index)
	return strings.TrimRight(name[:min(len(name), maxName-len(end))], "-") + end
}

// A mark is what an object of dibs says of itself.
type mark struct {
	id         deploy.ID
	line       int
	spec, text string
}

// readMark answers the mark of an object; ok is false for one of somebody else, such as a copy that got another app's
// label.
func readMark(o object) (m mark, ok bool) {
	meta := at(o, "metadata")
	id, err := deploy.ParseID(text(meta, "annotations", entryAnnotation))
	if err != nil || text(meta, "labels", managedBy) != managerName || text(meta, "labels", appLabel) != id.App || text(meta, "labels", jobLabelName) != id.Job {
		return m, false
	}
	n, err := strconv.Atoi(text(meta, "annotations", lineAnnotation))
	if err != nil || n < 0 {
		return m, false
	}
	return mark{id: id, line: n, spec: text(meta, "annotations", specAnnotation), text: text(meta, "annotations", textAnnotation)}, true
}

// marked is the configuration that is applied: an entry's CronJob with its mark, and nothing that dibs does not say.
func marked(name string, id deploy.ID, line int, specHash string, spec object) object {
	return object{
		"apiVersion": "batch/v1", "kind": "CronJob",
		"metadata": object{
			"name":   name,
			"labels": object{managedBy: managerName, appLabel: id.App, jobLabelName: id.Job},
			"annotations": object{entryAnnotation: id.String(), lineAnnotation: strconv.Itoa(line), specAnnotation: specHash,
				textAnnotation: deploy.TextHash(toYAML(spec))},
		},
		"spec": clone(spec),
	}
}
