package dibstest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/dibstest"
	"github.com/dibs-run/dibs/task"
)

var mail = dibs.Define[string]("mail")

// program is what a program registers: a function that enqueues, and the handler of what it enqueues.
func program(c *dibs.Client, sent *[]string) error {
	return errors.Join(
		c.Cron("reports", "15 4 * * *", func(ctx context.Context, t dibs.Tick) error {
			_, err := c.Enqueue(ctx, mail.Spec("report of "+t.At.Format(time.DateOnly)))
			return err
		}),
		dibs.Handle(c, mail, func(_ context.Context, _ *dibs.Task, text string) error {
			*sent = append(*sent, text)
			return nil
		}))
}

// A tick by hand, and its task worked, in real time.
func TestATickByHand(t *testing.T) {
	var sent []string
	k := dibstest.New(t, dibs.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := program(k.Client, &sent); err != nil {
		t.Fatal(err)
	}
	if err := k.Tick("reports", time.Date(2028, 2, 29, 4, 15, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 0 || len(k.Tasks("mail")) != 1 {
		t.Errorf("before Work: sent %q, %d tasks", sent, len(k.Tasks("mail")))
	}
	k.Work()
	if len(sent) != 1 || sent[0] != "report of 2028-02-29" || k.Tasks("")[0].State != task.Succeeded {
		t.Errorf("sent %q, %+v", sent, k.Tasks(""))
	}
}

// More than a day of it in virtual time.
func TestADayInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		k := dibstest.New(t, dibs.Options{Logger: slog.New(slog.DiscardHandler)})
		if err := program(k.Client, &sent); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(29 * time.Hour)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(sent) != 2 || sent[0] != "report of 2000-01-01" {
			t.Errorf("sent %q", sent)
		}
	})
}
