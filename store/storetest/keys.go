package storetest

import (
	"slices"
	"strings"

	"github.com/dibs-run/dibs/lease"
)

var keyPromises = []promise{
	{"keys are compared byte by byte", distinctKeys},
	{"a prefix is taken literally", literalPrefix},
	{"the list is sorted and shows free records only on request", sortedList},
	{"namespaces do not see each other", namespacesApart},
}

// unlike are keys that some collation, trimming, escaping or path would take for one another.
var unlike = []lease.Key{
	"k", "K", "k ", "k  ", " k", "k.", "ß", "ss", "SS", "é", "e\u0301", "É", "ı", "i", "I", "İ",
	"ﬁ", "fi", "Å", "\u212b", "\u200bk", "\u00a0k", "日本語", "🐘", "🐘\u200d", "'", "''", "\"", "`", "\\", "\\\\", "\\n",
	"%", "_", "*", "?", "[k]", "[", "{k}", "}{", "a/b", "a:b", "a//b", "../k", ".", "..", "/", "NULL", "null", "0", "00", "-- k", "k;",
	lease.Key(strings.Repeat("x", lease.MaxKey)), lease.Key(strings.Repeat("x", lease.MaxKey-1) + "y"),
	lease.Key(strings.Repeat("🐘", lease.MaxKey/4)), lease.Key(strings.Repeat(" ", lease.MaxKey)),
}

func distinctKeys(w *world) {
	keys := slices.Clone(unlike)
	for _, k := range unlike {
		if _, err := lease.ParseKey(string(k)); err != nil {
			w.Fatal(err) // the suite's own mistake
		}
		keys = append(keys, k.Next()) // dibs's own keys are longer than any person's
	}
	keys = append(keys, lease.OnceKey())
	var reqs []lease.AcquireRequest
	for _, k := range keys {
		reqs = append(reqs, request(k))
	}
	r, err := w.s.Leases.Acquire(w.ctx, reqs)
	w.check("Acquire", err)
	for i, a := range r.Answers {
		if a.Status != lease.OK || a.Record.Key != keys[i] || a.Record.Owner != reqs[i].Holder.ID {
			w.Errorf("Acquire(%q): %v of %q by %v", keys[i], a.Status, a.Record.Key, a.Record.Owner)
		}
	}
	r, err = w.process().Leases.Read(w.ctx, keys)
	w.check("Read", err)
	for i, a := range r.Answers {
		if a.Record.Key != keys[i] || a.Record.Owner != reqs[i].Holder.ID {
			w.Errorf("Read(%q): %q of %v", keys[i], a.Record.Key, a.Record.Owner)
		}
	}
	slices.Sort(keys)
	if got := w.list(w.s, "", false); !slices.Equal(got, keys) {
		w.Errorf("List:\n%q, want\n%q", got, keys)
	}
}

func literalPrefix(w *world) {
	odd := []string{"a%", "a_", "a*", "a?", "a[", "a\\", "a'", "ab", "A", "a", "é", "a\\%"}
	for _, p := range odd {
		w.hold(w.s, lease.Key(p+"-1"))
		w.hold(w.s, lease.Key(p+"-2"))
	}
	for _, p := range odd {
		var want []lease.Key
		for _, q := range odd {
			for _, k := range []string{q + "-1", q + "-2"} {
				if strings.HasPrefix(k, p) {
					want = append(want, lease.Key(k))
				}
			}
		}
		slices.Sort(want)
		if got := w.list(w.s, p, false); !slices.Equal(got, want) {
			w.Errorf("List(%q): %q, want %q", p, got, want)
		}
	}
	equal(w, "keys with an unknown prefix", len(w.list(w.s, "zzz", true)), 0)
}

func sortedList(w *world) {
	want := []lease.Key{"B", "Z", "a", "b", "b\x1fnext", "ba", "é", "日"}
	for _, i := range []int{3, 0, 7, 5, 2, 6, 1, 4} {
		w.hold(w.s, want[i])
	}
	if got := w.list(w.s, "", false); !slices.Equal(got, want) {
		w.Errorf("List: %q, want %q", got, want)
	}
	w.release(w.s, w.read(w.s, "a").Record.Ref())
	w.lapse(w.s, w.read(w.s, "b").Record.Ref())
	live := []lease.Key{"B", "Z", "b\x1fnext", "ba", "é", "日"}
	if got := w.list(w.s, "", false); !slices.Equal(got, live) {
		w.Errorf("List of live ones: %q, want %q", got, live)
	}
	if got := w.list(w.s, "", true); !slices.Equal(got, want) {
		w.Errorf("List of all: %q, want %q", got, want)
	}
}

func namespacesApart(w *world) {
	beside := *w
	beside.config.Namespace += "x" // one name begins with the other
	other := beside.prepare()
	mine := w.hold(w.s, "k")
	equal(w, "Read in the other namespace", w.read(other, "k").Status, lease.Gone)
	theirs := w.hold(other, "k")
	equal(w, "Renew in the wrong namespace", w.renew(other, mine.Ref()).Status, lease.Gone)
	equal(w, "Release in the wrong namespace", w.release(w.s, theirs.Ref()), lease.Gone)
	w.hold(other, "other")
	equal(w, "keys here", len(w.list(w.s, "", true)), 1)
	equal(w, "keys there", len(w.list(other, "", true)), 2)
}
