package crontab

import (
	"context"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
)

// A line that does the same, spelled in another way, gets the mark; the lines round it stay. Ejected, it is plain
// again.
func TestAdopt(t *testing.T) {
	f := fileAt(t, folder(t), "table")
	e := deploy.Entry{ID: deploy.ID{App: "shop", Job: "mail"}, When: []string{"0 7 * * MON"}, User: "www",
		Command: []string{"/usr/bin/dibs", "trigger", "shop/mail"}, Env: map[string]string{"PATH": "/x:/y", "A": "b c"}}
	write(t, f.String(), "PATH=/x:/y\r\n# above\n0  7\t* * mon www A='b c'  /usr/bin/dibs trigger \"shop/mail\"\n# below")
	p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{e}})
	if got := actions(p); got != "adopt shop/mail#0" || p.Steps[0].Reason != "line 3" {
		t.Errorf("%s: %s", got, p.Steps[0].Reason)
	}
	text := read(t, f.String())
	if !strings.HasPrefix(text, "PATH=/x:/y\r\n# above\n# dibs:entry shop/mail#0 ") || !strings.HasSuffix(text, "# dibs:end shop/mail#0\n# below") {
		t.Error(text)
	}
	if !apply(t, f, install(e)).Clean() {
		t.Error("what was adopted is not what install wants")
	}
	apply(t, f, deploy.Eject{App: "shop", Jobs: []string{"other"}})
	if read(t, f.String()) != text {
		t.Error("another job's entry was ejected")
	}
	apply(t, f, deploy.Eject{App: "shop", Jobs: []string{"mail"}})
	if got := read(t, f.String()); got != "PATH=/x:/y\r\n# above\n0 7 * * MON www /usr/bin/env A='b c' PATH=/x:/y /usr/bin/dibs trigger shop/mail\n# below" {
		t.Error(got)
	}
}

// What differs in anything, or cannot be read with certainty, is not adopted, and the plan says what is near.
func TestAdoptProves(t *testing.T) {
	e := deploy.Entry{ID: deploy.ID{App: "shop", Job: "mail"}, When: []string{"0 7 * * *"},
		Command: []string{"/usr/bin/dibs", "trigger", "shop/mail"}, Env: map[string]string{"PATH": "/x"}}
	const line = "0 7 * * * root /usr/bin/dibs trigger shop/mail\n"
	for text, near := range map[string]string{
		line:               "another value of the variable PATH",
		"PATH=/y\n" + line: "another value of the variable PATH",
		"PATH=/x\n" + strings.Replace(line, "7", "8", 1):                  "another schedule",
		"PATH=/x\n" + strings.Replace(line, "root", "www", 1):             "another user",
		"PATH=/x\n" + strings.Replace(line, "mail", "mail >/dev/null", 1): "",
		"PATH=/x\n" + strings.Replace(line, "mail", "mail%input", 1):      "",
		"PATH=/x\n" + strings.Replace(line, "shop/mail", "$X", 1):         "",
		"PATH=/x\nSHELL=/usr/bin/fish\n" + line:                           "",
		"PATH=/x\n#" + line:                                               "",
	} {
		f := fileAt(t, folder(t), "table")
		write(t, f.String(), text)
		p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{e}})
		if actions(p) != "unmatched shop/mail#0" || !strings.Contains(p.Steps[0].Reason, near) || read(t, f.String()) != text {
			t.Errorf("%q: %s: %s", text, actions(p), p.Steps[0].Reason)
		}
	}
}

// An entry of several lines is there only if all of them are.
func TestAdoptSeveralLines(t *testing.T) {
	e := wanted("mail", "0 7 * * *", "30 8 * * *")
	f := fileAt(t, folder(t), "table")
	apply(t, f, install(e))
	apply(t, f, deploy.Eject{App: "shop"})
	lines := splitLines(read(t, f.String()))
	write(t, f.String(), lines[0]+"# between\n")
	if p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{e}}); actions(p) != "unmatched shop/mail#0" || !strings.Contains(p.Steps[0].Reason, "1 of its 2 lines") {
		t.Error(actions(p), p.Steps[0].Reason)
	}
	write(t, f.String(), lines[1]+"# between\n"+lines[0])
	if p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{e}}); actions(p) != "adopt shop/mail#0" || !strings.HasSuffix(read(t, f.String()), "# between\n") {
		t.Error(actions(p), read(t, f.String()))
	}
}

// Entries that cronix marked are taken over with their marks; the plan says when they fired. One whose mark is not
// below its entry stays.
func TestAdoptCronix(t *testing.T) {
	f := fileAt(t, folder(t), "table")
	const text = "# top\n*/5 * * * * cronix trigger shop.mail\n# cronix:owned app=shop job=mail hash=0011 idx=0\n" +
		"0 7 * * * /usr/local/bin/cronix trigger shop.rates --spec-dir /x\n# cronix:owned app=shop job=rates hash=0011 idx=0\n" +
		"# 1 1 * * * cronix trigger shop.off\n# cronix:owned app=shop job=off hash=0011 idx=0\n" +
		"0 7 * * * cronix trigger shop.rates-eu\n# cronix:owned app=shop job=rates-eu hash=0011 idx=0\n" +
		"1 1 * * * cronix trigger shop.odd-eu\n# cronix:owned app=shop job=odd hash=0011 idx=0\n"
	write(t, f.String(), text)
	p := apply(t, f, deploy.Adopt{Entries: []deploy.Entry{wanted("mail", "*/10 * * * *"), wanted("rates", "0 7 * * *"), wanted("off", "1 1 * * *"), wanted("odd", "1 1 * * *")}})
	if got := actions(p); got != "adopt shop/mail#0, unmatched shop/odd#0, unmatched shop/off#0, adopt shop/rates#0" {
		t.Error(got)
	}
	if got := p.Steps[0].Reason; !strings.Contains(got, "fired at */5 * * * *, and now fires at */10 * * * *") {
		t.Error(got)
	}
	got := read(t, f.String())
	if strings.Count(got, "cronix trigger") != 3 || !strings.Contains(got, "idx=0\n0 7 * * * cronix trigger shop.rates-eu\n") || !strings.HasPrefix(got, "# top\n# dibs:entry shop/mail#0") {
		t.Error(got)
	}
	if !strings.Contains(p.Diff, "-# cronix:owned app=shop job=mail") {
		t.Error(p.Diff)
	}
}

// One line cannot become two entries.
func TestAdoptOnce(t *testing.T) {
	f := fileAt(t, folder(t), "table")
	a, b := wanted("mail", "0 7 * * *"), wanted("mail", "0 7 * * *")
	b.Index = 1
	apply(t, f, install(a))
	apply(t, f, deploy.Eject{App: "shop"})
	text := read(t, f.String())
	if _, err := deploy.Apply(context.Background(), f, deploy.Adopt{Entries: []deploy.Entry{a, b}}, ""); err == nil || !strings.Contains(err.Error(), "adopt one of them") || read(t, f.String()) != text {
		t.Error(err)
	}
}
