# What is checked in the guest, as root. Each check prints one line: PASS NAME, or FAIL NAME and why. $1 is the boot.
export DIBS_DIR=/var/lib/dibs HOME=/root LC_ALL=C.UTF-8
out=/var/lib/dibs/out

# check NAME COMMAND…: the command must succeed.
check() {
	local name=$1 said
	shift
	if said=$("$@" 2>&1); then
		echo "PASS $name"
	else
		echo "FAIL $name: $* exits $?: $(tail -n 12 <<<"$said" | tr '\n' '|'); dibs last said: $(journalctl -t dibs -n 6 -o cat --no-pager | tr '\n' '|')"
	fi
}

# within SECONDS COMMAND…: the command succeeds by then.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || { "$@"; return; }
		sleep 0.2
	done
}
lines() { [ "$(wc -l <"$out/$1" 2>/dev/null || echo 0)" -ge "$2" ]; }
has() { grep -q -- "$2" "$1"; }
prop() { systemctl show --value --property "$2" "$1"; }
is() { [ "$1" = "$2" ] || { echo "got $1, want $2"; return 1; }; }
exits() {
	local want=$1 got=0
	shift
	"$@" || got=$?
	[ $got = "$want" ] || { echo "exit status $got, want $want"; return 1; }
}
silent() { local said; said=$("$@" 2>&1) && [ -z "$said" ] || { echo "$said"; return 1; }; }

verify() { silent systemd-analyze verify --man=no dibs-serve.service dibs-work@mail.service; }
exposure() { systemd-analyze security --no-pager "$1" | sed -n 's/.*Overall exposure level for .*: \([0-9.]*\) .*/\1/p'; }
rated() { is "$(exposure "$1")" "$2"; }
no_errors() { dibs doctor "$@" >/tmp/doctor 2>&1; ! grep '^error' -A3 /tmp/doctor; }

# manifest writes the jobs of dibs-serve: one that always runs, and some more.
manifest() {
	cat >/etc/dibs/jobs.d/.boot.yaml <<-END
		version: 1
		app: boot
		defaults: {policy: {concurrency_scope: host}}
		jobs:
		  - {name: beat, schedule: "*/2 * * * * *", command: [sh, -c, "echo x >> $out/beat"]}
		$1
	END
	mv /etc/dibs/jobs.d/.boot.yaml /etc/dibs/jobs.d/boot.yaml
}

serve() {
	rm -f $out/beat
	check "the service starts, and is ready then" systemctl start dibs-serve
	check "its manager heard it say so" is "$(prop dibs-serve ActiveState)/$(prop dibs-serve Type)" active/notify
	check "a job runs" within 10 lines beat 2
	check "doctor finds no error" no_errors /etc/dibs/jobs.d
	manifest '  - {name: new, schedule: "* * * * * *", command: [sh, -c, "echo x >> '$out'/new"]}'
	check "a reload" systemctl reload dibs-serve
	check "takes the new manifest up" within 15 lines new 2
	check "and does not restart" is "$(prop dibs-serve NRestarts)" 0

	manifest '  - {name: long, schedule: "*/10 * * * * *", command: [sh, -c, "echo begin >> '$out'/long; sleep 6.25; echo end >> '$out'/long"]}'
	check "a long job begins" within 20 has $out/long begin
	check "the service stops" systemctl stop dibs-serve
	check "and its job has come to its end" is "$(grep -c end $out/long)" "$(grep -c begin $out/long)"
	check "and has succeeded" succeeded boot/long
	check "nothing is left behind" exits 1 pgrep -f 'sleep 6.25'

	# As root, dibs asks systemd for a scope for each job: a stop with systemd's default KillMode spares it, too.
	rm -f $out/long
	mkdir -p /run/systemd/system/dibs-serve.service.d
	printf '[Service]\nUser=root\nGroup=root\nKillMode=control-group\n' >/run/systemd/system/dibs-serve.service.d/root.conf
	systemctl daemon-reload
	systemctl start dibs-serve
	check "a long job of root's begins" within 20 has $out/long begin
	check "in a scope" scoped 'sleep 6.25'
	systemctl stop dibs-serve
	check "and comes to its end" is "$(grep -c end $out/long)" "$(grep -c begin $out/long)"
	check "doctor finds no error as root" no_errors /etc/dibs/jobs.d
	rm -r /run/systemd/system/dibs-serve.service.d
	systemctl daemon-reload

	# A server that stops answering is restarted.
	manifest
	mkdir -p /run/systemd/system/dibs-serve.service.d
	printf '[Service]\nWatchdogSec=4s\n' >/run/systemd/system/dibs-serve.service.d/watchdog.conf
	systemctl daemon-reload
	systemctl start dibs-serve
	kill -STOP "$(prop dibs-serve MainPID)"
	check "a server that stands still is restarted by the watchdog" within 60 restarted
	check "and serves" within 20 systemctl is-active dibs-serve
	rm -r /run/systemd/system/dibs-serve.service.d
	systemctl daemon-reload

	# A server that is killed takes its job with it, and the next one runs the tick again.
	manifest '  - {name: again, schedule: "*/30 * * * * *", command: [sh, -c, "echo $DIBS_TICK >> '$out'/again; sleep 20.25"], policy: {on_crash: rerun}}'
	systemctl restart dibs-serve
	check "a job begins" within 40 lines again 1
	systemctl kill --kill-whom=main --signal=KILL dibs-serve
	check "its job ends with a killed server" within 5 exits 1 pgrep -f 'sleep 20.25'
	check "the server comes back" within 20 systemctl is-active dibs-serve
	check "and runs the tick again" within 60 twice $out/again
}
scoped() { grep -q '\.scope$' "/proc/$(pgrep -o -f "$1")/cgroup"; }
restarted() { [ "$(prop dibs-serve NRestarts)" -gt 0 ]; }
succeeded() { dibs history "$1" --limit 1 -o json | tee /dev/stderr | grep -q '"outcome": "succeeded"'; }
twice() { [ -n "$(sort "$1" | uniq -d)" ]; }

