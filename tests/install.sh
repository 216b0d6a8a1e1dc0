#!/bin/bash
# Runs install/Install and install/Remove against Debian's PCP and looks for traces. Needs root, and the programs in
# target/dist (or in dist of $CARGO_TARGET_DIR or $JUMPSEAT_BUILD).
#
# PCP's install scripts find pmcd by its name and signal every one of them, and change PCP's own directories.
# So this runs in namespaces of its own (processes, mounts, network) and on copies of these directories. Where
# that is not permitted, as in most containers, it works in place, provided that no pmcd is running.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
say() { echo "install test: $*"; }
die() { say "FAILED: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root"
[ -r /etc/pcp.env ] || die "needs PCP"
built=${JUMPSEAT_BUILD:-${CARGO_TARGET_DIR:-$here/target}}
[ -x "$built/dist/pmdajumpseat" ] || die "needs cargo build --profile dist"
while read -r name; do
	case $name in PCP_*|PMCD_*|PMNS_*|PMDA_*|PMLOGGER_*) unset "$name" ;; esac
done < <(compgen -e)

if [ "${1:-}" != --inside ]; then
	if unshare --mount --pid --net --fork --kill-child --mount-proc true 2>/dev/null; then
		exec unshare --mount --pid --net --fork --kill-child --mount-proc "$0" --inside isolated
	fi
	[ -z "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -x pmcd)" ] || die "cannot isolate itself here, and a pmcd is running"
	exec "$0" --inside in-place
fi

set +u
. /etc/pcp.env
set -u
if [ "$2" = isolated ]; then
	ip link set lo up
	work=$(mktemp -d)
	mount -t tmpfs tmpfs "$work"
	# all of /etc: users and groups are there as well
	for dir in /etc "$PCP_LOG_DIR" "$PCP_VAR_DIR"/{config,pmcd,pmdas,pmns,tmp} /usr/local/{bin,share}; do
		mkdir -p "$work$dir"
		cp -a "$dir/." "$work$dir"
		mount --bind "$work$dir" "$dir"
	done
	mount -t tmpfs tmpfs "$(realpath /run)"
	# nothing of systemd's, should it be there
	[ ! -d /run/systemd ]
fi
out=$(mktemp)

pmcd_pid() { cat "$PCP_RUN_DIR/pmcd.pid" 2>/dev/null; }
answers() { pminfo -f pmcd.version >/dev/null 2>&1; }

# the packaged way, without systemd
start_pmcd() {
	mkdir -p "$PCP_RUN_DIR" "$PCP_TMP_DIR/pmcd"
	chown "$PCP_USER:$PCP_GROUP" "$PCP_RUN_DIR" "$PCP_TMP_DIR/pmcd"
	PCPQA_SYSTEMD=no "$PCP_RC_DIR/pmcd" start >"$out" 2>&1 </dev/null || { cat "$out"; die "pmcd does not start"; }
	for _ in $(seq 100); do ! answers || return 0; sleep 0.1; done
	cat "$PCP_LOG_DIR/pmcd/pmcd.log"
	die "pmcd does not answer"
}

stop_pmcd() {
	local pid
	pid=$(pmcd_pid) || return 0
	kill "$pid"
	for _ in $(seq 100); do [ -d "/proc/$pid" ] || return 0; sleep 0.1; done
	die "pmcd does not stop"
}

# install ANSWERS: Install as a user would run it who types these
install() {
	say "Install, answers: ${1:-none}"
	(cd "$here/install" && printf "$1" | timeout 120 ./Install >"$out" 2>&1) || { cat "$out"; die "Install"; }
	pminfo -f jumpseat.self.version >"$out.pminfo" 2>&1 && grep -q 'value "' "$out.pminfo" || {
		cat "$out" "$out.pminfo" "$PCP_LOG_DIR"/pmcd/{pmcd,jumpseat}.log
		die "pminfo does not show jumpseat.self.version"
	}
	grep -q 'usermod -aG jumpseat' "$out" || { cat "$out"; die "Install does not say who may send events"; }
	/usr/local/bin/jumpseat --version >/dev/null || die "Install does not copy the command"
	/usr/local/bin/jumpseat export --help >/dev/null || die "Install does not copy jumpseat-export"
	/usr/local/bin/jumpseat web --help >/dev/null || die "Install does not copy jumpseat-web"
	[ -s /usr/local/share/man/man1/jumpseat-serve.1 ] || die "Install does not copy manual pages"
	grep -q '^JUMPSEAT[[:space:]]400$' "$PCP_VAR_DIR/pmns/stdpmid.local" || die "the number is not in stdpmid.local"
	# what must answer before anything was traced: all of it, without an error
	pminfo -dfmtT jumpseat >"$out.pminfo" 2>&1 || { cat "$out.pminfo"; die "pminfo -dfmtT jumpseat"; }
	! grep -E 'Error:|No PMCD agent|IPC protocol failure' "$out.pminfo" || die "pminfo reports errors"
	getent group jumpseat >/dev/null || die "there is no group jumpseat"
	[ "$(stat -c %G:%a "$PCP_RUN_DIR/jumpseat.socket")" = jumpseat:660 ] || die "the ingest socket is not for the group jumpseat"
	grep -q '^jumpseat[[:space:]]' "$PCP_PMCDCONF_PATH" || die "no line in $PCP_PMCDCONF_PATH"
}

