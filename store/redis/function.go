package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// A quick script is one of lua/quick. It defines a function of its own name. A server with functions (7.0 and later)
// keeps it ready in a library; otherwise it is sent as a script. It handles the plain cases, and answers {0} and does
// nothing if a case is not plain.
func quick(name string, full bool) *script {
	s := load("quick/" + name)
	s.function, s.fullServer = name, full
	return s
}

// The functions of the library.
var (
	quickAcquire = quick("acquire", false)
	quickRelease = quick("release", true)
)

// functionName is how the library's function is called.
func (s *script) functionName() *string {
	s.named.Do(func() { s.name = quickLibrary().name + "_" + s.function })
	return &s.name
}

// A library is the argument of FUNCTION LOAD. Its name has a digest of its text, and the names of its functions begin
// with it. So versions of dibs with different libraries share a server, each with its own.
type library struct{ name, source string }

// quickLibrary puts the library together, when it is first used.
var quickLibrary = sync.OnceValue(func() library {
	var texts, registered strings.Builder
	for _, s := range []*script{quickAcquire, quickRelease} {
		texts.WriteString(s.read())
		flags := ""
		if s.fullServer {
			flags = "'allow-oom'"
		}
		fmt.Fprintf(&registered, "redis.register_function{function_name = 'NAME_%s', callback = %s, flags = {%s}}\n", s.function, s.function, flags)
	}
	source := "local in_script = false\n" + lean(texts.String()+registered.String())
	sum := sha1.Sum([]byte(source))
	name := "dibs_" + hex.EncodeToString(sum[:8])
	return library{name, "#!lua name=" + name + "\n" + strings.ReplaceAll(source, "'NAME_", "'"+name+"_")}
})

// functions says whether a server's functions are used. They are not once a call was refused that works as a script:
// the server is older than 7.0, or its user may not use functions.
type functions struct{ off atomic.Bool }

// runQuick carries out a quick script in one round trip, as a function if possible. A server without the library is
// given it first: it is new, was flushed, or is a replica from before it was loaded. If the function ends with an
// error, it has done nothing, and the script's answer counts.
func (d *db) runQuick(ctx context.Context, what string, s *script, a args) (reply, error) {
	if d.functions.off.Load() {
		return d.run(ctx, what, s, a)
	}
	a[0], a[1] = "fcall", s.functionName()
	cmd := d.process(ctx, a)
	err := cmd.Err()
	if err == nil {
		return d.answer(what, cmd)
	}
	if goredis.HasErrorPrefix(err, "Function not found") {
		if err = d.loadLibrary(ctx); err == nil {
			cmd = d.process(ctx, a)
			err = cmd.Err()
		}
	}
	var refused goredis.Error
	if !errors.As(err, &refused) { // it was answered, or by nobody
		return d.answer(what, cmd)
	}
	r, scriptErr := d.run(ctx, what, s, a)
	if scriptErr == nil && !passes(err) {
		d.functions.off.Store(true)
	}
	return r, scriptErr
}

// passes says whether an error reply is about a server's state, and so tells nothing about what the server can do.
func passes(err error) bool {
	_, known := refusal(err.Error())
	return known && !goredis.HasErrorPrefix(err, "NOPERM")
}

// loadLibrary gives the library to the server that has the namespace. Another client may have done so meanwhile.
func (d *db) loadLibrary(ctx context.Context) error {
	var client goredis.UniversalClient = d.client
	if c, ok := client.(*goredis.ClusterClient); ok {
		node, err := c.MasterForKey(ctx, d.prefix)
		if err != nil {
			return err
		}
		client = node
	}
	cmd := once{goredis.NewCmd(ctx, "function", "load", quickLibrary().source)}
	_ = client.Process(ctx, cmd)
	if err := cmd.Err(); err != nil && !strings.Contains(err.Error(), "already exists") {
		return err
	}
	return nil
}
