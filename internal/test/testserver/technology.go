package testserver

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// technology is what differs between the servers.
type technology struct {
	name     string
	user     string   // the account it runs as when we are root; "" is ours
	binaries []string // the server first; all must be there
	// prepare makes the data in dir, run once; command is the server's arguments.
	prepare func(s *Server) error
	command func(s *Server) []string
	url     func(port int) string
	// optional: even a machine that must have all servers may lack it; its tests are listed as not covered.
	optional bool
	// ping says whether the server at a URL answers a real request.
	ping func(ctx context.Context, url string) error
}

var redisTech = technology{
	name: "redis", binaries: []string{"redis-server"},
	prepare: func(*Server) error { return nil },
	command: func(s *Server) []string {
		return []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.data,
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"}
	},
	url:  func(port int) string { return fmt.Sprintf("redis://127.0.0.1:%d/0", port) },
	ping: pingRedis,
}

var postgresTech = technology{
	name: "postgres", user: "postgres", binaries: []string{"postgres", "initdb"},
	prepare: func(s *Server) error {
		// Only the making of the cluster skips fsync: the server itself keeps it.
		return s.run("initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	},
	command: func(s *Server) []string {
		return []string{"-D", s.data, "-p", strconv.Itoa(s.port), "-h", "127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=200", "-c", "shared_buffers=32MB",
			"-c", "dynamic_shared_memory_type=mmap"} // in its own directory, and gone with it
	},
	url: func(port int) string {
		return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	},
	ping: pingPostgres,
}

// A MariaDB that starts removes every #sql… file of its tmpdir, those of another that is just
// making its tables included: each has a tmpdir of its own.
var mariadbTech = technology{
	name: "mariadb", user: "mysql", binaries: []string{"mariadbd", "mariadb-install-db"},
	prepare: func(s *Server) error {
		return s.run("mariadb-install-db", "--no-defaults", "--datadir="+s.data, "--tmpdir="+s.dir,
			"--auth-root-authentication-method=normal", "--skip-name-resolve")
	},
	command: func(s *Server) []string {
		return []string{"--no-defaults", "--datadir=" + s.data, "--tmpdir=" + s.dir, "--port=" + strconv.Itoa(s.port),
			"--bind-address=127.0.0.1", "--socket=" + filepath.Join(s.dir, "s"), "--pid-file=" + filepath.Join(s.data, "pid"),
			"--init-file=" + s.write("init.sql", rootOverTCP), "--max-connections=300", "--innodb-buffer-pool-size=32M"}
	},
	url:  func(port int) string { return fmt.Sprintf("mysql://root@127.0.0.1:%d/test", port) },
	ping: pingMariaDB,
}

// rootOverTCP runs at each start: the server has no other users and listens on loopback alone.
const rootOverTCP = `CREATE USER IF NOT EXISTS 'root'@'127.0.0.1';
GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS test;
`

// binary finds a program in PATH, or where distributions hide it.
func binary(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/", "/usr/local/sbin/", "/usr/local/bin/"} {
		found, _ := filepath.Glob(pattern + name) // the pattern is well formed
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNoBinary)
}

func pingRedis(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if _, pass := u.User.Password(); pass || u.Scheme != "redis" {
		return nil // its own client will say what is wrong
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if _, err = c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "+PONG") {
		err = fmt.Errorf("it answers PING with %q", strings.TrimSpace(line))
	}
	return err
}

func pingPostgres(ctx context.Context, address string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	return c.Ping(ctx)
}

// pingBouncer asks in the one way that every pooler lets through.
func pingBouncer(ctx context.Context, address string) error {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return err
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	return c.Ping(ctx)
}

func pingMariaDB(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.User, c.Logger = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username(), &mysql.NopLogger{}
	c.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	return db.PingContext(ctx)
}

// write puts a small file beside the data, readable by the server's account.
func (s *Server) write(name, content string) string {
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		panic("testserver: " + err.Error()) // our own directory, just made
	}
	return path
}
