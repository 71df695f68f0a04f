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

// A quick script is one of lua/quick. It defines a function of its own name, which a server with functions (7.0
// and later) keeps ready in a library, and which is otherwise sent as a script. It does what is plain, and
// answers {0} if it has done nothing because something is not.
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
func (s *script) functionName() string {
	s.named.Do(func() { s.name = quickLibrary().name + "_" + s.function })
	return s.name
}

// A library is what FUNCTION LOAD takes. Its name, which begins the names of its functions, has a digest of its
// text: versions of dibs that differ in it share a server, each with a library of its own.
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

// functions is whether a server's functions are used: until one is refused that can be run as a script, as by a server
// before 7.0, or one whose user may not use them.
type functions struct{ off atomic.Bool }

// runQuick carries out a quick script in one round trip, as a function if that can be. A server that does not
// have the library is given it first: one that is new, was flushed, or is a replica of before it was loaded.
// Whatever error the function ends with, it has done nothing, and what the script ends with is the answer.
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

// passes says whether an error reply is one of a server's state, which says nothing of what it can do.
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
