package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// Quiet keeps the client library from printing failures to standard error by itself: the returned errors have them
// all. It holds for the whole process, so a program calls it, and not a library.
func Quiet() { goredis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
