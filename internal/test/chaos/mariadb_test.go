//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

type mariadb struct{}

func (mariadb) binaries() []string     { return []string{"mariadbd", "mariadb-install-db"} }
func (mariadb) account() string        { return "mysql" }
func (mariadb) url(addr string) string { return "mysql://root@" + addr + "/test" }

func (m mariadb) install(n *node) error {
	init := "CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';\nGRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE IF NOT EXISTS test;\n"
	// It is carried out at each start, and kept out of the log, since the replica does it itself.
	if err := os.WriteFile(filepath.Join(n.dir, "init.sql"), []byte("SET sql_log_bin=0;\n"+init), 0o644); err != nil {
		return err
	}
	who, err := n.credential()
	if err == nil {
		err = errors.Join(os.RemoveAll(m.logs(n)), os.Mkdir(m.logs(n), 0o700))
	}
	if err == nil && who != nil {
		err = os.Chown(m.logs(n), int(who.Uid), int(who.Gid))
	}
	if err != nil {
		return err
	}
	return n.run("mariadb-install-db", "--no-defaults", "--datadir="+n.data, "--tmpdir="+n.dir,
		"--auth-root-authentication-method=normal", "--skip-name-resolve", "--skip-test-db")
}

func (m mariadb) args(n *node) []string {
	return []string{"mariadbd", "--no-defaults", "--datadir=" + n.data, "--tmpdir=" + n.dir, "--port=" + strconv.Itoa(n.port),
		"--bind-address=127.0.0.1", "--socket=" + filepath.Join(n.dir, "s"), "--pid-file=" + filepath.Join(n.data, "pid"),
		"--init-file=" + filepath.Join(n.dir, "init.sql"), "--max-connections=300", "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M",
		"--skip-name-resolve", "--server-id=" + strconv.Itoa(n.port), "--log-bin=" + filepath.Join(m.logs(n), "bin"), "--binlog-format=ROW", "--sync-binlog=1"}
}

func (m mariadb) ping(ctx context.Context, n *node) error { return m.exec(ctx, n, "DO 1") }

// follow begins with an empty server, and has it do all that is in the primary's log from its first line.
func (m mariadb) follow(n *node, port int) error {
	if err := m.install(n); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := m.exec(ctx, n,
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_LOG_FILE='bin.000001', MASTER_LOG_POS=4, MASTER_CONNECT_RETRY=1", port),
		"SET GLOBAL slave_exec_mode=IDEMPOTENT", "START SLAVE"); err != nil {
		return err
	}
	return m.caughtUp(ctx, n.cluster.nodes[0], n, time.Minute)
}

func (m mariadb) follows(ctx context.Context, primary, replica *node) error {
	return m.caughtUp(ctx, primary, replica, 5*time.Second)
}

func (m mariadb) caughtUp(ctx context.Context, primary, replica *node, within time.Duration) error {
	var position string
	if err := m.query(ctx, primary, "SELECT @@gtid_binlog_pos", &position); err != nil {
		return err
	}
	var waited int
	wait := fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', %d)", position, int(within.Seconds()))
	if err := m.query(ctx, replica, wait, &waited); err != nil || waited == 0 {
		return err
	}
	return errors.New("the replica does not catch up")
}

// logs is where a node keeps its binary log: not on its small disk. A log that a full disk has cut off in the
// middle is the end of all replication, and every failover after it would lose more than it is known to.
func (mariadb) logs(n *node) string { return n.dir + "-log" }

func (m mariadb) promote(n *node) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return m.exec(ctx, n, "STOP SLAVE", "RESET SLAVE ALL")
}

func (m mariadb) exec(ctx context.Context, n *node, statements ...string) error {
	db, err := m.open(n)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (m mariadb) query(ctx context.Context, n *node, question string, answer any) error {
	db, err := m.open(n)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, question).Scan(answer)
}

func (mariadb) open(n *node) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Logger = "tcp", n.address(), "root", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
