// Package testserver gives tests the servers that stores talk to.
//
// Redis, Postgres and MariaDB return the URL of a server that many tests share: the one that
// DIBS_TEST_REDIS, DIBS_TEST_POSTGRES or DIBS_TEST_MARIADB names, else the machine's own at its
// usual address, else one started from the machine's binaries for the life of the test process.
// Tests keep to a namespace of their own there, and never stop or reconfigure it.
//
// StartRedis, StartPostgres and StartMariaDB start a server that belongs to one test, which may
// stop, continue, kill and restart it.
//
// Whoever asks for either begins when there is room for it: see package room.
//
// Where neither a server nor its binaries exist the test is skipped, and the technology's name is
// appended to the file that DIBS_TEST_UNCOVERED names, so that a green run cannot hide it. With
// DIBS_TEST_REQUIRE=all it fails instead, but for pgbouncer, which is listed all the same.
package testserver

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/internal/test/testsize"
)

// Redis returns the URL of a Redis to share.
func Redis(t testing.TB) string { return sharedRedis.url(t) }

// Postgres returns the URL of a PostgreSQL database to share.
func Postgres(t testing.TB) string { return sharedPostgres.url(t) }

// MariaDB returns the URL of a MariaDB (or MySQL) database to share.
func MariaDB(t testing.TB) string { return sharedMariaDB.url(t) }

var (
	sharedRedis = shared{tech: redisTech, env: "DIBS_TEST_REDIS", usual: "redis://127.0.0.1:6379/0",
		args: []string{"--appendonly", "no"}} // nobody restarts it
	sharedPostgres = shared{tech: postgresTech, env: "DIBS_TEST_POSTGRES", usual: "postgres://postgres@127.0.0.1:5432/test?sslmode=disable",
		args: []string{"-c", "shared_buffers=256MB", "-c", "max_connections=400"}}
	sharedMariaDB = shared{tech: mariadbTech, env: "DIBS_TEST_MARIADB", usual: "mysql://root@127.0.0.1:3306/test",
		args: []string{"--innodb-buffer-pool-size=256M", "--max-connections=600"}}
)

// shared is a server that all tests of this process use. It is looked for once.
type shared struct {
	tech  technology
	env   string
	usual string
	args  []string // beside the technology's own, where we start it

	once  sync.Once
	found string
	err   error
}

func (s *shared) url(t testing.TB) string {
	t.Helper()
	s.once.Do(func() { s.found, s.err = s.find() })
	if s.err != nil {
		giveUp(t, s.tech, s.err)
	}
	room.For(t)
	return s.found
}

func (s *shared) find() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if u := os.Getenv(s.env); u != "" {
		if err := s.tech.ping(ctx, u); err != nil {
			return "", fmt.Errorf("the server that %s names does not answer: %w", s.env, err)
		}
		return u, nil
	}
	if s.tech.ping(ctx, s.usual) == nil {
		return s.usual, nil
	}
	srv, err := start(s.tech, s.args)
	if err != nil {
		return "", err
	}
	return srv.URL, nil
}

// StartRedis starts a Redis of the test's own, which writes every command to disk before it
// answers, so that a restart keeps all data. Extra arguments go to redis-server and win over ours.
func StartRedis(t testing.TB, args ...string) *Server { return own(t, redisTech, args) }

// StartPostgres starts a PostgreSQL of the test's own. Extra arguments go to postgres.
func StartPostgres(t testing.TB, args ...string) *Server { return own(t, postgresTech, args) }

// StartMariaDB starts a MariaDB of the test's own. Extra arguments go to mariadbd.
func StartMariaDB(t testing.TB, args ...string) *Server { return own(t, mariadbTech, args) }

func own(t testing.TB, tech technology, args []string) *Server {
	t.Helper()
	testsize.Outside(t)
	room.For(t)
	s, err := start(tech, args)
	if err != nil {
		giveUp(t, tech, err)
	}
	s.t = t
	t.Cleanup(s.close)
	return s
}
