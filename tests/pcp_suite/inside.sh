#!/bin/bash
# A machine of its own for one test of PCP's suite: the files of this one with a layer in memory above them, and processes, network
# and name of its own. What a test does to pmcd, its configuration or its files ends with the test.
#
#   inside.sh prepare >LAYER            makes the layer that all tests begin with: agents installed, programs of the suite built
#   inside.sh run LAYER TEST [PROGRAM [untraced]]
#                                       runs a test on it, with PROGRAM under the names of PCP's tools before those in PATH.
#                                       Shows how the output differs from what the suite expects. Status: 0 none,
#                                       77 the test does not run here (and why), 99 no machine could be made, else it differs.
#                                       untraced: debug options are taken out of the test, and what is expected is what PCP's
#                                       tools print then
#
# Needs root. SUITE_TIMEOUT: how long a test may take (150 s).
set -eu

SUITE=/var/lib/pcp/testsuite
TOOLS="pminfo pmval pmprobe pmevent pmstore"

if [ "$1" != --inside ]; then
	[ "$(id -u)" = 0 ] || { echo "inside.sh: needs root" >&2; exit 99; }
	exec unshare --mount --pid --net --ipc --uts --fork --kill-child --propagation private "$0" --inside "$@"
fi
shift
command=$1 test=${3:-} program=${4:-} untraced=${5:-}

# opened here, as what is below /tmp is hidden next
exec 7<"${2:-/dev/null}" 8<"${program:-/dev/null}"
new=/tmp
mount -t tmpfs -o mode=755 tmpfs "$new"
mkdir "$new/upper" "$new/work" "$new/root"
[ "$command" = prepare ] || tar -x -C "$new/upper" --xattrs --xattrs-include='*' <&7
mount -t overlay overlay -o "lowerdir=/,upperdir=$new/upper,workdir=$new/work" "$new/root"
root=$new/root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$(realpath "$root/run")"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=1777 tmpfs "$root/var/tmp"
hostname qahost
printf '127.0.0.1 localhost qahost\n::1 localhost\n' >"$root/etc/hosts"
ip link set lo up
# one file, which all that is below / may not have: the target directory can be another file system
if [ -n "$program" ]; then
	mkdir -p "$root/run/suite/tools"
	touch "$root/run/suite/program"
	mount --bind /proc/self/fd/8 "$root/run/suite/program"
	for tool in $TOOLS; do ln -s ../program "$root/run/suite/tools/$tool"; done
fi
exec 7<&- 8<&-

links=/run/suite/tools
# inside SCRIPT ARGUMENT...: in the machine, with nothing of the caller's environment, and output as the suite's PCP has it
inside() {
	local path=/usr/local/bin:/usr/lib/pcp/bin:/usr/sbin:/usr/bin:/sbin:/bin
	[ -z "$program" ] || path=$links:$path
	env -i HOME=/root USER=root LOGNAME=root LANG=C.UTF-8 TERM=dumb PATH="$path" PCP_DERIVED_CONFIG= \
		JUMPSEAT_PCP_LEVEL="$(sed -n 's/^PCP_VERSION=//p' /etc/pcp.conf)" chroot "$root" bash -c "$@"
}

# pmcd as its package starts it where there is no systemd
START_PMCD='
	. /etc/pcp.env
	mkdir -p "$PCP_RUN_DIR" "$PCP_TMP_DIR/pmcd"
	chown "$PCP_USER:$PCP_GROUP" "$PCP_RUN_DIR" "$PCP_TMP_DIR/pmcd"
	"$PCP_RC_DIR/pmcd" start
	for _ in $(seq 100); do
		/usr/bin/pmprobe -f pmcd.version >/dev/null 2>&1 && break
		sleep 0.1
	done
'
# and the primary logger
START_LOGGER='
	"$PCP_RC_DIR/pmlogger" start
'

case $command in
prepare)
	# no service manager runs here
	rm -f "$root/usr/bin/systemctl" "$root/usr/sbin/runlevel"
	# which services begin with the machine, in the way of before systemd: some tests change it and look at it
	cat >"$root/usr/sbin/sysv-rc-conf" <<-'END'
		#!/bin/sh
		link() { echo "/etc/rc3.d/S01$1"; }
		case $1 in
		--list) if [ -L "$(link "$2")" ]; then on=on; else on=off; fi
			echo "$2 0:off 1:off 2:$on 3:$on 4:$on 5:$on 6:off" ;;
		*) if [ "$2" = on ]; then ln -sf "../init.d/$1" "$(link "$1")"; else rm -f "$(link "$1")"; fi ;;
		esac
	END
	chmod 755 "$root/usr/sbin/sysv-rc-conf"
	mkdir -p "$root/etc/rc3.d"
	ln -sf ../init.d/pmcd "$root/etc/rc3.d/S01pmcd"
	ln -sf ../init.d/pmlogger "$root/etc/rc3.d/S01pmlogger"
	inside "$START_PMCD"'
		for agent in sample simple trivial; do
			cd "$PCP_PMDAS_DIR/$agent" && ./Install
		done
		# what lacks a library is not built, and its tests are no candidates
		cd "$0" && gmake -k setup
		"$PCP_RC_DIR/pmcd" stop
		rm -rf "$PCP_LOG_DIR"/pmcd/* "$PCP_TMP_DIR"/pmcd/*
	' "$SUITE" </dev/null >"$new/log" 2>&1 || true
	[ "$(grep -c "Check .* metrics have appeared" "$new/log")" = 4 ] || { cat "$new/log" >&2; exit 99; }
	tar -c -C "$new/upper" --xattrs --xattrs-include='*' .
	;;
run)
	# the tests that stop the primary logger, or ask it, expect that there is one
	! grep -qE '_service.* (pmlogger|pcp) |_wait_for_pmlogger -P|pmlc|primary' "$root$SUITE/$test" || START_PMCD+=$START_LOGGER
	inside "$START_PMCD" </dev/null >"$new/log" 2>&1 || { cat "$new/log" >&2; exit 99; }
	set +e
	run='
		cd "$0" || exit 99
		timeout -s 6 -k 10 "$2" "./$1" </dev/null >"$3" 2>&1
		status=$?
		[ ! -f "$1.notrun" ] || { cat "$1.notrun"; exit 77; }
		[ $status = 0 ] || echo "status $status"
		diff "$1.out" /tmp/suite.out && [ $status = 0 ]
	'
	limit=${SUITE_TIMEOUT:-150}
	if [ "$untraced" = untraced ]; then
		script=$root$SUITE/$test
		sed -i -E 's/(^|[[:space:]])-D ?[a-z0-9,=]+/\1/g' "$script"
		links=/nowhere inside "$run" "$SUITE" "$test" "$limit" /tmp/suite.out >"$new/log" 2>&1
		cp --remove-destination "$root/tmp/suite.out" "$script.out"
	fi
	inside "$run" "$SUITE" "$test" "$limit" /tmp/suite.out
	;;
esac
