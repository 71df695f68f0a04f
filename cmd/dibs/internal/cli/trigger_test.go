package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/deploy"
)

// The name of a CronJob's Job has the time for which it was made; names that people give have none.
func TestKubernetesTime(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 40, 7, 0, time.UTC)
	for name, want := range map[string]string{
		"dibs-shop-mail-0-629311b9-29926839": "2026-11-25T12:39:00Z",
		"":                                   "", "mine": "", "mine-1": "", "dibs-shop-mail-0-629311b9": "",
		"dibs-shop-mail-0-62931109": "", // a hash that is a number, of a Job that somebody named
		"x-1795610340":              "", // seconds
		"x--29926839":               "2026-11-25T12:39:00Z",
		"x-99999999999999999999":    "",
		"dibs-shop-mail-0-29940000": "", // in nine days: the pod would wait until then
	} {
		at, ok := kubernetesTime(name, now)
		if ok != (want != "") || ok && at.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %q", name, at, ok, want)
		}
	}
}

// A reference to a secret is found where --pod-secret says, or under its usual key.
func TestPodSecrets(t *testing.T) {
	o := entryOptions{targetOptions: targetOptions{podOptions: podOptions{podSecrets: []string{"all", "store=db/address", "env:A=x/y", "file:/a=b/c=d/e"}}}}
	for ref, want := range map[string]string{"file:/run/dibs/store": "db/address", "env:A": "x/y", "file:/a=b/c": "d/e", "env:B": "all/B", "file:/run/api.key": "all/api.key"} {
		s, _, err := o.podSecret("shop", ref)
		if err != nil || s.Name+"/"+s.Key != want || s.Ref != ref {
			t.Errorf("%s: %+v, %v", ref, s, err)
		}
	}
	if s, _, err := (&entryOptions{}).podSecret("shop", "env:B"); err != nil || s.Name != "dibs-shop" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, _, err := (&entryOptions{targetOptions: targetOptions{podOptions: podOptions{podSecrets: []string{"env:A=x"}}}}).podSecret("shop", "env:B"); err == nil {
		t.Error("no key was asked for")
	}
}

// Two secrets are never one by accident: of two jobs, or the store's address as a variable.
func TestPodSecretsThatClash(t *testing.T) {
	for _, c := range []struct {
		flags, refs []string
		says        string
	}{
		{nil, []string{"file:/run/dibs/store", "env:A", "env:A"}, ""},
		{nil, []string{"file:/run/dibs/store", "env:store"}, "file:/run/dibs/store and env:store would both be store of the Secret dibs-shop"},
		{nil, []string{"file:/a/key", "file:/b/key"}, "--pod-secret file:/b/key=dibs-shop/KEY"},
		{[]string{"file:/b/key=other/key"}, []string{"file:/a/key", "file:/b/key"}, ""},
		{[]string{"file:/b/key=dibs-shop/key"}, []string{"file:/a/key", "file:/b/key"}, "would both be"},
		{[]string{"file:/b/key=x/y", "file:/a/key=x/y"}, []string{"file:/a/key", "file:/b/key"}, ""},
	} {
		o := entryOptions{targetOptions: targetOptions{podOptions: podOptions{podSecrets: c.flags}}}
		var entries []deploy.Entry
		for _, ref := range c.refs {
			s, _, err := o.podSecret("shop", ref)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, deploy.Entry{ID: deploy.ID{App: "shop"}, Container: &deploy.Container{Secrets: []deploy.Secret{s}}})
		}
		if err := o.clash(entries); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q of %q: %v", c.flags, c.refs, err)
		}
	}
}
