package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// Quiet keeps the client library from printing failures to standard error by itself: they are all
// in the errors that are returned. It holds for the whole process, so it is a program's to ask
// for, not a library's.
func Quiet() { goredis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
