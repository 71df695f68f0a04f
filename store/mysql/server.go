package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/store"
)

// server is what a connection says about the server and its own session.
type server map[string]string

// inspect asks a connection for every setting that the packets rely on, and refuses those that would break them.
func (d *database) inspect(ctx context.Context) (server, error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, d.explain(err)
	}
	defer conn.Close()
	s := server{}
	names := `'version', 'time_zone', 'system_time_zone', 'sql_mode', 'character_set_client', 'max_allowed_packet',
		'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format', 'wsrep_on', 'group_replication_group_name'`
	for _, w := range settings {
		names += ", '" + w.name + "'"
	}
	var most string
	switch err := conn.QueryRowContext(ctx, "SELECT @@sql_select_limit").Scan(&most); {
	case err != nil:
		return nil, d.explain(err)
	case most != noLimit: // it would cut this list, too
		return nil, d.explain(refusal("its sessions cut results; add sql_select_limit=" + noLimit + " to the pool's DSN"))
	}
	r, err := conn.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ("+names+")")
	if err != nil {
		return nil, d.explain(err)
	}
	defer r.Close()
	for r.Next() {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return nil, d.explain(err)
		}
		s[name] = value
	}
	if err := r.Err(); err != nil {
		return nil, d.explain(err)
	}
	if err := s.check(ctx, conn); err != nil {
		return nil, d.explain(err)
	}
	return s, nil
}

// settings are those of sessions that the packets rely on and that have one good value: our own sessions set them (the
// statement session), a caller's must have them.
var settings = []struct{ name, value, says string }{
	{"autocommit", "ON", "its sessions do not autocommit"},
	{"tx_read_only", "OFF", "its sessions only read"},
	{"transaction_read_only", "OFF", "its sessions only read"},
	{"sql_safe_updates", "OFF", "its sessions refuse changes that they take for unsafe"},
	{"sql_auto_is_null", "OFF", "its sessions read IS NULL in another way"},
	{"unique_checks", "ON", "its sessions need not look for duplicates"},
}

// noLimit is the sql_select_limit of sessions that cut nothing.
const noLimit = "18446744073709551615"

// refusal is a setting that the store cannot work with.
type refusal string

func (r refusal) Error() string { return string(r) }

// Cure is what to do about it, for dibs doctor.
func (r refusal) Cure() string {
	_, cure, _ := strings.Cut(string(r), "; ")
	return strings.ToUpper(cure[:1]) + cure[1:] + "."
}

func (s server) check(ctx context.Context, conn *sql.Conn) error {
	zone := s["time_zone"]
	if zone == "SYSTEM" {
		zone = s["system_time_zone"]
	}
	packet, err := strconv.Atoi(s["max_allowed_packet"])
	switch {
	case err != nil:
		return fmt.Errorf("its max_allowed_packet is %q: %w", s["max_allowed_packet"], err)
	case zone != "+00:00" && zone != "UTC":
		return refusal("its sessions are not in UTC but in " + zone + "; add time_zone=%27%2B00%3A00%27 to the pool's DSN")
	case !strings.Contains(s["sql_mode"], "STRICT_"):
		return refusal("its sql_mode is not strict, so values could be cut; add STRICT_ALL_TABLES to it")
	case strings.Contains(s["sql_mode"], "SIMULTANEOUS_ASSIGNMENT"), strings.Contains(s["sql_mode"], "ANSI_QUOTES"):
		return refusal("its sql_mode changes what SQL means; remove ANSI_QUOTES and SIMULTANEOUS_ASSIGNMENT from it")
	case s["character_set_client"] != "utf8mb4":
		return refusal("its sessions use the character set " + s["character_set_client"] + "; add charset=utf8mb4 to the pool's DSN")
	case packet < 4<<20:
		return refusal("its max_allowed_packet is " + s["max_allowed_packet"] + " bytes; raise it to 16777216")
	case s["log_bin"] == "ON" && s["binlog_format"] == "STATEMENT":
		return refusal("its binlog_format is STATEMENT, with which it refuses transactions that are READ COMMITTED; set binlog_format to ROW or MIXED")
	}
	for _, w := range settings {
		if v, known := s[w.name]; known && v != w.value {
			return refusal(fmt.Sprintf("%s; add %s=%s to the pool's DSN", w.says, w.name, w.value))
		}
	}
	return probe(ctx, conn)
}

// probe tries what no variable shows on both MySQL and MariaDB.
func probe(ctx context.Context, conn *sql.Conn) error {
	r, err := conn.QueryContext(ctx, "SELECT ?; SELECT ?", 1, 2)
	if number(err) == 1064 {
		return refusal("its connections cannot send several statements with arguments; add multiStatements=true&interpolateParams=true to the pool's DSN")
	}
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	var slept, moves, set int
	if err := conn.QueryRowContext(ctx, "SELECT SLEEP(0.001), SYSDATE(6) > NOW(6), ABS(TIMESTAMPDIFF(SECOND, NOW(6), SYSDATE(6))) > 60").Scan(&slept, &moves, &set); err != nil {
		return err
	}
	switch {
	case set == 1:
		return refusal("its sessions set their own time; remove timestamp from the pool's DSN")
	case moves == 0:
		return refusal("it runs with --sysdate-is-now, so that the clock stands still while a request waits; remove that option")
	}
	return nil
}

func (s server) identity() string {
	if strings.Contains(strings.ToLower(s["version"]), "mariadb") {
		return "identity-mariadb"
	}
	return "identity-mysql"
}

// skipsLocked says whether the server knows SKIP LOCKED, which the queue needs: MySQL 8, and MariaDB from 10.6.
func (s server) skipsLocked() bool {
	var major, minor int
	// MariaDB may put 5.5.5- before its own version.
	if _, err := fmt.Sscanf(strings.TrimPrefix(s["version"], "5.5.5-"), "%d.%d", &major, &minor); err != nil {
		return false
	}
	if strings.Contains(strings.ToLower(s["version"]), "mariadb") {
		return major > 10 || major == 10 && minor >= 6
	}
	return major >= 8
}

// durable says whether a commit is on disk before it is acknowledged. With a binary log the
// transaction is decided there, so that must be synced as well.
func (s server) durable() bool {
	return s["innodb_flush_log_at_trx_commit"] == "1" && (s["log_bin"] != "ON" || s["sync_binlog"] == "1")
}

func (s server) weaker() []string {
	w := []string{
		"A forward step of the server's clock ends leases early, by the same amount.",
		"Asynchronous replication loses the last commits in a failover: grants are then held back for max_ttl, but claims and history may be missing.",
		"dibs does not notice a backup restored on the same server: stop all dibs processes first, and start them max_ttl later.",
		"It cannot notify waiters of a released lease: they poll.",
	}
	if s.skipsLocked() {
		w = append(w, "It cannot notify workers of a new task: they poll.")
	} else {
		w = append(w, "It has no queues: they need MySQL 8 or MariaDB 10.6.")
	}
	if s["wsrep_on"] == "ON" || s["group_replication_group_name"] != "" {
		w = append(w, "It is a cluster: all processes must use the same writing node, because each change of the node holds grants back for max_ttl.")
	}
	return w
}

func (s server) flaws() (all []store.Flaw) {
	if !s.durable() {
		all = append(all, store.Flaw{What: "Acknowledged commits can be lost with the server's power.", Cure: "Set innodb_flush_log_at_trx_commit=1 (and sync_binlog=1)."})
	}
	return all
}
