package storetest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// RunSlowLink checks that a link which carries less within an RPC timeout than a worker has room for stops no queue,
// at a server that answers at url.
func RunSlowLink(t *testing.T, open Open, url string) {
	t.Helper()
	const tasks, size, perSecond = 100, 200_000, 4 << 20
	w := newWorld(t, open, url)
	for range tasks {
		w.add(sizedSpec(size))
	}
	c, err := store.Parse(slowly(t, url, perSecond))
	if err != nil {
		t.Fatal(err)
	}
	c.Namespace = w.config.Namespace
	far := w.opened(c)
	k, err := lease.NewKeeper(lease.Options{Store: far.Leases, Clock: clock.System})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	done := make(chan struct{}, tasks)
	mux := &queue.Mux{}
	mux.Handle("k", queue.Handler{Do: func(context.Context, *queue.Run) error { done <- struct{}{}; return nil }})
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: far.Queue, Keeper: k, Mux: mux, Queues: []string{"q"}, Slots: tasks,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.ctx)
	over := make(chan error, 1)
	go func() { over <- worker.Run(ctx) }()
	for n := range tasks {
		select {
		case <-done:
		case err := <-over:
			t.Fatalf("the worker ended: %v", err)
		case <-w.ctx.Done():
			t.Fatalf("%d of %d tasks have begun", n, tasks)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
	succeeded := 0
	for _, l := range must(w.s.Tasks.Queues(w.ctx)) {
		succeeded += l.Depth[task.Succeeded]
	}
	if succeeded == 0 {
		t.Error("no task has succeeded")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// slowly returns url by a link that carries so many bytes a second from the server, in all connections together.
func slowly(t *testing.T, address string, perSecond int) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	link := make(chan struct{}, 1) // whoever has it sends
	server := u.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				up, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer up.Close()
				go func() {
					_, _ = io.Copy(up, client)
					_ = up.(*net.TCPConn).CloseWrite()
				}()
				carry(client, up, link, perSecond)
			}()
		}
	}()
	u.Host = strings.Replace(l.Addr().String(), "[::]", "127.0.0.1", 1)
	return u.String()
}

// carry copies a piece at a time, and has the link for as long as the piece takes.
func carry(to io.Writer, from io.Reader, link chan struct{}, perSecond int) {
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			link <- struct{}{}
			time.Sleep(time.Duration(n) * time.Second / time.Duration(perSecond))
			<-link
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
