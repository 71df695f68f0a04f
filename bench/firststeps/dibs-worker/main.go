package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/store/postgres"
)

type user struct{ Name string }

var welcome = dibs.Define[user]("welcome")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	c, err := dibs.New(st, dibs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	_ = dibs.Handle(c, welcome, send) // what is wrong with it, Run says
	if _, err := c.Enqueue(ctx, welcome.Spec(user{"Ann"})); err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func send(ctx context.Context, t *dibs.Task, u user) error {
	log.Printf("welcome, %s", u.Name)
	return nil
}
