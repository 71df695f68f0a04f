package mutants

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

func onPostgres(t *testing.T, address, statement string) {
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func onMySQL(t *testing.T, address, statement string) {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName, c.User = "tcp", u.Host, strings.TrimPrefix(u.Path, "/"), u.User.Username()
	c.Passwd, _ = u.User.Password()
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
