// Package crontab installs entries in crontabs: a user's table through crontab(1), /etc/crontab, and files in
// /etc/cron.d.
//
// An entry is a block of lines between two comments, its mark. Everything outside of the blocks is foreign and stays
// byte for byte, including line ends and a missing last one. Blocks may be moved as a whole; lines around them may
// change.
//
//	# dibs:entry shop/invoices#0 spec=… text=… (written by dibs: change the manifest)
//	15 4 1 * * root /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin /usr/bin/dibs trigger shop/invoices
//	# dibs:end shop/invoices#0
//
// A variable in a crontab applies to all lines below it. So a block in a table that others write to sets none: the
// command sets PATH and the entry's variables, by env(1). A file of dibs's own (dibs-APP in /etc/cron.d) has no
// other entries; there a block also sets SHELL and PATH as the table's variables, and MAILTO and CRON_TZ if they are
// asked for. Variables that lines above a block set are checked too: a SHELL that is not a POSIX shell, or another
// CRON_TZ, is a problem that names the line.
//
// A line that Debian's cron cannot read, of anybody, makes it ignore the whole table. So such a line is a problem of
// each entry there: an apply that would write one, or write beside one, is refused.
//
// The text means the same to the crons of Debian, Vixie and Red Hat (cronie). Busybox's crond reads neither
// variables nor `%`, and takes a `#` for the beginning of a comment; entries with one of them in an argument do not
// work there.
//
// A file keeps its owner, group and mode; access control lists and security labels are the directory's default after
// a write. crontab(1) has no write that requires an unchanged table: an edit with `crontab -e` that is saved between
// dibs's last look and its write, a few milliseconds, is lost.
package crontab
