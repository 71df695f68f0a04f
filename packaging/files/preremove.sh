#!/bin/sh
set -e
case "$1" in upgrade|1) exit 0 ;; esac # an upgrade
if [ -d /run/systemd/system ]; then systemctl disable --now dibs-serve.service 'dibs-work@*.service' || true; fi
