package main

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"
)

// counters are what a server counts of all its clients together, so nobody else may use it meanwhile.
type counters map[string]float64

func (c counters) minus(before counters) counters {
	d := counters{}
	for name, v := range c {
		d[name] = v - before[name]
	}
	return d
}

// per lists what was counted, in parts of n.
func (c counters) per(n float64, format string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s "+format, name, c[name]/n))
	}
	return strings.Join(parts, ", ")
}

// readCounters asks the server at an address for what it has counted. A store without a server has counted nothing.
func readCounters(ctx context.Context, address string) (counters, error) {
	switch scheme, _, _ := strings.Cut(address, ":"); scheme {
	case "postgres", "postgresql":
		return postgresCounters(ctx, address)
	case "redis", "rediss":
		return redisCounters(ctx, address)
	case "mysql", "mariadb":
		return mysqlCounters(ctx, address)
	}
	return nil, nil
}

// postgresCounters are those of this database, and the server's of its log. They are written by each session
// when it is idle for a moment, at the latest after a second.
func postgresCounters(ctx context.Context, address string) (counters, error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var commits, rows, wal float64
	err = conn.QueryRow(ctx, `SELECT xact_commit, tup_inserted + tup_updated + tup_deleted, (SELECT wal_bytes FROM pg_stat_wal)
FROM pg_stat_database WHERE datname = current_database()`).Scan(&commits, &rows, &wal)
	c := counters{"transactions": commits, "rows written": rows, "bytes of WAL": wal}
	if err != nil {
		return nil, err
	}
	// Where the extension is not there, transactions have to do.
	var calls float64
	if conn.QueryRow(ctx, `SELECT sum(calls) FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid WHERE d.datname = current_database()
AND query NOT ILIKE 'begin%' AND query NOT ILIKE 'commit%'`).Scan(&calls) == nil {
		c["statements"] = calls
	}
	return c, nil
}

// redisWrites are the commands that change something, as dibs uses them.
var redisWrites = []string{"set", "hset", "hsetnx", "hdel", "hincrby", "del", "unlink", "zadd", "zrem", "zremrangebyscore", "sadd", "srem", "incr",
	"incrby", "rpush", "lpush", "expire", "pexpire", "pexpireat", "expireat", "hmset", "xadd", "zincrby"}

func redisCounters(ctx context.Context, address string) (counters, error) {
	client, err := redisClient(address)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	text, err := client.Info(ctx, "everything").Result()
	if err != nil {
		return nil, err
	}
	c := counters{"writes": 0, "requests": 0}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch command, of := strings.CutPrefix(name, "cmdstat_"); {
		case name == "total_net_input_bytes":
			c["bytes received"], _ = strconv.ParseFloat(value, 64)
		case name == "aof_current_size":
			c["bytes of AOF"], _ = strconv.ParseFloat(value, 64)
		case of:
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseFloat(calls, 64)
			if slices.Contains(redisWrites, command) {
				c["writes"] += n
			}
			if command == "evalsha" || command == "eval" || command == "fcall" {
				c["requests"] += n
			}
		}
	}
	return c, nil
}

// mysqlCounters are the whole server's.
func mysqlCounters(ctx context.Context, address string) (counters, error) {
	db, err := openMySQL(address)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SHOW GLOBAL STATUS`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	c := counters{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v, _ := strconv.ParseFloat(value, 64)
		switch strings.ToLower(name) {
		case "questions":
			c["statements"] = v
		case "innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted":
			c["rows written"] += v
		case "innodb_os_log_written":
			c["bytes of log"] = v
		}
	}
	return c, rows.Err()
}

func openMySQL(address string) (*sql.DB, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/")
	cfg.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// cleanStore removes a namespace from a server, but not dibs's schema.
func cleanStore(address, ns string) {
	ctx := context.Background()
	switch scheme, _, _ := strings.Cut(address, ":"); scheme {
	case "postgres", "postgresql":
		if conn, err := pgx.Connect(ctx, address); err == nil {
			defer conn.Close(ctx)
			rows, _ := conn.Query(ctx, `SELECT table_name FROM information_schema.columns WHERE table_schema = 'dibs' AND column_name = 'ns'`)
			tables, _ := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, t := range tables {
				_, _ = conn.Exec(ctx, `DELETE FROM `+pgx.Identifier{"dibs", t}.Sanitize()+` WHERE ns = $1`, ns)
			}
		}
	case "mysql", "mariadb":
		if db, err := openMySQL(address); err == nil {
			defer db.Close()
			cleanMySQL(ctx, db, ns)
		}
	case "redis", "rediss":
		if client, err := redisClient(address); err == nil {
			defer client.Close()
			unlink(ctx, client, "dibs:{"+ns+"}:*")
		}
	}
}

func cleanMySQL(ctx context.Context, db *sql.DB, ns string) {
	rows, err := db.QueryContext(ctx, `SELECT table_name FROM information_schema.columns WHERE table_schema = DATABASE() AND column_name = 'ns'`)
	if err != nil {
		return
	}
	var tables []string
	for rows.Next() {
		var t string
		if rows.Scan(&t) == nil {
			tables = append(tables, t)
		}
	}
	_ = rows.Close()
	for _, t := range tables {
		_, _ = db.ExecContext(ctx, "DELETE FROM `"+t+"` WHERE ns = ?", ns)
	}
}

func unlink(ctx context.Context, client *goredis.Client, pattern string) {
	for keys := client.Scan(ctx, 0, pattern, 1000).Iterator(); keys.Next(ctx); {
		client.Unlink(ctx, keys.Val())
	}
}
