//go:build linux

package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

type postgres struct{}

func (postgres) binaries() []string { return []string{"postgres", "initdb", "pg_basebackup"} }
func (postgres) account() string    { return "postgres" }
func (postgres) url(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

func (postgres) install(n *node) error {
	if err := n.run("initdb", "-D", n.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(n.data, "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host replication all 127.0.0.1/32 trust\n")
	return errors.Join(err, f.Close())
}

func (postgres) args(n *node) []string {
	args := []string{"postgres", "-D", n.data, "-p", strconv.Itoa(n.port), "-h", "127.0.0.1"}
	for _, setting := range []string{"unix_socket_directories=", "max_connections=200", "shared_buffers=32MB", "dynamic_shared_memory_type=mmap",
		"wal_level=replica", "wal_log_hints=on", "min_wal_size=32MB", "max_wal_size=64MB", "wal_keep_size=48MB"} {
		args = append(args, "-c", setting)
	}
	return args
}

func (p postgres) ping(ctx context.Context, n *node) error {
	c, err := pgx.Connect(ctx, p.url(n.address()))
	if err != nil {
		return err
	}
	return errors.Join(c.Ping(ctx), c.Close(ctx))
}

func (postgres) follow(n *node, port int) error {
	if err := n.run("pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres", "-D", n.data, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	return n.start()
}

func (p postgres) follows(ctx context.Context, primary, replica *node) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var there string
	if err := p.ask(ctx, primary, &there, "SELECT pg_current_wal_lsn()::text"); err != nil {
		return err
	}
	for caughtUp := false; !caughtUp; time.Sleep(20 * time.Millisecond) {
		if err := p.ask(ctx, replica, &caughtUp, "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", there); err != nil {
			return err
		}
	}
	return nil
}

func (p postgres) ask(ctx context.Context, n *node, answer any, question string, args ...any) error {
	c, err := pgx.Connect(ctx, p.url(n.address()))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return c.QueryRow(ctx, question, args...).Scan(answer)
}

// promote does what pg_ctl does, which looks for the server in its own process namespace.
func (p postgres) promote(n *node) error {
	if err := os.WriteFile(filepath.Join(n.data, "promote"), nil, 0o644); err != nil {
		return err
	}
	n.signalFirst(syscall.SIGUSR1)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, p.url(n.address()))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for following := true; following; time.Sleep(20 * time.Millisecond) {
		if err := c.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&following); err != nil {
			return err
		}
	}
	return nil
}
