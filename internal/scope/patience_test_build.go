//go:build dibstest

package scope

import "time"

// patience is longer in tests: which of them have scopes must not depend on how busy the machine is.
const patience = 10 * time.Second
