#!/bin/sh
# This starts nothing: a new server runs no jobs until an administrator starts it. A running server uses the new binary
# after its restart; restart one server at a time.
set -e
# What is made in the host's own directory belongs to the services too.
if [ -L /var/lib/dibs ]; then
	echo "dibs: /var/lib/dibs is a symbolic link: share the directory that it leads to (chgrp dibs, chmod g+s)" >&2
else
	chmod g+s /var/lib/dibs
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
