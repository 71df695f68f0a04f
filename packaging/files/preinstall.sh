#!/bin/sh
# The user of the services. It stays when the package is removed, because it may own files.
set -e
getent group dibs >/dev/null || groupadd --system dibs 2>/dev/null || addgroup -S dibs
getent passwd dibs >/dev/null ||
	useradd --system --gid dibs --home-dir /var/lib/dibs --no-create-home --shell /usr/sbin/nologin dibs 2>/dev/null ||
	adduser -S -D -H -G dibs -h /var/lib/dibs -s /sbin/nologin dibs
