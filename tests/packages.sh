#!/bin/bash
# Installs, upgrades, removes and purges the packages of target/packages (made by packaging/build) in clean Debian 12 and 13,
# and looks at events there as README.md does at first. Needs root and a Debian with debootstrap or with apt to install it.
#
#   tests/packages.sh                      both
#   tests/packages.sh bookworm             one of them
#   tests/packages.sh --prepare            only makes the systems with PCP, kept in target/chroots for the next time
#
# Each runs in namespaces of its own (mounts, processes, network), on a copy of the clean system in memory or on disk.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
built=${CARGO_TARGET_DIR:-$here/target}
kept=${JUMPSEAT_CHROOTS:-$built/chroots}
say() { echo "package test: $*"; }
die() { say "FAILED: $*" >&2; exit 1; }

# the one that has the packages of this machine
mirror() {
	apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -v security | sed 's,/$,,' | sort -u | head -n 1
}

# What a chroot is given: no services are started by packages, and no systemctl that fails without systemd.
quiet_services() {
	mkdir -p "$1/opt/stub"
	printf '#!/bin/sh\nexit 0\n' >"$1/opt/stub/systemctl"
	printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
	chmod 755 "$1/opt/stub/systemctl" "$1/usr/sbin/policy-rc.d"
	printf 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\nDPkg::Path "%s";\n' \
		/opt/stub:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin >"$1/etc/apt/apt.conf.d/99test"
	cp -L /etc/resolv.conf /etc/hosts "$1/etc/" 2>/dev/null || true
}

