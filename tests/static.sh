#!/bin/bash
# Runs the static programs of target/packages (made by packaging/build tar) where there is nothing else: no libraries, no shell, no PCP.
# Then makes the image of them with buildah, and runs that as its recipe says. Needs root.
#
# Both in namespaces of their own (mounts, processes, network); the images are kept elsewhere than those of this machine.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
built=$(realpath -m "${CARGO_TARGET_DIR:-$here/target}")
say() { echo "static test: $*"; }
die() { say "FAILED: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root"
tarball=$(ls "$built"/packages/jumpseat-*-musl.tar.gz 2>/dev/null) || die "needs packaging/build tar"
if [ "${1:-}" != --inside ]; then
	command -v buildah >/dev/null || "$here/packaging/apt" buildah || die "cannot install buildah"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	tar -C "$work" -xzf "$tarball" --strip-components=1 --wildcards '*/jumpseat.cdx.json'
	"$here/tests/sbom.sh" "$work/jumpseat.cdx.json"
	# of its own: what buildah mounts is gone with it
	TRIAL=$work unshare --mount --propagation private --pid --net --fork --kill-child --mount-proc "$0" --inside
	exit
fi
work=$TRIAL
ip link set lo up
# the only ones there are in this namespace: the agent, and what keeps its sockets for the next
gone() { ! pgrep -x 'jumpseat.*' >/dev/null; }
stop() {
	pkill -x 'jumpseat.*'
	eventually gone || die "the agent does not end"
}
eventually() { for _ in $(seq 100); do ! "$@" || return 0; sleep 0.1; done; return 1; }

# === the tarball
root=$work/root
mkdir "$root"
tar -C "$root" -xzf "$tarball" --strip-components=1
for file in bin/jumpseat bin/jumpseat-export bin/jumpseat-web bin/pmdajumpseat share/man/man1/jumpseat-top.1 install/Install LICENSE-MIT jumpseat.cdx.json; do
	[ -s "$root/$file" ] || die "no $file in $tarball"
done
# what every system has
mkdir -p "$root"/{dev,proc,run,tmp,etc}
echo '127.0.0.1 localhost' >"$root/etc/hosts"
mount -t proc proc "$root/proc"
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
there() { env -i HOME=/ "$(command -v chroot)" "$root" "/bin/$1" "${@:2}"; }

say "$(basename "$tarball"): $(there jumpseat --version), $(stat -c %s "$root/bin/jumpseat") bytes"
there pmdajumpseat --version >"$work/said" || die "pmdajumpseat --version"
there jumpseat demo --seconds 3 >"$work/demo" 2>&1 || { cat "$work/demo"; die "the demo"; }
grep -q 'payment charge' "$work/demo" || { cat "$work/demo"; die "the demo shows no spans"; }
grep -q 'See it in a browser: *http://' "$work/demo" || { cat "$work/demo"; die "the demo has no page"; }
grep -q ' records, 0 missed --' "$work/demo" || { cat "$work/demo"; die "the demo shows no rates"; }

there jumpseat serve --socket /run/jumpseat.socket --state-dir /tmp >"$work/serve" 2>&1 &
answers() { there jumpseat info -h localhost -f jumpseat.self.version >"$work/said" 2>&1; }
eventually answers || { cat "$work/serve" "$work/said"; die "serve does not answer"; }
grep -q 'value "' "$work/said" || { cat "$work/said"; die "info"; }
echo '{"type":"login","message":"hello"}' | there jumpseat feed --socket /run/jumpseat.socket --source greeter || die "feed"
there jumpseat info -h localhost -x jumpseat.event.recent >"$work/said" || die "info -x"
grep -q 'value "hello"' "$work/said" || { cat "$work/said"; die "no event to be seen"; }
stop

# === the image
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/images" "$work/run" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot CARGO_TARGET_DIR=$built
"$here/packaging/build" oci >"$work/said" || { cat "$work/said"; die "packaging/build oci"; }
image=$(sed -n 's/.*image jumpseat:[^ ]* //p' "$work/said")
[ -n "$image" ] || { cat "$work/said"; die "no image"; }
"$here/packaging/build" oci >"$work/said" || { cat "$work/said"; die "packaging/build oci"; }
grep -q "$image" "$work/said" || { cat "$work/said"; die "the second image is not the first, $image"; }

told() { buildah inspect --type image --format "{{$1}}" "$image"; }
container=$(buildah from --pull-never "$image")
image_root=$(buildah mount "$container")
(cd "$image_root" && find . -type f | sort) >"$work/said"
diff "$work/said" - <<-FILES || die "other files are in the image"
	./bin/jumpseat
	./bin/jumpseat-export
	./bin/jumpseat-web
	./usr/share/doc/jumpseat/LICENSE-APACHE
	./usr/share/doc/jumpseat/LICENSE-MIT
	./usr/share/doc/jumpseat/jumpseat.cdx.json
FILES
cmp "$image_root/usr/share/doc/jumpseat/jumpseat.cdx.json" "$root/jumpseat.cdx.json" || die "another list of what is in the image"
cmp "$image_root/bin/jumpseat" "$root/bin/jumpseat" || die "another program is in the image"
[ "$(told .OCIv1.Config.User)" = 65534:65534 ] || die "the image is not nobody's"
[ "$(told .OCIv1.Config.ExposedPorts)" = 'map[4318/tcp:{} 44321/tcp:{}]' ] || die "ports: $(told .OCIv1.Config.ExposedPorts)"
[ "$(told .OCIv1.Config.Volumes)" = 'map[/var/lib/jumpseat:{}]' ] || die "volumes: $(told .OCIv1.Config.Volumes)"

# as an engine runs it: by its entry point and command, as its user
mapfile -t command < <(buildah inspect --type image "$image" | jq -r '.OCIv1.config | (.Entrypoint + .Cmd)[]')
say "image ${image:0:12}: ${command[*]}"
buildah run "$container" -- "${command[@]}" >"$work/serve" 2>&1 &
answers() { there jumpseat info -h 127.0.0.1 -f jumpseat.self.pid >"$work/said" 2>&1; }
eventually answers || { cat "$work/serve" "$work/said"; die "the image does not answer"; }
pid=$(pgrep -x jumpseat)
grep -qE "^Uid:\s+65534\s+65534" "/proc/$pid/status" || { grep Uid "/proc/$pid/status"; die "the agent of the image is not nobody"; }
curl --silent --show-error --fail -H 'Content-Type: application/json' http://127.0.0.1:4318/v1/logs -d '{"resourceLogs":[{"resource":
	{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeLogs":[{"logRecords":[{"body":{"stringValue":"sold"}}]}]}]}' \
	>"$work/curl" || die "OTLP"
there jumpseat info -h 127.0.0.1 -x jumpseat.event.recent >"$work/said" || die "info -x"
grep -q 'value "sold"' "$work/said" || { cat "$work/said"; die "no record of OTLP to be seen"; }
[ -n "$(find "$image_root/var/lib/jumpseat" "$work/images" -name 400.1 -print -quit)" ] || die "identifiers are not kept in the volume"
stop
say "ok"
