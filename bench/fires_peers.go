package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
)

// secondly is an instant as an expression with seconds in front, for UTC.
func secondly(at time.Time) string {
	return fmt.Sprintf("%d %d %d %d %d *", at.Second(), at.Minute(), at.Hour(), at.Day(), at.Month())
}

func robfigStarter(_ context.Context, n int, at time.Time, begun func(int)) (func() (*tally, error), error) {
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	expr := secondly(at)
	for i := range n {
		if _, err := c.AddFunc(expr, func() { begun(i) }); err != nil {
			return nil, err
		}
	}
	c.Start()
	return func() (*tally, error) { <-c.Stop().Done(); return new(tally), nil }, nil
}

func gocronStarter(_ context.Context, n int, at time.Time, begun func(int)) (func() (*tally, error), error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, err
	}
	expr := secondly(at)
	for i := range n {
		if _, err := s.NewJob(gocron.CronJob(expr, true), gocron.NewTask(begun, i)); err != nil {
			return nil, err
		}
	}
	s.Start()
	return func() (*tally, error) { return new(tally), s.Shutdown() }, nil
}
