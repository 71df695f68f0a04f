package crontab

import (
	"os/user"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
)

// A line that does what the job does is taken over; one that differs in anything is not, and the plan says in what.
func TestAdoptPlain(t *testing.T) {
	root, err := user.Lookup("root")
	if err != nil {
		t.Skip(err)
	}
	e := deploy.Entry{ID: deploy.ID{App: "shop", Job: "mail"}, When: []string{"0 7 * * 1-5"}, Command: []string{"/usr/bin/dibs", "trigger", "shop/mail"},
		Plain: &deploy.Plain{When: []string{"0 7 * * 1-5"}, Zone: "UTC", Shell: "mail | sort > /x", Dir: root.HomeDir, User: "root",
			Env: map[string]string{"PATH": "/usr/bin:/bin"}}}
	const line = "0 7 * * MON-FRI root mail | sort > /x"
	for text, want := range map[string]string{
		line: "adopt",
		"PATH=/usr/bin:/bin\n# it sends mail\n" + line + "\n":                   "adopt",
		"0 7 * * 1-5 other true\n" + line:                                       "adopt",
		"PATH=/y\n" + line:                                                      "other values of PATH",
		"A=1\n" + line:                                                          "other values of A",
		"SHELL=/bin/bash\n" + line:                                              "nothing there provably does", // it is another command then
		strings.Replace(line, "7", "8", 1):                                      "at other times",
		strings.Replace(line, "root", "daemon", 1):                              "another user",
		strings.Replace(line, "mail", "mail2", 1):                               "nothing there provably does",
		"CRON_TZ=Asia/Tokyo\n" + line:                                           "CRON_TZ, which not every cron reads",
		"#" + line:                                                              "nothing there provably does",
		strings.Replace(line, "0 7 * * MON-FRI", "@reboot", 1):                  "nothing there provably does",
		strings.Replace(line, "0 7 * * MON-FRI", "0 7 * * MON,TUE,WED,FRI", 1):  "at other times",
		strings.Replace(line, "0 7 * * MON-FRI", "  0  7 * *\tMON-FRI", 1):      "adopt",
		strings.Replace(line, "mail | sort > /x", "mail | sort > /x%in", 1):     "nothing there provably does",
		strings.Replace(line, "mail | sort > /x", `mail | sort > /x # \%`, 1):   "nothing there provably does",
		strings.Replace(line, "0 7 * * MON-FRI", "0 7 1 * MON-FRI", 1):          "at other times",
		strings.Replace(line, "0 7 * * MON-FRI root", "0 7 * * MON-FRI", 1):     "nothing there provably does",
		strings.Replace(line, "0 7 * * MON-FRI", "0 7 * * MON-FRI,SAT-SUN", 1):  "nothing there provably does", // crons differ
		strings.Replace(line, "0 7 * * MON-FRI", "0 7 * * 1,2,3,4,5", 1):        "at other times",              // the same, and not seen to be
		strings.Replace(line, "0 7 * * MON-FRI", "0 7 * JAN-DEC MON-FRI", 1):    "at other times",
		strings.Replace(line, "0 7 * * MON-FRI", "0 7,7 * * MON-FRI", 1) + "\n": "at other times",
	} {
		f := fileAt(t, folder(t), "table")
		write(t, f.String(), text)
		p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{e}})
		got := string(p.Steps[0].Action) + " " + p.Steps[0].Reason
		if !strings.Contains(got, want) || p.Steps[0].Action != deploy.Adopted && read(t, f.String()) != text {
			t.Errorf("%q: %s; want %s", text, got, want)
		}
		if now := read(t, f.String()); p.Steps[0].Action == deploy.Adopted && strings.Contains(now, "mail | sort") {
			t.Errorf("%q became\n%s", text, now)
		}
	}
}
