package testserver

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// StartPgBouncer starts a pgbouncer in transaction mode in front of the PostgreSQL of an address, with a handful of
// sessions for all its clients. Databases have the names that they have there.
func StartPgBouncer(t testing.TB, address string) *Server {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return own(t, bouncer(u), nil)
}

func bouncer(to *url.URL) technology {
	return technology{
		name: "pgbouncer", user: "postgres", binaries: []string{"pgbouncer"}, optional: true,
		prepare: func(*Server) error { return nil },
		command: func(s *Server) []string {
			server := []string{"host=" + to.Hostname(), "port=" + to.Port(), "user=" + to.User.Username()}
			if password, ok := to.User.Password(); ok {
				server = append(server, "password="+password)
			}
			return []string{s.write("bouncer.ini", fmt.Sprintf("[databases]\n* = %s\n[pgbouncer]\n"+
				"listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n"+
				"pool_mode = transaction\ndefault_pool_size = 10\nmax_client_conn = 500\n", strings.Join(server, " "), s.port))}
		},
		url: func(port int) string {
			through := *to
			through.Host = "127.0.0.1:" + strconv.Itoa(port)
			return through.String()
		},
		ping: pingBouncer,
	}
}