# within ROOT COMMAND...: with the system's own /proc
within() {
	local root=$1
	shift
	unshare --mount --pid --fork --kill-child --propagation private sh -ec '
		root=$1; shift
		mount -t proc proc "$root/proc"
		mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
		exec chroot "$root" "$@"' sh "$root" env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PATH=/opt/stub:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# prepare SUITE: target/chroots/SUITE.tar, a minimal system with PCP
prepare() {
	[ ! -e "$kept/$1.tar" ] || return 0
	command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap >/dev/null 2>&1 || {
		apt-get update -q >/dev/null
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends debootstrap >/dev/null
	}
	mkdir -p "$kept"
	local root
	root=$(mktemp -d "$kept/$1.XXXXXX")
	say "making a clean $1 with PCP, once"
	debootstrap --variant=minbase "$1" "$root" "$(mirror)" >"$root.out" 2>&1 || { tail -n 20 "$root.out"; die "debootstrap"; }
	quiet_services "$root"
	within "$root" apt-get install -q -y --no-install-recommends pcp procps adduser >"$root.out" 2>&1 ||
		{ tail -n 20 "$root.out"; die "no PCP in $1"; }
	within "$root" apt-get clean
	tar -C "$root" --one-file-system -cf "$kept/.$1.tar" .
	mv "$kept/.$1.tar" "$kept/$1.tar"
	rm -rf "$root" "$root.out"
}


# needs PROGRAM PACKAGE
needs() {
	command -v "$1" >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$2" >/dev/null 2>&1 ||
		die "cannot install $2"
}

# What can be said of the packages without installing them.
looked_at() {
	local package=$1 tree page found
	needs lintian lintian
	needs man man-db
	needs groff groff-base
	needs systemd-analyze systemd
	needs zsh zsh
	needs fish fish
	found=$(lintian --allow-root --fail-on error,warning "$package" 2>&1) || { echo "$found"; die "lintian"; }
	tree=$(mktemp -d)
	dpkg-deb -x "$package" "$tree"
	for page in jumpseat pmdajumpseat $("$tree/usr/bin/jumpseat" generate man); do
		[ -s "$tree/usr/share/man/man1/$page.1.gz" ] || die "no manual page $page"
		zcat "$tree/usr/share/man/man1/$page.1.gz" >"$tree/$page.1"
		found=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$tree/$page.1" 2>&1 >/dev/null) || die "man $page"
		[ -z "$found" ] || { echo "$found"; die "the manual page $page"; }
	done
	bash -n "$tree/usr/share/bash-completion/completions/jumpseat" || die "the completion for bash"
	zsh -n "$tree/usr/share/zsh/vendor-completions/_jumpseat" || die "the completion for zsh"
	fish -n "$tree/usr/share/fish/vendor_completions.d/jumpseat.fish" || die "the completion for fish"
	# exposure of 2.0 at most
	found=$(systemd-analyze security --offline=true --threshold=20 "$tree/usr/lib/systemd/system/jumpseat.service" 2>&1) ||
		{ echo "$found"; die "jumpseat.service is not confined enough"; }
	say "$(echo "$found" | tail -n 1 | sed 's/^[^O]*//')"
	rm -rf "$tree"
}

# trial SUITE: everything in a copy of that system, which goes with it
trial() {
	local suite=$1 root package
	package=$(ls "$built"/packages/jumpseat_*.deb)
	prepare "$suite"
	root=$(mktemp -d "$kept/$suite.XXXXXX")
	tar -C "$root" -xf "$kept/$suite.tar"
	# mktemp's are for root alone
	chmod 755 "$root"
	quiet_services "$root"
	cp "$package" "$root/root/jumpseat.deb"
	# an upgrade is another version of the same, with a configuration that has changed as well
	local newer=$root/newer
	dpkg-deb -R "$package" "$newer"
	sed -i 's/^Version: .*/&+next/' "$newer/DEBIAN/control"
	dpkg-deb --root-owner-group -Znone -b "$newer" "$root/root/newer.deb" >/dev/null
	rm -rf "$newer"
	sed -n '/^# === inside/,$p' "$0" >"$root/root/inside"
	local status=0
	within "$root" unshare --net bash -e /root/inside "$suite" >"$root.out" 2>&1 || status=$?
	grep '^package test:' "$root.out" || true
	[ $status = 0 ] || { tail -n 60 "$root.out"; cp "$root.out" "$built/packages/$suite.log"; }
	rm -rf "$root" "$root.out"
	[ $status = 0 ] || die "$suite (all of it: $built/packages/$suite.log)"
}

if [ "${1:-}" = --prepare ]; then
	shift
	[ $# -gt 0 ] || set -- bookworm trixie
	for suite in "$@"; do prepare "$suite"; done
	exit
fi
[ "$(id -u)" = 0 ] || die "needs root"
ls "$built"/packages/jumpseat_*.deb >/dev/null 2>&1 || die "needs packaging/build deb"
[ $# -gt 0 ] || set -- bookworm trixie
looked_at "$(ls "$built"/packages/jumpseat_*.deb)"
for suite in "$@"; do
	start=$SECONDS
	trial "$suite"
	say "$suite: ok, $((SECONDS - start)) s"
done
exit

# === inside: from here on in the clean system, with the name of it
set -euo pipefail
say() { echo "package test: $*"; }
die() {
	say "FAILED: $*"
	tail -n 30 /var/log/pcp/pmcd/{pmcd,jumpseat}.log 2>/dev/null || true
	exit 1
}
within=$1
export PCPQA_SYSTEMD=no
PATH=$PATH:/usr/lib/pcp/bin
ip link set lo up 2>/dev/null || true

# What is on the disk, without what other programs and agents write all the time.
files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /root -o -path /var/log -o -path /var/cache \
		-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /run -o -path /var/lib/pcp/tmp -o -path /var/tmp -o -path /opt/stub \) -prune -o -print |
		grep -v -e "^/var/lib/pcp/config/pmda/[1-35-9][0-9]*\." -e '/pmda\.auto\.update$' | sort
}
answers() { pminfo -f pmcd.version >/dev/null 2>&1; }
eventually() { for _ in $(seq 100); do ! "$@" || return 0; sleep 0.1; done; return 1; }
start_pmcd() {
	mkdir -p /run/pcp /var/lib/pcp/tmp/pmcd
	chown pcp:pcp /run/pcp /var/lib/pcp/tmp/pmcd
	/etc/init.d/pmcd start >/root/start 2>&1 </dev/null || { cat /root/start; die "pmcd does not start"; }
	eventually answers || { cat /root/start; die "pmcd does not answer"; }
}
stop_pmcd() {
	local pid
	pid=$(cat /run/pcp/pmcd.pid)
	kill "$pid"
	eventually test ! -d "/proc/$pid" || die "pmcd does not stop"
}
agent_answers() { pminfo -f jumpseat.self.version 2>/dev/null | grep -q 'value "'; }
installed() { dpkg -i "$1" >/root/dpkg 2>&1 </dev/null || { cat /root/dpkg; die "installing $1"; }; }
# the number of a source's instance: what archives remember
identity() { pminfo -f jumpseat.source.received | sed -n 's/^ *inst \[\([0-9]*\) or "greeter"\].*/\1/p'; }

start_pmcd
# the name space is built when pmcd starts first
files >/root/before
cp /etc/pcp/pmcd/pmcd.conf /root/pmcd.conf
cp /var/lib/pcp/pmns/stdpmid.local /root/stdpmid.local 2>/dev/null || true

say "$within: $(dpkg-query -W -f '${Package} ${Version}' pcp), install"
installed /root/jumpseat.deb
agent_answers || { cat /root/dpkg; die "the agent does not answer after the installation"; }
pminfo -f jumpseat.self.version
grep -q 'usermod -aG jumpseat' /root/dpkg || { cat /root/dpkg; die "nobody is told who may send events"; }
[ "$(stat -c %U "/proc/$(pminfo -f jumpseat.self.pid | sed -n 's/.*value //p')")" = pcp ] || die "the agent does not run as pcp"

# the first look at events, as README.md has it
echo '{"type":"login","message":"hello","user":"ann","ms":12}' | jumpseat feed --source greeter
pminfo -x jumpseat.event.recent >/root/recent 2>&1
grep -q 'value "hello"' /root/recent || { cat /root/recent; die "no event to be seen"; }
jumpseat events -s 1 -t 0.2 jumpseat.event.records >/dev/null || die "jumpseat events"
pmval -s 1 jumpseat.source.received | grep -q greeter || die "pmval does not show the source"
grep -q '^JUMPSEAT[[:space:]]400' /var/lib/pcp/pmns/stdpmid.local || die "no number in stdpmid.local"

printf '%s\n' '{"type":"work","phase":"start","span_id":"4f"}' '{"type":"work","phase":"end","span_id":"4f"}' |
	jumpseat feed --source greeter
# views, rules and groups, with PCP's own tools
for view in jumpseat-sources jumpseat-spans; do
	pmrep -s 2 -t 0.5 ":$view" >/root/view 2>&1 || { cat /root/view; die "pmrep :$view"; }
	! grep -iE 'error|invalid|unknown|Traceback' /root/view || { cat /root/view; die "pmrep :$view"; }
	grep -q greeter /root/view || { cat /root/view; die "pmrep :$view shows no source"; }
done
for rule in missed silent span_errors slow_agent; do
	pmieconf -f /root/pmie modify "jumpseat.$rule" enabled yes >/root/rule 2>&1 || { cat /root/rule; die "pmieconf jumpseat.$rule"; }
done
pmie -C /root/pmie >/root/rule 2>&1 || { cat /root/rule; die "pmie does not take the rules"; }
[ "$(grep -c 'jumpseat\.' /root/pmie)" -ge 4 ] || { cat /root/pmie; die "the rules are not in pmie's configuration"; }
pmlogconf -c -q /root/pmlogger >/root/log 2>&1 || { cat /root/log; die "pmlogconf"; }
for name in jumpseat.source jumpseat.span.p99 jumpseat.derived 'on once'; do
	grep -q "$name" /root/pmlogger || { grep -A5 jumpseat /root/pmlogger; die "pmlogconf does not offer $name"; }
done

# what belongs to the programs
for shell in bash-completion/completions/jumpseat zsh/vendor-completions/_jumpseat fish/vendor_completions.d/jumpseat.fish; do
	[ -s "/usr/share/$shell" ] || die "no /usr/share/$shell"
done
bash -n /usr/share/bash-completion/completions/jumpseat || die "the completion for bash"
getent passwd jumpseat >/dev/null && getent group jumpseat >/dev/null || die "no user jumpseat"

say "$within: upgrade"
echo '# mine' >>/etc/pcp/jumpseat/jumpseat.toml
before=$(identity)
[ -n "$before" ] || die "no identity of the source"
installed /root/newer.deb
agent_answers || { cat /root/dpkg; die "the agent does not answer after the upgrade"; }
grep -q '^# mine' /etc/pcp/jumpseat/jumpseat.toml || die "the upgrade replaced the user's configuration"
echo '{"type":"request","message":"after the upgrade"}' | jumpseat feed --source greeter
[ "$(identity)" = "$before" ] || die "the source has another identity after the upgrade"
pminfo -x jumpseat.event.recent | grep -q 'after the upgrade' || die "no events after the upgrade"
[ "$(grep -c '^jumpseat[[:space:]]' /etc/pcp/pmcd/pmcd.conf)" = 1 ] || die "two lines in pmcd.conf"

say "$within: remove"
dpkg -r jumpseat >/root/dpkg 2>&1 || { cat /root/dpkg; die "dpkg -r"; }
! grep -q jumpseat /etc/pcp/pmcd/pmcd.conf || die "a line is left in pmcd.conf"
answers || die "pmcd does not answer after the removal"
! pminfo jumpseat >/dev/null 2>&1 || die "pmcd still knows jumpseat"
grep -q '^# mine' /etc/pcp/jumpseat/jumpseat.toml || die "the removal took the configuration"
compgen -G '/var/lib/pcp/config/pmda/400.*' >/dev/null || die "the removal took the identifiers"

say "$within: installed again, and where pmcd does not run"
stop_pmcd
installed /root/newer.deb
start_pmcd
eventually agent_answers || die "the agent is not there when pmcd starts"
# pmcd's script installs in the background, and looks at values after the agent has come
needs_nothing() { ! compgen -G '/var/lib/pcp/pmdas/jumpseat/.NeedInstall*' >/dev/null; }
eventually needs_nothing || eventually needs_nothing || die "pmcd's script has not done its work: $(ls -a /var/lib/pcp/pmdas/jumpseat)"
echo '{"type":"request","message":"once more"}' | jumpseat feed --source greeter
[ "$(identity)" = "$before" ] || die "the source has another identity"

say "$within: purge"
dpkg -P jumpseat >/root/dpkg 2>&1 || { cat /root/dpkg; die "dpkg -P"; }
files >/root/after
diff /root/before /root/after || die "purge leaves something, or takes too much"
! getent passwd jumpseat && ! getent group jumpseat || die "purge leaves the user"
! compgen -G '/run/pcp/jumpseat*' && ! compgen -G '/var/log/pcp/pmcd/jumpseat*' || die "purge leaves sockets or logs"
diff <(grep -v '^$' /root/pmcd.conf | sort) <(grep -v '^$' /etc/pcp/pmcd/pmcd.conf | sort) || die "pmcd.conf is not as before"
[ ! -e /root/stdpmid.local ] || diff /root/stdpmid.local /var/lib/pcp/pmns/stdpmid.local || die "stdpmid.local is not as before"
stop_pmcd
