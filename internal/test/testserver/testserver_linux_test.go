package testserver

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestSharedServersAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		get  func(testing.TB) string
		tech technology
	}{{"redis", Redis, redisTech}, {"postgres", Postgres, postgresTech}, {"mariadb", MariaDB, mariadbTech}} {
		t.Run(c.name, func(t *testing.T) {
			url := c.get(t)
			if again := c.get(t); again != url {
				t.Errorf("two callers get %s and %s", url, again)
			}
			if err := c.tech.ping(t.Context(), url); err != nil {
				t.Errorf("%s does not answer: %v", url, err)
			}
		})
	}
}

func TestOwnServersStopContinueDieAndRestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		start func(testing.TB, ...string) *Server
	}{{"redis", StartRedis}, {"postgres", StartPostgres}, {"mariadb", StartMariaDB}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var dir string
			t.Run("server", func(t *testing.T) {
				s := c.start(t)
				dir = s.dir
				answers(t, s, true)
				s.Stop()
				for _, pid := range family(s.cmd.cmd.Process.Pid) {
					// A backend that had just ended stays a zombie until its stopped parent goes on.
					if st := state(pid); st != 'T' && st != 'Z' {
						t.Errorf("process %d is in state %c after Stop", pid, st)
					}
				}
				answers(t, s, false)
				s.Cont()
				answers(t, s, true)
				url := s.URL
				s.Restart()
				answers(t, s, true)
				if s.URL != url {
					t.Errorf("moved from %s to %s", url, s.URL)
				}
				pids := family(s.cmd.cmd.Process.Pid)
				s.Stop() // killing must work on a stopped one as well
				s.Kill()
				answers(t, s, false)
				for _, pid := range pids {
					if st := state(pid); !strings.ContainsRune("XZ", st) {
						t.Errorf("process %d is in state %c after Kill", pid, st)
					}
				}
				s.Restart()
				answers(t, s, true)
			})
			if _, err := os.Stat(dir); dir != "" && !os.IsNotExist(err) {
				t.Errorf("%s is left behind: %v", dir, err)
			}
		})
	}
}

func answers(t *testing.T, s *Server, want bool) {
	t.Helper()
	patience := 700 * time.Millisecond
	if want {
		patience = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.tech.ping(ctx, s.URL); (err == nil) != want {
		t.Fatalf("answers: %v, want %v (%v)", err == nil, want, err)
	}
}

func TestASharedServerIsStartedWhereNoneAnswers(t *testing.T) {
	s := shared{tech: redisTech, env: "DIBS_TEST_NOWHERE", usual: redisTech.url(1)}
	url := s.url(t)
	if err := redisTech.ping(t.Context(), url); err != nil || url == s.usual {
		t.Errorf("%s: %v", url, err)
	}
}

// verdict is a testing.TB that only notes how a test was ended.
type verdict struct {
	testing.TB
	how string
}

func (*verdict) Helper()                 {}
func (v *verdict) Fatalf(string, ...any) { v.how = "failed"; runtime.Goexit() }
func (v *verdict) Skipf(string, ...any)  { v.how = "skipped"; runtime.Goexit() }

func judge(tech technology, usual string) string {
	v := &verdict{how: "went on"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := shared{tech: tech, env: "DIBS_TEST_NOWHERE", usual: usual}
		s.url(v)
	}()
	<-done
	return v.how
}

func TestAMissingTechnologyIsSkippedAloudOrRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "uncovered")
	t.Setenv("DIBS_TEST_UNCOVERED", file)
	t.Setenv("DIBS_TEST_REQUIRE", "")
	nowhere := technology{name: "nowhere", binaries: []string{"dibs-no-such-server"}, ping: pingRedis}
	unused := "redis://127.0.0.1:1/0"
	for range 2 {
		if how := judge(nowhere, unused); how != "skipped" {
			t.Errorf("without binaries the test %s", how)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "nowhere\nnowhere\n" {
		t.Errorf("recorded %q, %v", b, err)
	}
	t.Setenv("DIBS_TEST_REQUIRE", "all")
	if how := judge(nowhere, unused); how != "failed" {
		t.Errorf("with DIBS_TEST_REQUIRE=all the test %s", how)
	}
	t.Setenv("DIBS_TEST_REQUIRE", "")
	t.Setenv("DIBS_TEST_NOWHERE", unused)
	if how := judge(redisTech, ""); how != "failed" {
		t.Errorf("with a named server that does not answer the test %s", how)
	}
}
