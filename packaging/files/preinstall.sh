#!/bin/sh
# The user of the services. It stays when the package is removed, because it may own files.
set -e
if user=$(getent passwd dibs); then
	uid=$(echo "$user" | cut -d: -f3)
	home=$(echo "$user" | cut -d: -f6)
	if [ "$uid" -ge 1000 ] && [ "$home" != /var/lib/dibs ]; then
		echo "dibs: there is a user dibs with uid $uid and home $home, who may be a person: rename it, and install again" >&2
		exit 1
	fi
fi
getent group dibs >/dev/null || groupadd --system dibs 2>/dev/null || addgroup -S dibs
[ -n "$user" ] ||
	useradd --system --gid dibs --home-dir /var/lib/dibs --no-create-home --shell /usr/sbin/nologin dibs 2>/dev/null ||
	adduser -S -D -H -G dibs -h /var/lib/dibs -s /sbin/nologin dibs
