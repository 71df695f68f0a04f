//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// smoke is how long the faults go on unless DIBS_TEST_CHAOS says otherwise: enough to see that the guard itself lives.
const smoke = 4 * time.Second

// Hosts, stores, networks, clocks and disks fail, and still nothing overlaps, every tick has one true outcome, no
// worker goes in silence, and once the faults are over everything runs again without a command.
// Holds: promises 1, 10.
func TestChaos(t *testing.T) {
	length := smoke
	if told := os.Getenv("DIBS_TEST_CHAOS"); told != "" {
		var err error
		if length, err = time.ParseDuration(told); err != nil {
			t.Fatalf("DIBS_TEST_CHAOS: %v", err)
		}
	}
	for _, c := range []struct {
		name string
		tech technology // nil: the directory, which has no server
	}{{"redis", redis{}}, {"postgres", postgres{}}, {"mariadb", mariadb{}}, {"directory", nil}} {
		t.Run(c.name, func(t *testing.T) {
			if length == smoke && c.name != "redis" {
				t.Skip("set DIBS_TEST_CHAOS=30m for the rounds on every store")
			}
			require(t, notIsolated, "chaos")
			if c.tech == nil {
				require(t, missing("nsenter"), "chaos on the directory")
				newRound(t, c.name, length).onDirectory()
				return
			}
			require(t, missing(c.tech.binaries()...), "chaos on "+c.name)
			newRound(t, c.name, length).onCluster(c.tech)
		})
	}
}

// require skips a round that this machine cannot have, and says so.
func require(t *testing.T, why error, what string) {
	t.Helper()
	if why != nil {
		notCovered(t, why, what)
		t.SkipNow()
	}
}

// A round is one fleet's life.
type round struct {
	t      *testing.T
	name   string
	dir    string // the evidence; kept if the round fails
	seed   uint64
	rnd    *rand.Rand
	length time.Duration

	ttl  time.Duration
	pace time.Duration // the longest time between the beginnings of two faults
	long time.Duration // how long a fault lasts, or twice that

	cluster *cluster
	hosts   []*host
	kinds   []kind
	seen    *observer
	store   string // the address by which the test asks
	only    *host  // whose own directory the store is; else nil

	faults []*fault
	steps  []clockStep
	lost   []lostSpan

	history  map[string][]entry
	tasks    map[int64]string
	counts   map[string]int
	problems []string
	longest  time.Duration // until something ran again
	slowest  string

	overlapped time.Duration // the longest overlap that L12 allows
}

// isSmoke says that the round is a part of every test run: it takes no longer than it must, and is not to fail for
// a slow machine. So it goes without the works of long periods, and every wait is generous.
func (r *round) isSmoke() bool { return r.length == smoke }

func newRound(t *testing.T, name string, length time.Duration) *round {
	r := &round{t: t, name: name, length: length, seed: 1, ttl: 15 * time.Second, pace: 6 * time.Second, long: 14 * time.Second, counts: map[string]int{}}
	if r.isSmoke() {
		r.pace, r.long = 2*time.Second, 2*time.Second // the TTL stays: the margins of a short one are too small for a slow machine
	}
	if told := os.Getenv("DIBS_TEST_SEED"); told != "" {
		n, err := strconv.ParseUint(told, 10, 64)
		if err != nil {
			t.Fatalf("DIBS_TEST_SEED: %v", err)
		}
		r.seed = n
	} else if length != smoke {
		r.seed = rand.Uint64N(1e6)
	}
	r.rnd = rand.New(rand.NewPCG(r.seed, 10))
	var err error
	if r.dir, err = os.MkdirTemp(os.Getenv("DIBS_TEST_CHAOS_KEEP"), "dibs-chaos-"+name+"-"); err == nil {
		err = os.Chmod(r.dir, 0o755) // the servers' accounts pass through it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, h := range r.hosts {
			h.kill()
		}
		if r.cluster != nil {
			r.cluster.kill()
		}
		if t.Failed() {
			t.Logf("the evidence is in %s: story.log, and the logs of each host and store", r.dir)
		} else {
			_ = os.RemoveAll(r.dir) // what is left of it is small, and named after us
		}
	})
	return r
}

