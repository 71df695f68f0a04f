package memory

import "time"

// Hold has a namespace hold grants back until an instant.
func Hold(namespace string, until time.Time) {
	registry.Lock()
	b := registry.byNamespace[namespace]
	registry.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holdUntil = until
}
