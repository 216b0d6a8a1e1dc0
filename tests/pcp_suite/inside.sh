#!/bin/bash
# A machine of its own for one test of PCP's suite: the files of this one with a layer in memory above them, and processes, network
# and name of its own. What a test does to pmcd, its configuration or its files ends with the test.
#
#   inside.sh prepare >LAYER            makes the layer that all tests begin with: agents installed, programs of the suite built
#   inside.sh run LAYER TEST [PROGRAM [untraced]]
#                                       runs a test on it, with PROGRAM under the names of PCP's tools before those in PATH.
#                                       Shows how the output differs from what the suite expects.
#                                       untraced: debug options are taken out of the test, and what is expected is what PCP's
#                                       tools print then
#
# Status of a run: 0 the output is what is expected, 10 it differs, 77 the suite does not run the test here (and why), 98 it came to
# no end or a program of it panicked or crashed, 99 no machine could be made, or PCP's own tools failed where they say what is expected.
# Only 10 tells something about the output.
#
# A machine cannot harm this one: it writes to memory only, /sys is there to read, /dev has nothing but what programs print to and read
# from, and the capabilities that reach the kernel itself are dropped.
#
# Needs root. SUITE_TIMEOUT: how long a test may take (150 s).
set -eEu

SUITE=/var/lib/pcp/testsuite
TOOLS="pminfo pmval pmprobe pmevent pmstore"
DIFFERS=10 NOT_RUN=77 BROKEN=98 NO_MACHINE=99

# whatever fails before the test has begun
trap 'exit $NO_MACHINE' ERR

if [ "$1" != --inside ]; then
	[ "$(id -u)" = 0 ] || { echo "inside.sh: needs root" >&2; exit $NO_MACHINE; }
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
mount -t overlay overlay -o "nodev,lowerdir=/,upperdir=$new/upper,workdir=$new/work" "$new/root"
root=$new/root
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o nodev,mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
mkdir "$root/dev/pts"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for n in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${n%:*}" "$root/dev/${n#*:}"; done
mount -t tmpfs -o nodev,mode=755 tmpfs "$(realpath "$root/run")"
mount -t tmpfs -o nodev,mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o nodev,mode=1777 tmpfs "$root/var/tmp"
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
# what a test may do as root: to files, processes and the network that are its own (nodes of devices, too, which no mount lets it use)
CAPABILITIES=chown,dac_override,dac_read_search,fowner,fsetid,kill,setgid,setuid,setpcap,setfcap
CAPABILITIES+=,mknod,net_admin,net_bind_service,net_raw,ipc_lock,ipc_owner,sys_ptrace,sys_nice,sys_resource,audit_write
# inside SCRIPT ARGUMENT...: in the machine, with nothing of the caller's environment, and output as the suite's PCP has it
inside() {
	local path=/usr/local/bin:/usr/lib/pcp/bin:/usr/sbin:/usr/bin:/sbin:/bin
	[ -z "$program" ] || path=$links:$path
	env -i HOME=/root USER=root LOGNAME=root LANG=C.UTF-8 TERM=dumb PATH="$path" PCP_DERIVED_CONFIG= \
		JUMPSEAT_PCP_LEVEL="$(sed -n 's/^PCP_VERSION=//p' /etc/pcp.conf)" \
		chroot "$root" setpriv --bounding-set="-all,+${CAPABILITIES//,/,+}" bash -c "$@"
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
	[ "$(grep -c "Check .* metrics have appeared" "$new/log")" = 4 ] || { cat "$new/log" >&2; exit $NO_MACHINE; }
	tar -c -C "$new/upper" --xattrs --xattrs-include='*' .
	;;
run)
	# the tests that stop the primary logger, or ask it, expect that there is one
	! grep -qE '_service.* (pmlogger|pcp) |_wait_for_pmlogger -P|pmlc|primary' "$root$SUITE/$test" || START_PMCD+=$START_LOGGER
	inside "$START_PMCD" </dev/null >"$new/log" 2>&1 || { cat "$new/log" >&2; exit $NO_MACHINE; }
	trap - ERR
	set +e
	run='
		cd "$0" || exit "$NO_MACHINE"
		timeout -s 6 -k 10 "$2" "./$1" </dev/null >"$3" 2>&1
		status=$?
		if [ $status = 124 ] || [ $status = 137 ]; then
			tail "$3"
			echo "came to no end in $2 s"
			exit "$BROKEN"
		fi
		# to the output, to what the test says of itself, or to a file that it left; a list of processes has this line
		if grep -ras -m 1 "panicked a[t] " "$1.full" /tmp /var/tmp /var/log/pcp; then exit "$BROKEN"; fi
		crash="^.*(Segmentation fault|Bus error|Illegal instruction|Aborted|overflowed its stack)"
		if grep -aE "$crash" "$3" && ! grep -qaE "$crash" "$1.out"; then exit "$BROKEN"; fi
		if [ -f "$1.notrun" ]; then
			cat "$1.notrun"
			exit "$NOT_RUN"
		fi
		[ $status = 0 ] || echo "status $status"
		diff "$1.out" /tmp/suite.out && [ $status = 0 ] || exit "$DIFFERS"
	'
	run="DIFFERS=$DIFFERS NOT_RUN=$NOT_RUN BROKEN=$BROKEN NO_MACHINE=$NO_MACHINE; $run"
	limit=${SUITE_TIMEOUT:-150}
	if [ "$untraced" = untraced ]; then
		script=$root$SUITE/$test
		sed -i -E 's/(^|[[:space:]])-D ?[a-z0-9,=]+/\1/g' "$script"
		ask='
			cd "$0" && rm -f "$1.out" && timeout -s 6 -k 10 "$2" "./$1" </dev/null >/tmp/expected 2>&1 &&
				[ ! -f "$1.notrun" ] && mv /tmp/expected "$1.out"
		'
		links=/nowhere inside "$ask" "$SUITE" "$test" "$limit" >"$new/log" 2>&1 || {
			echo "PCP's own tools fail without debug options:"
			cat "$new/log" "$root/tmp/expected" "$script.notrun" 2>/dev/null
			exit $NO_MACHINE
		}
	fi
	inside "$run" "$SUITE" "$test" "$limit" /tmp/suite.out
	exit
	;;
esac
