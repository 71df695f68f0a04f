package mysql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/lazy"
)

// created finds the tables of a migration, and the first column of each.
var created = lazy.Regexp(`CREATE TABLE IF NOT EXISTS (dibs_\w+) \(\n(?: *--.*\n)* *(\w+)`)

// Each right that work needs is tried on each table with a statement that needs it. EXPLAIN carries none of them out.
// Nobody but the user of `dibs init` writes to dibs_schema.
var rights = []struct{ name, statement string }{
	{"SELECT", "EXPLAIN SELECT 1 FROM TABLE WHERE FALSE"},
	{"INSERT", "EXPLAIN INSERT INTO TABLE SELECT * FROM TABLE WHERE FALSE"},
	{"UPDATE", "EXPLAIN UPDATE TABLE SET COLUMN = COLUMN WHERE FALSE"},
	{"DELETE", "EXPLAIN DELETE FROM TABLE WHERE FALSE"},
}

// rights refuses a user who lacks a right: work could begin whose outcome cannot be recorded. It is one request,
// unless something is missing.
func (d *database) rights(ctx context.Context) error {
	type trial struct{ right, table, statement string }
	var all []trial
	var text strings.Builder
	for _, v := range d.versions() {
		file, err := fs.ReadFile(d.migrations, v.name)
		if err != nil {
			return err
		}
		for _, m := range created().FindAllStringSubmatch(string(file), -1) {
			for _, r := range rights {
				if m[1] == "dibs_schema" {
					continue
				}
				t := trial{r.name, m[1], strings.NewReplacer("TABLE", m[1], "COLUMN", m[2]).Replace(r.statement)}
				all = append(all, t)
				text.WriteString(t.statement + "; ")
			}
		}
	}
	if err := d.tries(ctx, text.String()); !denied(err) {
		return d.explain(err)
	}
	lacking := map[string][]string{}
	for _, t := range all {
		switch err := d.tries(ctx, t.statement); {
		case denied(err):
			lacking[t.right] = append(lacking[t.right], t.table)
		case err != nil:
			return d.explain(err)
		}
	}
	var list []string
	for right, tables := range lacking {
		list = append(list, right+" ON "+strings.Join(tables, ", "))
	}
	slices.Sort(list)
	return fmt.Errorf("mysql store %s: the user lacks rights (%s); grant it those of docs/reference/stores.md", d.addr, strings.Join(list, "; "))
}

// tries sends statements whose results do not matter.
func (d *database) tries(ctx context.Context, text string) error {
	r, err := d.db.QueryContext(ctx, text)
	if err != nil {
		return err
	}
	for r.NextResultSet() {
	}
	err = r.Err()
	return errors.Join(err, r.Close())
}

// denied says whether the server refused a statement for want of a right: to a database, a table or a column.
func denied(err error) bool { return slices.Contains([]uint16{1044, 1142, 1143}, number(err)) }
