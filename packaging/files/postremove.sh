#!/bin/sh
# /var/lib/dibs may hold outcomes that the store has not taken yet. Only a purge removes it.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
# What dibs apply remembers in /etc/dibs goes as well; other files of the administrator there stay.
if [ "$1" = purge ]; then
    rm -rf /etc/dibs/applied
    # A mount point cannot be removed, only emptied.
    if ! rm -rf /var/lib/dibs 2>/dev/null && [ -n "$(ls -A /var/lib/dibs)" ]; then rm -rf /var/lib/dibs; fi
    if [ -d /etc/dibs ]; then rmdir /etc/dibs 2>/dev/null || true; fi
fi
