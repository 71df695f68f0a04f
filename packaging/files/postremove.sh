#!/bin/sh
# /var/lib/dibs may hold outcomes that the store has not taken yet. Only a purge removes it.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then rm -rf /var/lib/dibs; fi
