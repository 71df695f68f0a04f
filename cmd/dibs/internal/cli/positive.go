package cli

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// positive returns a flag's value that must be above 0, where 0 is the default or stands for none: if a script
// computes 0, it must not be taken for that.
func positive[T int | time.Duration](to *T) pflag.Value { return above[T]{to} }

var errNotPositive = errors.New("want more than 0; leave the flag out for the default")

type above[T int | time.Duration] struct{ to *T }

func (a above[T]) Set(s string) error {
	var n T
	var err error
	switch to := any(&n).(type) {
	case *int:
		*to, err = strconv.Atoi(s)
	case *time.Duration:
		*to, err = time.ParseDuration(s)
	}
	if err != nil {
		return err
	}
	if n <= 0 {
		return errNotPositive
	}
	*a.to = n
	return nil
}

// String is empty for 0, so that the help shows no default.
func (a above[T]) String() string {
	if a.to == nil || *a.to == 0 {
		return ""
	}
	return fmt.Sprint(*a.to)
}

// Type is what the help calls the value, as for pflag's own.
func (a above[T]) Type() string {
	if _, is := any(a.to).(*int); is {
		return "int"
	}
	return "duration"
}
