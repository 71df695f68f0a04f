package testserver

import (
	"errors"
	"os"
	"sync"
)

// Share starts a server of each technology for the test processes of one run, and returns the settings by which they
// find them. It leaves out those that a setting names already, and those without binaries here. stop ends them; they
// die with this process too.
func Share() (env []string, stop func(), err error) {
	var (
		mu      sync.Mutex
		started []*Server
		errs    []error
		all     sync.WaitGroup
	)
	for _, s := range []*shared{&sharedRedis, &sharedPostgres, &sharedMariaDB} {
		if os.Getenv(s.env) != "" {
			continue
		}
		all.Go(func() {
			server, err := start(s.tech, s.args)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				started, env = append(started, server), append(env, s.env+"="+server.URL)
			case !errors.Is(err, errNoBinary):
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	return env, func() {
		for _, s := range started {
			s.close()
		}
	}, errors.Join(errs...)
}