work() {
	mkdir -p /etc/dibs/work
	cat >/usr/local/bin/mailer <<-END
		#!/bin/sh
		echo begin \$DIBS_TASK >> $out/mail
		sleep 4
		echo end \$DIBS_TASK >> $out/mail
	END
	chmod 755 /usr/local/bin/mailer
	echo "DIBS_WORK_COMMAND=/usr/local/bin/mailer" >/etc/dibs/work/mail
	check "a worker starts" systemctl start dibs-work@mail
	check "a task is enqueued" runuser -u dibs -- dibs task enqueue send --queue mail
	check "the worker does it" within 10 has $out/mail begin
	check "the worker stops" systemctl stop dibs-work@mail
	check "and has finished its task" has $out/mail end
}

# The timers. Their jobs run as root, with a store of their own.
timers() {
	mkdir -p /etc/timers
	cat >/etc/timers/jobs.yaml <<-END
		version: 1
		app: timers
		defaults: {timezone: Europe/Berlin, policy: {concurrency_scope: host}}
		jobs:
		  - {name: often, schedule: "*/5 * * * * *", command: [sh, -c, "echo \$DIBS_TICK >> $out/often"]}
		  - {name: yearly, schedule: "0 0 1 1 *", command: [sh, -c, "echo x >> $out/yearly"]}
		  - {name: missed, schedule: "$(TZ=Europe/Berlin date -d '+2 minutes' +'%M %H') * * *", command: [sh, -c, "echo \$DIBS_TICK >> $out/missed"], policy: {catch_up: latest}}
		  - {name: free, schedule: "0 0 1 1 *", command: [sh, -c, "touch /usr/free /etc/free && echo x > $out/free"]}
		  - name: boxed
		    schedule: "0 0 1 1 *"
		    command: [sh, -c, "id -u > $out/boxed; touch /usr/boxed || echo usr >> $out/boxed; ls -A /root /tmp | grep -x -e .profile -e seen || echo home >> $out/boxed; test -s /etc/timers/secret || echo secret >> $out/boxed"]
		    sandbox: {ProtectSystem: strict, ProtectHome: tmpfs, PrivateTmp: true, NoNewPrivileges: true, InaccessiblePaths: [/etc/timers/secret], ReadWritePaths: [$out]}
	END
	echo secret >/etc/timers/secret
	touch /tmp/seen
	check "timers are installed" dibs apply /etc/timers/jobs.yaml --to systemd
	check "their units are right" silent systemd-analyze verify --man=no /etc/systemd/system/dibs-timers.*.timer
	check "a timer fires" within 20 lines often 2
	since=$(date +%s)
	stat -c '%n %y %i' /etc/systemd/system/dibs-timers.* >/tmp/before
	check "a second apply has nothing to do" has_nothing
	check "and reloads nothing" exits 1 grep -q Reloading <(journalctl --since "@$since" _PID=1 -o cat)
	stat -c '%n %y %i' /etc/systemd/system/dibs-timers.* >/tmp/after
	check "and writes nothing" cmp /tmp/before /tmp/after
	unit=dibs-timers.yearly.0.service
	check "a tick that is not due is no failed unit" systemctl start "$unit"
	check "as its manager sees it" exits 1 systemctl is-failed "$unit"
	check "it was not run" exits 1 test -e $out/yearly
	boxed free && check "a job without a sandbox may write" test -e /usr/free -a -s $out/free
	boxed boxed
	check "a sandbox forbids what it says" cmp $out/boxed <(printf '0\nusr\nhome\nsecret\n')
	check "and leaves nothing" exits 1 test -e /usr/boxed -o -e /root/boxed
	sed -i 's/^Description=/Description=mine /' "/etc/systemd/system/$unit"
	check "a hand edit is drift" exits 5 dibs drift /etc/timers/jobs.yaml --to systemd
	check "apply keeps it" exits 5 dibs apply /etc/timers/jobs.yaml --to systemd
	check "unless told otherwise" dibs apply /etc/timers/jobs.yaml --to systemd --overwrite
	check "and there is no drift then" dibs drift /etc/timers/jobs.yaml --to systemd
}
has_nothing() { dibs apply /etc/timers/jobs.yaml --to systemd | grep 'nothing to do'; }

