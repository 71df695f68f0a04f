//go:build linux

package file

import (
	"encoding/json"
	"fmt"

	"github.com/dibs-run/dibs/internal/beneath"
)

// mostSmall bounds a file of JSON.
const mostSmall = 64 << 10

func readJSON(d *beneath.Dir, name string, v any) error {
	b, err := d.Read(name, mostSmall)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// createJSON makes a file whole and durable, or leaves the one that is there.
func createJSON(d *beneath.Dir, name string, v any) (made bool, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	return d.Publish(name, append(b, '\n'))
}

// replaceJSON replaces a file as a whole.
func replaceJSON(d *beneath.Dir, name string, v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return d.Replace(name, append(b, '\n'), sync)
}
