package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// hostile are settings that change what a statement means, what its answer looks like, or whether it works at all.
var hostile = map[string]string{
	"completion_type": "'CHAIN'", "autocommit": "0", "tx_isolation": "'SERIALIZABLE'", "tx_read_only": "1", "sql_mode": "''", "time_zone": "'+05:45'",
	"sql_safe_updates": "1", "sql_select_limit": "1", "sql_auto_is_null": "1", "sql_big_selects": "0", "max_join_size": "1", "unique_checks": "0",
	"group_concat_max_len": "4", "max_statement_time": "0.0001", "innodb_lock_wait_timeout": "1", "div_precision_increment": "0", "foreign_key_checks": "0",
	"character_set_server": "latin1", "collation_server": "latin1_swedish_ci", "low_priority_updates": "1", "default_week_format": "3",
	"in_predicate_conversion_threshold": "2", "sql_warnings": "1", "lc_time_names": "'de_DE'", "max_sort_length": "64", "old_mode": "''", "sql_notes": "0",
}

// Whatever a server or a database sets, our own connections keep text and bytes, and work.
// Holds: H4.
func TestHostileSettings(t *testing.T) {
	srv := testserver.StartMariaDB(t, "--skip-character-set-client-handshake")
	db := raw(t, srv.URL, nil)
	for name, value := range hostile {
		exec(t, db, fmt.Sprintf("SET GLOBAL %s = %s", name, value))
	}
	storetest.RunSession(t, OpenConfig, srv.URL)
}

// A caller's pool is refused for the settings that would break the store, each by its name.
func TestACallersSettings(t *testing.T) {
	address := testserver.MariaDB(t)
	c := config(t, address)
	c.URL = nil
	for name, value := range map[string]string{"autocommit": "0", "tx_read_only": "1", "sql_safe_updates": "1", "sql_auto_is_null": "1",
		"sql_select_limit": "1", "unique_checks": "0", "time_zone": "'+05:45'", "sql_mode": "''"} {
		db := raw(t, address, func(c *mysqldriver.Config) { c.Params[name] = value })
		_, err := New(t.Context(), db, c)
		if err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("%s = %s: %v", name, value, err)
		}
	}
	db := raw(t, address, func(c *mysqldriver.Config) { c.Params["completion_type"] = "'CHAIN'" })
	s, err := New(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	ref := grant(t, s, request("k"))
	release(t, s, ref)
	grant(t, s, request("k"))
}

// A binary log of statements takes no transaction of dibs's: the error names the setting.
func TestABinaryLogOfStatements(t *testing.T) {
	srv := testserver.StartMariaDB(t, "--log-bin=log", "--binlog-format=STATEMENT", "--server-id=1")
	_, err := OpenConfig(t.Context(), config(t, srv.URL))
	if err == nil || !strings.Contains(err.Error(), "set binlog_format to ROW or MIXED") || errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("opened with %v", err)
	}
}