# boxed has the unit of a job run it now, due or not.
boxed() {
	local unit=dibs-timers.$1.0.service
	mkdir -p "/run/systemd/system/$unit.d"
	sed -n 's/^ExecStart=\(.*\)/[Service]\nExecStart=\nExecStart=\1 --now/p' "/etc/systemd/system/$unit" >"/run/systemd/system/$unit.d/now.conf"
	systemctl daemon-reload
	check "job $1 runs in its unit" systemctl start "$unit"
	rm -r "/run/systemd/system/$unit.d"
	systemctl daemon-reload
}

# What a user installs runs in that user's own systemd.
user() {
	useradd --create-home --shell /bin/bash tester
	loginctl enable-linger tester
	within 20 test -S /run/user/"$(id -u tester)"/systemd/private
	cat >/home/tester/jobs.yaml <<-END
		version: 1
		app: mine
		defaults: {policy: {concurrency_scope: host}}
		jobs:
		  - {name: often, schedule: "*/5 * * * * *", command: [sh, -c, "echo \$DIBS_TICK >> /home/tester/often"]}
	END
	as() { runuser -l tester -c "XDG_RUNTIME_DIR=/run/user/$(id -u tester) $*"; }
	check "a user's timers are installed" as dibs apply jobs.yaml --to systemd:user --store /home/tester/locks
	check "a user's timer fires" within 20 test -s /home/tester/often
	check "a user's timers are removed" as "sed -i s/often/other/g jobs.yaml && dibs prune jobs.yaml --to systemd:user --store /home/tester/locks"
}

first() {
	check "the units are right" verify
	check "dibs-serve is rated 9.2" rated dibs-serve.service 9.2
	check "a worker is rated 9.2" rated dibs-work@mail.service 9.2
	install -d -o dibs -g dibs $out
	manifest
	mkdir -p /run/systemd/system/dibs-serve.service.d
	cp /checks/hardened.conf /run/systemd/system/dibs-serve.service.d/
	systemctl daemon-reload
	check "hardened as the page says, it is rated 3.2" rated dibs-serve.service 3.2
	systemctl start dibs-serve
	check "and starts" systemctl is-active dibs-serve
	systemctl stop dibs-serve
	rm -r /run/systemd/system/dibs-serve.service.d
	systemctl daemon-reload
	check "root may use dibs beside it" dibs run --scope host --key root -- true
	serve
	work
	timers
	user
	systemctl enable dibs-serve
	# Once, soon: a rerun finds no other run in its way.
	manifest '  - {name: power, schedule: "'"$(date -ud '+70 seconds' +'0 %M %H')"' * * *", command: [sh, -c, "echo $DIBS_TICK >> '$out'/power; sleep 20.25"], policy: {on_crash: rerun}}'
	check "a job runs when the power goes" within 90 lines power 1
	sync
}

second() {
	check "the service is there after the boot" within 30 systemctl is-active dibs-serve
	check "the tick that ran when the power went runs again" within 60 twice $out/power
	check "the timer catches up what was missed" within 30 lines missed 1
	check "a timer fires" within 20 newer
	cp /etc/timers/jobs.yaml /tmp/none.yaml
	sed -i '/^  -/,$d' /tmp/none.yaml
	printf '  - {name: last, schedule: "0 0 1 1 *", command: ["true"]}\n' >>/tmp/none.yaml
	check "prune removes the others" dibs prune /tmp/none.yaml --to systemd
	check "all of them" silent find /etc/systemd/system -name 'dibs-timers.*'
}
newer() { [ "$(stat -c %Y $out/often)" -gt "$(($(date +%s) - 15))" ]; }

case $1 in
1) first ;;
2) second ;;
esac
echo "END $1"