# remove OPTIONS...
remove() {
	say "Remove $*"
	(cd "$here/install" && timeout 120 ./Remove "$@" >"$out" 2>&1 </dev/null) || { cat "$out"; die "Remove"; }
	! grep -rn jumpseat "$PCP_PMCDCONF_PATH" "$PCP_VAR_DIR/pmns" || die "traces after Remove"
	[ ! -e "$PCP_PMDAS_DIR/jumpseat" ] || { ls -laR "$PCP_PMDAS_DIR/jumpseat"; die "$PCP_PMDAS_DIR/jumpseat is left"; }
	[ ! -e "$PCP_VAR_DIR/config/pmlogconf/jumpseat" ] || die "pmlogconf groups are left"
	[ ! -e "$PCP_VAR_DIR/config/pmieconf/jumpseat" ] || die "rules of pmieconf are left"
	! compgen -G "/usr/local/bin/jumpseat" && ! compgen -G "/usr/local/share/man/man1/*jumpseat*" || die "the command or its pages are left"
	! grep -q JUMPSEAT "$PCP_VAR_DIR/pmns/stdpmid.local" || die "the number is left in stdpmid.local"
	! pminfo jumpseat >"$out" 2>&1 || { cat "$out"; die "pmcd still knows jumpseat"; }
	! cat /proc/[0-9]*/comm 2>/dev/null | grep -qx pmdajumpseat || die "the agent is still running"
	answers || die "pmcd does not answer after Remove"
}

trap 'status=$?; stop_pmcd; rm -f "$out" "$out.pminfo"; exit $status' EXIT

# the scripts start pmcd where it is not running, as on a machine where PCP has just been unpacked
[ -z "$(pmcd_pid)" ] || die "pmcd is running already"
[ ! -f "$PCP_VAR_DIR/pmns/root" ] || say "the name space has been built before"
start_pmcd
cp "$PCP_PMCDCONF_PATH" "$out.conf"

install ''
pid=$(pmcd_pid)
agent=$(pminfo -f jumpseat.self.pid | sed -n 's/.*value //p')
[ "$(stat -c %U "/proc/$agent")" = "$PCP_USER" ] || die "the agent does not run as $PCP_USER"
[ -s "$PCP_LOG_DIR/pmcd/jumpseat.log" ] || die "no log"
echo '{"type":"hello","message":"from the install test"}' |
	"$built/dist/jumpseat" feed --socket "$PCP_RUN_DIR/jumpseat.socket" >"$out" 2>&1 ||
	{ cat "$out"; die "jumpseat feed"; }
pminfo -f jumpseat.derived.source.mean_bytes | grep -q 'value [1-9]' || die "no derived metrics"
pminfo -x jumpseat.event.recent | grep -q 'value "from the install test"' || die "the event does not arrive"
compgen -G "$PCP_VAR_DIR/config/pmda/400.*" >/dev/null || die "identifiers are not saved"
"$PCP_BINADM_DIR/pmlogconf" -c -q "$out.pmlogger" >/dev/null 2>&1 || die "pmlogconf"
grep -q 'jumpseat.source' "$out.pmlogger" || { cat "$out.pmlogger"; die "pmlogconf does not offer jumpseat's groups"; }
rm -f "$out.pmlogger"
install ''
[ "$(pmcd_pid)" = "$pid" ] || die "Install restarted pmcd"
[ "$(grep -c '^jumpseat[[:space:]]' "$PCP_PMCDCONF_PATH")" = 1 ] || die "installing twice leaves two lines"
echo '# mine' >>"$PCP_SYSCONF_DIR/jumpseat/jumpseat.toml"
install 'socket\nUnix\n/run/pcp/pmdajumpseat.socket\n'
grep -q '^jumpseat.*socket[[:space:]]*unix' "$PCP_PMCDCONF_PATH" || die "not the transport that was asked for"
grep -q '^# mine' "$PCP_SYSCONF_DIR/jumpseat/jumpseat.toml" || die "Install replaced the user's configuration"
remove
[ -f "$PCP_SYSCONF_DIR/jumpseat/jumpseat.toml" ] || die "Remove took the user's configuration"
# pmdaproc.sh has sorted it meanwhile
diff <(grep -v '^$' "$out.conf" | sort) <(grep -v '^$' "$PCP_PMCDCONF_PATH" | sort) ||
	die "$PCP_PMCDCONF_PATH is not as before"
