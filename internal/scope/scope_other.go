//go:build !linux

package scope

import "log/slog"

// Scopes are never had on this platform.
type Scopes struct{ noScopes struct{} }

// Open finds none: there is no systemd but on Linux.
func Open(*slog.Logger) (*Scopes, error) { return nil, nil }

// Service is empty.
func Service() string { return "" }

// Dir is empty.
func (*Scopes) Dir(string, string) string { return "" }

// Start does nothing.
func (*Scopes) Start(string, string, ...int) error { return nil }
