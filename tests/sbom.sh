#!/bin/bash
# Whether lists of what is in the programs (CycloneDX), as packages have them, are true: tests/sbom.sh FILE...
#
# Each must be what packaging/build makes now, byte for byte; that must be valid by CycloneDX's own schema, whose validator is installed
# below target/, and have every crate that is linked into the programs, as Cargo.lock has it.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
validator="cyclonedx-python-lib[json-validation]==11.12.0"
tools=$built/sbom-validator
die() { echo "list test: FAILED: $*" >&2; exit 1; }

[ $# -gt 0 ] || { echo "usage: tests/sbom.sh FILE..." >&2; exit 2; }
packaging/build sbom
list=$(ls "$built"/packages/jumpseat-*.cdx.json) || die "packaging/build sbom makes none"
for file in "$@"; do
	case $file in *.gz) zcat "$file" ;; *) cat "$file" ;; esac | cmp - "$list" || die "$file is not what packaging/build makes"
done
if [ "$(cat "$tools/installed" 2>/dev/null)" != "$validator" ]; then
	rm -rf "$tools"
	python3 -m pip install --quiet --disable-pip-version-check --no-input --root-user-action=ignore --target "$tools" "$validator" \
		>"$built/pip.log" 2>&1 || { cat "$built/pip.log"; die "cannot install $validator"; }
	echo "$validator" >"$tools/installed"
fi
cargo tree --locked --package jumpseat --no-default-features --features export,web --edges normal --target x86_64-unknown-linux-gnu --prefix none --format '{p}' |
	cut -d ' ' -f 1,2 | sort -u |
	PYTHONPATH=$tools python3 -c '
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

text = open(sys.argv[1]).read()
document = json.loads(text)
fault = JsonStrictValidator(SchemaVersion.from_version(document["specVersion"])).validate_str(text)
if fault:
    sys.exit(f"list test: FAILED: {sys.argv[1]} is not valid: {fault}")
listed = {(part["name"], part["version"]): part for part in document["components"] + [document["metadata"]["component"]]}
linked = [(name, version.removeprefix("v")) for name, version in map(str.split, sys.stdin)]
if len(linked) < 100:
    sys.exit(f"list test: FAILED: cargo tree knows {len(linked)} crates only")
for name, version in linked:
    if (name, version) not in listed:
        sys.exit(f"list test: FAILED: {name} {version} is linked but not listed")
    if not listed[name, version].get("licenses"):
        sys.exit(f"list test: FAILED: {name} {version} has no licence")
version_of = document["specVersion"]
if sys.argv[2] in text:
    sys.exit("list test: FAILED: the list names a folder of this machine")
print(f"list test: ok: CycloneDX {version_of}, {len(linked)} crates linked, {len(listed)} listed")
' "$list" "$here"
