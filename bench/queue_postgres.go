package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dibs-run/dibs/store/postgres"
)

// postgresQueues compares dibs with River, on one server with the same synchronous_commit.
func postgresQueues(ctx context.Context, w io.Writer, o options) error {
	pool, err := plainPool(ctx, addresses["postgres"])
	if err != nil {
		return err
	}
	defer pool.Close()
	defer cleanQueues(pool)
	if err := migrateRiver(ctx, pool); err != nil {
		return err
	}
	s, k, err := openQueue(ctx, addresses["postgres"], postgres.OpenConfig)
	if err != nil {
		return err
	}
	defer func() { k.Close(); _ = s.Close() }()
	usual, err := riverShop(pool, "River", "usual", func(*river.Config) {})
	if err != nil {
		return err
	}
	best, err := riverShop(pool, "River, tuned", "best", riverAtItsBest)
	if err != nil {
		return err
	}
	shops := []workshop{dibsShop(s, k, "dibs", "plain", 100, false), dibsShop(s, k, "dibs, unique", "unique", 100, true), usual, best}
	shops[3].variant = true
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &meter{pool: pool, by: map[int]time.Duration{}}
	go m.run(ctx)
	for i := range shops {
		shops[i].used = func() time.Duration { return ownTime() + m.used(ctx) }
	}
	return compareQueues(ctx, w, o, "PostgreSQL", shops)
}

// A meter sums up the processor time of the sessions in our database, as far as the server is on this machine.
// What has ended counts as when it was last looked at.
type meter struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	by   map[int]time.Duration
}

func (m *meter) run(ctx context.Context) {
	for ctx.Err() == nil {
		m.used(ctx)
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *meter) used(ctx context.Context) (sum time.Duration) {
	rows, _ := m.pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'")
	pids, _ := pgx.CollectRows(rows, pgx.RowTo[int])
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pid := range pids {
		if used, ok := processorTime(pid); ok {
			m.by[pid] = used
		}
	}
	for _, used := range m.by {
		sum += used
	}
	return sum
}

func processorTime(pid int) (used time.Duration, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false // it is elsewhere, or has ended
	}
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	if len(f) < 13 {
		return 0, false
	}
	for _, ticks := range f[11:13] {
		n, _ := strconv.Atoi(ticks)
		used += time.Duration(n) * 10 * time.Millisecond
	}
	return used, true
}

// cleanQueues removes what this process left in the database.
func cleanQueues(pool *pgxpool.Pool) {
	ctx := context.Background()
	queues := `SELECT id FROM dibs.queue_names WHERE ns = '` + namespace + `' AND NOT kind`
	for _, statement := range []string{
		`DROP SCHEMA IF EXISTS ` + riverSchema() + ` CASCADE`,
		`DELETE FROM dibs.tasks WHERE queue IN (` + queues + `)`,
		`DELETE FROM dibs.tasks_ended WHERE queue IN (` + queues + `)`,
		`DELETE FROM dibs.queue_watched WHERE queue IN (` + queues + `)`,
		`DELETE FROM dibs.queue_workers WHERE ns = '` + namespace + `'`,
		`DELETE FROM dibs.queue_counts WHERE ns = '` + namespace + `'`,
		`DELETE FROM dibs.queue_names WHERE ns = '` + namespace + `'`,
		`DELETE FROM dibs.leases WHERE ns = '` + namespace + `'`,
		`DELETE FROM dibs.namespaces WHERE ns = '` + namespace + `'`,
	} {
		_, _ = pool.Exec(ctx, statement) // without the schema there is nothing to delete
	}
}
