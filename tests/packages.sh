#!/bin/bash
# Installs, upgrades, removes and purges the packages of target/packages (made by packaging/build deb rpm) in clean Debian 12
# and 13, and looks at events there as README.md does at first. The rpm goes into Debian as well, by its rpm and with a database
# of its own. Needs root and a Debian with debootstrap or with apt to install it.
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
# what the clean systems have
given="pcp procps adduser rpm"
say() { echo "package test: $*"; }
die() { say "FAILED: $*" >&2; exit 1; }

# the one that has the packages of this machine
mirror() {
	apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -v security | sed 's,/$,,' | sort -u | head -n 1
}

# needs PROGRAM PACKAGE
needs() {
	command -v "$1" >/dev/null || "$here/packaging/apt" "$2" || die "cannot install $2"
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
		# a root is a mount, to rpm as well
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
		exec chroot "$root" "$@"' sh "$root" env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		PATH=/opt/stub:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# where such a system is kept
clean() { echo "$kept/$1-${given// /-}.tar"; }

# prepare SUITE: a minimal system with PCP
prepare() {
	[ ! -e "$(clean "$1")" ] || return 0
	needs debootstrap debootstrap
	mkdir -p "$kept"
	local root
	root=$(mktemp -d "$kept/$1.XXXXXX")
	say "making a clean $1 with PCP, once"
	debootstrap --variant=minbase "$1" "$root" "$(mirror)" >"$root.out" 2>&1 || { tail -n 20 "$root.out"; die "debootstrap"; }
	quiet_services "$root"
	within "$root" apt-get install -q -y --no-install-recommends $given >"$root.out" 2>&1 ||
		{ tail -n 20 "$root.out"; die "cannot install $given in $1"; }
	within "$root" apt-get clean
	tar -C "$root" --one-file-system -cf "$kept/.$1.tar" .
	mv "$kept/.$1.tar" "$(clean "$1")"
	rm -rf "$root" "$root.out"
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
	"$here/tests/sbom.sh" "$tree/usr/share/doc/jumpseat/jumpseat.cdx.json.gz" || die "what is in the programs of the deb"
	# exposure of 2.0 at most
	found=$(systemd-analyze security --offline=true --threshold=20 "$tree/usr/lib/systemd/system/jumpseat.service" 2>&1) ||
		{ echo "$found"; die "jumpseat.service is not confined enough"; }
	say "$(echo "$found" | tail -n 1 | sed 's/^[^O]*//')"
	rm -rf "$tree"
}

# The rpm has what the deb has, where its own systems look for it; and the next one is made, with another configuration.
newer_rpm() {
	local tree made
	needs rpmbuild rpm
	needs cpio cpio
	diff <(dpkg-deb --fsys-tarfile "$1" | tar -t | sed 's,^\.,,; s,\(/doc/.*\)\.gz$,\1,' | grep -v -e '/$' -e /copyright -e /changelog | sort) \
		<(rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' "$2" | sed -n 's/^-[^ ]* //p' |
			sed 's,/zsh/site-functions/,/zsh/vendor-completions/,' | grep -v /licenses/ | sort) || die "the rpm has other files than the deb"
	tree=$(mktemp -d)
	made=$(mktemp -d)
	rpm2cpio "$2" | (cd "$tree" && cpio --quiet -idm)
	echo '# newer' >>"$tree/etc/pcp/jumpseat/jumpseat.toml"
	"$here/tests/sbom.sh" "$tree/usr/share/doc/jumpseat/jumpseat.cdx.json" || die "what is in the programs of the rpm"
	RPM_PAYLOAD=w1.zstdio "$here/packaging/rpm/make" "$tree" "$(rpm -qp --queryformat '%{VERSION}' "$2")" 2 "$made" >"$made/log" 2>&1 ||
		{ cat "$made/log"; die "cannot make another rpm"; }
	mv "$made"/*.rpm "$built/packages/.newer.rpm"
	rm -rf "$tree" "$made"
}

# trial SUITE: everything in a copy of that system, which goes with it
trial() {
	local suite=$1 root package
	package=$(ls "$built"/packages/jumpseat_*.deb)
	prepare "$suite"
	root=$(mktemp -d "$kept/$suite.XXXXXX")
	tar -C "$root" -xf "$(clean "$suite")"
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
	cp "$(ls "$built"/packages/jumpseat-*.rpm)" "$root/root/jumpseat.rpm"
	cp "$built/packages/.newer.rpm" "$root/root/newer.rpm"
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
ls "$built"/packages/jumpseat_*.deb "$built"/packages/jumpseat-*.rpm >/dev/null 2>&1 || die "needs packaging/build deb rpm"
[ $# -gt 0 ] || set -- bookworm trixie
looked_at "$(ls "$built"/packages/jumpseat_*.deb)"
newer_rpm "$(ls "$built"/packages/jumpseat_*.deb)" "$(ls "$built"/packages/jumpseat-*.rpm)"
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
		-o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/lib/apt -o -path /run -o -path /var/lib/pcp/tmp -o -path /var/tmp -o -path /opt/stub \) -prune -o -print |
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

# === the rpm, with the rpm of Debian and a database of its own
start_pmcd
# rpm_ COMMAND...: scriptlets that fail are only told of
rpm_() {
	rpm --define '_dbpath /var/lib/rpm' "$@" >/root/rpm 2>&1 </dev/null || { cat /root/rpm; die "rpm $*"; }
	! grep -iE 'scriptlet failed|^error' /root/rpm || { cat /root/rpm; die "rpm $*"; }
}
say "$within: $(rpm --version), install"
# what Debian's own packages have is there for rpm only if a package says so
! rpm --define '_dbpath /var/lib/rpm' -i /root/jumpseat.rpm >/root/rpm 2>&1 || die "the rpm does without PCP"
grep -q 'pcp >= 6.0 is needed' /root/rpm || { cat /root/rpm; die "the rpm does not ask for PCP"; }
{
	printf 'Name: debian\nVersion: 1\nRelease: 1\nSummary: What Debian has\nLicense: none\nBuildArch: noarch\n'
	printf 'Provides: shadow-utils\nProvides: pcp = %s\n' "$(dpkg-query -W -f '${Version}' pcp | sed 's/-.*//')"
	rpm -qp --requires /root/jumpseat.rpm | grep -E '^(/|lib|ld-|rtld)' | sort -u | sed 's/^/Provides: /'
	printf '%%description\nNothing but names.\n%%files\n'
} >/root/debian.spec
rpmbuild -bb --quiet --define '_topdir /root/rpmbuild' /root/debian.spec >/root/rpm 2>&1 || { cat /root/rpm; die "rpmbuild"; }
rpm_ -i /root/rpmbuild/RPMS/noarch/debian-1-1.noarch.rpm
# every system with rpm has it
mkdir -p /usr/share/licenses
files >/root/before
cp /etc/pcp/pmcd/pmcd.conf /root/pmcd.conf
rpm_ -U /root/jumpseat.rpm
agent_answers || { cat /root/rpm; die "the agent does not answer after the installation"; }
grep -q 'usermod -aG jumpseat' /root/rpm || { cat /root/rpm; die "nobody is told who may send events"; }
[ "$(stat -c %U "/proc/$(pminfo -f jumpseat.self.pid | sed -n 's/.*value //p')")" = pcp ] || die "the agent does not run as pcp"
[ "$(getent passwd jumpseat | cut -d : -f 6)" = /var/lib/jumpseat ] || die "no user jumpseat"
# contents, modes, owners, times
rpm_ -V jumpseat
echo '{"type":"login","message":"hello","user":"ann","ms":12}' | jumpseat feed --source greeter
pminfo -x jumpseat.event.recent >/root/recent 2>&1
grep -q 'value "hello"' /root/recent || { cat /root/recent; die "no event to be seen"; }
pmrep -s 2 -t 0.5 :jumpseat-sources >/root/view 2>&1 && grep -q greeter /root/view || { cat /root/view; die "pmrep :jumpseat-sources"; }

say "$within: upgrade of the rpm"
echo '# mine' >>/etc/pcp/jumpseat/jumpseat.toml
before=$(identity)
[ -n "$before" ] || die "no identity of the source"
rpm_ -U /root/newer.rpm
grep -q '^warning: .*jumpseat.toml created as .*rpmnew' /root/rpm || { cat /root/rpm; die "rpm does not tell of the new configuration"; }
grep -q '^# mine' /etc/pcp/jumpseat/jumpseat.toml || die "the upgrade replaced the user's configuration"
grep -q '^# newer' /etc/pcp/jumpseat/jumpseat.toml.rpmnew || die "no new configuration beside that of the user"
[ "$(rpm --define '_dbpath /var/lib/rpm' -q --queryformat '%{RELEASE}' jumpseat)" = 2 ] || die "no upgrade"
agent_answers || { cat /root/rpm; die "the agent does not answer after the upgrade"; }
echo '{"type":"request","message":"after the upgrade"}' | jumpseat feed --source greeter
[ "$(identity)" = "$before" ] || die "the source has another identity after the upgrade"
pminfo -x jumpseat.event.recent | grep -q 'after the upgrade' || die "no events after the upgrade"
[ "$(grep -c '^jumpseat[[:space:]]' /etc/pcp/pmcd/pmcd.conf)" = 1 ] || die "two lines in pmcd.conf"

say "$within: erase"
rpm_ -e jumpseat
grep -q '^warning: .*jumpseat.toml saved as .*rpmsave' /root/rpm || { cat /root/rpm; die "rpm does not tell of the configuration"; }
! grep -q jumpseat /etc/pcp/pmcd/pmcd.conf || die "a line is left in pmcd.conf"
answers || die "pmcd does not answer after the removal"
! pminfo jumpseat >/dev/null 2>&1 || die "pmcd still knows jumpseat"
# what rpm keeps by its rules: what the user changed, and what the agent wrote
files >/root/after
! diff /root/before /root/after >/root/left || die "the erasure took the configuration and the identifiers"
sed -n 's/^> //p' /root/left | grep -v -x -e /etc/pcp/jumpseat -e '/etc/pcp/jumpseat/jumpseat\.toml\.rpm\(new\|save\)' \
	-e '/var/lib/pcp/config/pmda/\(400\..*\|jumpseat-400-.*\)' >/root/more || true
[ ! -s /root/more ] && ! grep '^<' /root/left || { cat /root/left; die "the erasure leaves something, or takes too much"; }
compgen -G '/var/lib/pcp/config/pmda/400.*' >/dev/null || die "the erasure took the identifiers"

say "$within: the rpm where pmcd does not run, and all of it gone"
mv /etc/pcp/jumpseat/jumpseat.toml.rpmsave /etc/pcp/jumpseat/jumpseat.toml
stop_pmcd
rpm_ -U /root/newer.rpm
start_pmcd
eventually agent_answers || die "the agent is not there when pmcd starts"
eventually needs_nothing || eventually needs_nothing || die "pmcd's script has not done its work: $(ls -a /var/lib/pcp/pmdas/jumpseat)"
echo '{"type":"request","message":"once more"}' | jumpseat feed --source greeter
[ "$(identity)" = "$before" ] || die "the source has another identity"
# as docs/packages.md has it
(cd /var/lib/pcp/pmdas/jumpseat && ./Remove --purge </dev/null) >/root/remove 2>&1 || { cat /root/remove; die "Remove --purge"; }
rpm_ -e jumpseat
userdel jumpseat
files >/root/after
diff /root/before /root/after || die "something is left, or too much was taken"
! getent passwd jumpseat && ! getent group jumpseat || die "the user is left"
diff <(grep -v '^$' /root/pmcd.conf | sort) <(grep -v '^$' /etc/pcp/pmcd/pmcd.conf | sort) || die "pmcd.conf is not as before"
stop_pmcd
