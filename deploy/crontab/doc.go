// Package crontab installs entries in crontabs: a user's table through crontab(1), /etc/crontab, and files in
// /etc/cron.d.
//
// An entry is a block of lines between two comments, its mark. All outside of the blocks is foreign and stays byte
// for byte, with its line ends and a missing last one. Blocks may be moved as a whole; lines round them may change.
//
//	# dibs:entry shop/invoices#0 spec=… text=… (written by dibs: change the manifest)
//	15 4 1 * * root /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin /usr/bin/dibs trigger shop/invoices
//	# dibs:end shop/invoices#0
//
// A variable in a crontab counts for all lines below it. So a block in a table that others write to sets none: PATH
// and the entry's variables are stated in the command, by env(1). A file of dibs's own (dibs-APP in /etc/cron.d)
// has no other entries; there a block also states SHELL and PATH as the table's variables, and MAILTO and CRON_TZ
// where they are asked for. What lines above a block set is part of what is checked: a SHELL that is no
// POSIX shell, or another CRON_TZ, is a problem that names the line.
//
// What is written means the same to the crons of Debian, Vixie and Red Hat (cronie). Busybox's crond reads neither
// variables nor `%`; entries with a `%` in an argument do not work there.
//
// A file keeps its owner, group and mode; access control lists and security labels are the directory's default
// after a write. crontab(1) has no way to write a table only if it is unchanged: somebody who saves `crontab -e`
// between dibs's last look and its write, a few milliseconds, loses that edit.
package crontab