// onCluster is a round of three hosts on a store with a replica.
func (r *round) onCluster(tech technology) {
	var err error
	r.cluster, err = newCluster(r.dir, tech, r.say)
	r.must(err)
	notCovered(r.t, r.cluster.noClock, "chaos: steps of the store's clock")
	r.store = r.address(r.cluster.nodes[0].address())
	_, err = r.dibs("init")
	r.must(err)
	r.cluster.replicate()
	for n := 1; n <= 3; n++ {
		inner, outer := addresses(n)
		spec := hostSpec{Name: fmt.Sprintf("h%d", n), Address: inner, Peer: outer, DiskBytes: 16 << 20}
		if n == 3 {
			spec.Env = []string{groupsOff}
		}
		r.startHost(n, spec, r.cluster.nodes[0].address(), r.address(outer+":6000"), 1)
	}
	r.kinds = append(append(append(processKinds(), wireKinds()...), localKinds()...), storeKinds(r.cluster)...)
	if r.isSmoke() {
		r.kinds = append(processKinds(), wireKinds()...)
	}
	r.live()
}

// onDirectory is a round of one host on a directory: three servers and workers, no network, and the machine's
// own clock. While a process that reads is stopped, the log of the database grows by all that is written. The
// disk has room for that: one that dibs alone has filled needs somebody who makes room (docs/reference/stores.md).
func (r *round) onDirectory() {
	inner, outer := addresses(1)
	spec := hostSpec{Name: "h1", Address: inner, Peer: outer, DiskBytes: 96 << 20}
	r.store = filepath.Join(r.dir, spec.Name, "dibs", "shared") + "?reach=only-host"
	r.startHost(1, spec, "", r.store, 3)
	r.only = r.hosts[0]
	r.kinds = append(processKinds(), localKinds()...)
	r.live()
}

// address is the store's, as everybody names it.
func (r *round) address(at string) string {
	base := r.cluster.url(at)
	separator := "?"
	if strings.Contains(base, "?") {
		separator = "&"
	}
	return base + separator + "namespace=chaos&reach=fleet&ttl=" + r.ttl.String()
}

func (r *round) startHost(n int, spec hostSpec, target, store string, copies int) {
	dir := filepath.Join(r.dir, spec.Name)
	spec.Env = append(spec.Env, "DIBS_DIR="+filepath.Join(dir, "dibs"))
	spec.Services = append(spec.Services, services(dir, store, copies, r.callers())...)
	r.must(os.MkdirAll(dir, 0o755))
	r.must(manifest(filepath.Join(dir, "jobs.json"), filepath.Join(dir, "works"), r.jobs()))
	h, err := startHost(r.dir, n, target, spec)
	if h != nil {
		r.hosts = append(r.hosts, h)
	}
	r.must(err)
}

// keepWanted keeps the kinds of fault that DIBS_TEST_CHAOS_FAULTS wants, to look for a cause.
func (r *round) keepWanted() {
	wanted, err := regexp.Compile(os.Getenv("DIBS_TEST_CHAOS_FAULTS"))
	r.must(err)
	r.kinds = slices.DeleteFunc(r.kinds, func(k kind) bool { return !wanted.MatchString(k.name) })
	if len(r.kinds) == 0 {
		r.t.Fatal("DIBS_TEST_CHAOS_FAULTS leaves no fault")
	}
}

// live is the round itself.
func (r *round) live() {
	r.keepWanted()
	if os.Getenv(groupEnv) == "" {
		notCovered(r.t, errors.New("none of version 2 can be made here"), "chaos: runs in control groups")
	}
	r.t.Logf("seed %d, ttl %s, faults for %s", r.seed, r.ttl, r.length)
	r.seen = newObserver(r.hosts)
	if r.expectRuns(0, "at the start"); len(r.problems) > 0 {
		r.t.Fatalf("the fleet does not begin: %s", strings.Join(r.problems, "\n"))
	}
	r.longest = 0
	from := time.Now()
	r.must(r.harm(r.length))
	to := time.Now()
	r.expectRuns(bootTime(), "after the last fault was healed")
	r.quiesce(from, to)
	r.account(from, to)
	r.report()
}

func (r *round) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("the guard itself: %v", err)
	}
}