install 'socket\nInternet\n44009\n'
# a copy that fails half way forgets no file that was there before
before=$(sort "$PCP_PMDAS_DIR/jumpseat/.deployed")
rm "$PCP_PMDAS_DIR/jumpseat/README.md"
mkdir "$PCP_PMDAS_DIR/jumpseat/README.md"
! (cd / && "$here/install/deploy") >"$out" 2>&1 || die "deploy replaces a directory"
rmdir "$PCP_PMDAS_DIR/jumpseat/README.md"
[ "$(sort "$PCP_PMDAS_DIR/jumpseat/.deployed")" = "$before" ] || die "deploy forgets files"
touch "$PCP_VAR_DIR/config/pmda/jumpseat-400-positions.json"
remove --purge
[ ! -e "$PCP_SYSCONF_DIR/jumpseat" ] || die "Remove --purge left the configuration"
! getent group jumpseat || die "Remove --purge left the group"
! compgen -G "$PCP_VAR_DIR/config/pmda/400.*" || die "Remove --purge left saved identifiers"
! compgen -G "$PCP_VAR_DIR/config/pmda/*jumpseat-400-positions*" || die "Remove --purge left positions of files"

# pmcd is not running: Install starts it
stop_pmcd
install ''
remove --purge
# An ingest socket that cannot be made: with nothing else to take events from, Install fails and says why
mkdir -p "$PCP_SYSCONF_DIR/jumpseat"
printf '[[socket]]\npath = "/nonexistent/jumpseat.socket"\n' >"$PCP_SYSCONF_DIR/jumpseat/jumpseat.toml"
say "Install, where the agent cannot start"
! (cd "$here/install" && timeout 120 ./Install >"$out" 2>&1 </dev/null) || { cat "$out"; die "Install says nothing of an agent that died"; }
grep -q 'Error: ingest socket: /nonexistent/jumpseat.socket: cannot create the socket' "$out" || { cat "$out"; die "not the agent's own words"; }
remove
printf '[[socket]]\n[[socket]]\npath = "/nonexistent/jumpseat.socket"\nsource = "other"\n' >"$PCP_SYSCONF_DIR/jumpseat/jumpseat.toml"
install ''
grep -q 'the agent goes on without it' "$PCP_LOG_DIR/pmcd/jumpseat.log" || die "the log does not tell of the socket that is not there"
remove --purge

# PCP of another user, and its sockets elsewhere
useradd -r -M -G "$PCP_GROUP" jumpseat-site
conf=$(mktemp)
sed 's/^PCP_USER=.*/PCP_USER=jumpseat-site/; s,^PCP_RUN_DIR=.*,PCP_RUN_DIR=/run/jumpseat-site,' /etc/pcp.conf >"$conf"
chmod 644 "$conf"
mkdir /run/jumpseat-site "$out.state"
chown jumpseat-site /run/jumpseat-site "$out.state"
printf '[[socket]]\n' >"$out.state/toml"
chmod 644 "$out.state/toml"
# a pmcd that says nothing
mkfifo "$out.pmcd" "$out.agent"
exec 9<>"$out.agent"
PCP_CONF=$conf env -u PCP_USER -u PCP_RUN_DIR "$built/dist/pmdajumpseat" -c "$out.state/toml" -l "$out.state/log" <>"$out.pmcd" >&9 2>/dev/null &
agent=$!
for _ in $(seq 100); do [ ! -S /run/jumpseat-site/jumpseat.socket ] || break; sleep 0.1; done
[ -S /run/jumpseat-site/jumpseat.socket ] && [ "$(stat -c %U "/proc/$agent")" = jumpseat-site ] ||
	{ cat "$out.state/log"; die "PCP_USER or PCP_RUN_DIR of pcp.conf do not hold"; }
kill "$agent"
wait "$agent" || true
# what keeps its sockets for the next agent goes, too
PCP_CONF=$conf env -u PCP_USER -u PCP_RUN_DIR "$built/dist/pmdajumpseat" --let-go -c "$out.state/toml"
for _ in $(seq 50); do pgrep -u jumpseat-site >/dev/null || break; sleep 0.1; done
[ ! -e /run/jumpseat-site/jumpseat.socket ] || die "the socket is still there"
userdel jumpseat-site
exec 9>&-
rm -rf "$out.state" "$out.pmcd" "$out.agent" "$conf" /run/jumpseat-site
rm -f "$out.conf"
say ok
