package cli

import (
	"testing"
	"time"
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
		s, err := o.podSecret("shop", ref)
		if err != nil || s.Name+"/"+s.Key != want || s.Ref != ref {
			t.Errorf("%s: %+v, %v", ref, s, err)
		}
	}
	if s, err := (&entryOptions{}).podSecret("shop", "env:B"); err != nil || s.Name != "dibs-shop" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := (&entryOptions{targetOptions: targetOptions{podOptions: podOptions{podSecrets: []string{"env:A=x"}}}}).podSecret("shop", "env:B"); err == nil {
		t.Error("no key was asked for")
	}
}
