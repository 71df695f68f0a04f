#!/bin/sh
# Nothing is started: a new server fires nothing before somebody says so. A running one goes on with the new binary
# after its restart, which the administrator does one server at a time.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
