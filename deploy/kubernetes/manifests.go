package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

// Render returns the CronJobs of entries as YAML, for another tool to apply. Without a namespace they have none.
// Objects that another tool applies belong to another manager: a later Install treats them as edited by hand.
func Render(entries []deploy.Entry, namespace string) (string, error) {
	if namespace != "" && !objectName().MatchString(namespace) {
		return "", fmt.Errorf("namespace %q: want a name of a-z, 0-9 and -", namespace)
	}
	var all []string
	var errs []error
	for _, e := range entries {
		s, err := render(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.ID, err))
			continue
		}
		specs, err := specsOf(s)
		if err != nil {
			return "", err
		}
		for n, spec := range specs {
			o := marked(nameOf(e.ID, n), e.ID, n, e.SpecHash(), spec)
			if namespace != "" {
				o["metadata"].(object)["namespace"] = namespace
			}
			all = append(all, toYAML(o))
		}
	}
	return strings.Join(all, separator), errors.Join(errs...)
}
