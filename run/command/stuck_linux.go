package command

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
)

// looked is what the last look at all processes found. Many runs may begin at once, and SIGKILL comes long before a
// lease expires, so that they can share it for a moment.
var looked struct {
	sync.Mutex
	at  time.Time
	all []proc.Stat
	bad []proc.Stat // guards that have killed in vain
}

// stuck lists processes of earlier runs of key, as far as this user's guards still guard them, that SIGKILL has not
// ended.
func stuck(key lease.Key, run string) (pids []int) {
	looked.Lock()
	defer looked.Unlock()
	if time.Since(looked.at) > stuckPause {
		looked.all, _ = proc.All()
		looked.bad = slices.DeleteFunc(slices.Clone(looked.all), func(s proc.Stat) bool { return s.Comm != guardian.Stuck || !s.Alive() })
		looked.at = time.Now()
	}
	own := bound(key, run)
	guards := slices.DeleteFunc(slices.Clone(looked.bad), func(s proc.Stat) bool { return !guardsEarlier(s, own, own[len(run):]) })
	isGuard := func(s proc.Stat) bool {
		return slices.ContainsFunc(guards, func(g proc.Stat) bool { return g.PID == s.PID })
	}
	for _, s := range proc.Below(looked.all, isGuard) {
		if s.Comm != guardian.Stuck && s.Comm != guardian.Name {
			pids = append(pids, s.PID)
		}
	}
	return pids
}

// guardsEarlier reports whether a process that calls itself a guard is this user's, and of another run than own of the
// same key: the words of both end alike.
func guardsEarlier(s proc.Stat, own, ofKey string) bool {
	env, err := proc.Environ(s.PID)
	if err != nil || ownerOf(s.PID) != os.Geteuid() {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if words, ok := bytes.CutPrefix(v, []byte(EnvRunProofs+"=")); ok {
			return slices.ContainsFunc(bytes.Split(words, []byte(":")), func(w []byte) bool {
				return string(w) != own && bytes.HasSuffix(w, []byte(ofKey))
			})
		}
	}
	return false
}
