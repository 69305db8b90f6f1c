#!/usr/bin/env bash
# Builds a release of HEAD in target/release-VERSION: the packages bulkhead, bulkhead-witness and (unless NO_LIBZPOOL=1)
# bulkhead-libzpool, their debug symbols apart, a list of their contents (CycloneDX), the notes of the version and
# checksums.
#
#   scripts/release.sh            builds once
#   scripts/release.sh --twice    builds twice, and fails if a package differs
#
# Builds the committed tree, always in the same directory: LTO names symbols by a hash that depends on it. No package
# contains names of directories of this host.
# ONLY=witness builds the witness alone, to try the procedure in minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD

die() {
    echo "release: $*" >&2
    exit 1
}

twice=
[[ ${1:-} == --twice ]] && twice=yes
[[ -z ${1:-} || -n $twice ]] || die "unknown argument $1: nothing, or --twice"
only=${ONLY:-}
[[ -z $only || $only == witness ]] || die "ONLY=$only: nothing, or witness"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
grep -q "^## $version\$" CHANGELOG.md || die "CHANGELOG.md has no section $version"
[[ -z $(git status --porcelain) ]] || echo "release: what is not committed is not in the release" >&2
# All builds are of this commit, also if there are later ones by then.
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
output=$repository/target/release-$version
rm -rf "$output"
mkdir -p "$output"
readonly source=/var/tmp/bulkhead-release
work=$(mktemp -d "$repository/target/release-build-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$source" || die "$source is the directory of the build: remove it, or wait for the other build"
trap 'rm -rf "$work" "$source"' EXIT
cargo_home=${CARGO_HOME:-$HOME/.cargo}

# Builds, and stores the packages.
build() { # directory of the packages
    local packages=(-p bulkhead -p bulkhead-witness) map
    [[ -z $only ]] || packages=(-p bulkhead-witness)
    rm -rf "${source:?}"/*
    mkdir -p "$1"
    git archive "$commit" | tar -x -C "$source"
    map="$source=/usr/src/bulkhead"
    (
        cd "$source"
        if [[ -z $only ]]; then
            [[ ! -d $repository/console/node_modules ]] || cp -a "$repository/console/node_modules" console/
            scripts/console.sh >&2
        fi
        export CARGO_TARGET_DIR=$source/target CARGO_INCREMENTAL=0
        export RUSTFLAGS="--remap-path-prefix=$map --remap-path-prefix=$cargo_home=/usr/src/cargo"
        export CFLAGS="-ffile-prefix-map=$map -ffile-prefix-map=$cargo_home=/usr/src/cargo"
        scripts/cargo.sh build --release --locked "${packages[@]}" >&2
        DEB_SYMBOLS=1 scripts/deb.sh "$1" ${only:+"$only"} >&2
    )
}

# Verifies that a package contains no path of this host.
names_of_directories() { # package
    local stage=$work/unpacked
    rm -rf "$stage"
    dpkg-deb --extract "$1" "$stage"
    ! grep -rlaF -e "$source" -e "$repository/" -e "$cargo_home/" "$stage" ||
        die "$(basename "$1") names directories of this machine"
}

build "$output"
for package in "$output"/*.deb; do
    names_of_directories "$package"
done
if [[ -n $twice ]]; then
    build "$work/again"
    different=()
    for package in "$output"/*.deb; do
        name=$(basename "$package")
        cmp "$package" "$work/again/$name" || different+=("$name")
    done
    if [[ ${#different[@]} -gt 0 ]]; then
        mv "$work/again" "$output-again"
        die "two builds differ: ${different[*]}; the second packages are in $output-again"
    fi
    echo "release: two builds are the same"
fi
if [[ -z $only && -z ${NO_LIBZPOOL:-} ]]; then
    scripts/libzpool.sh ${twice:+--twice} >&2
    cp target/bulkhead-libzpool_*.deb "$output/"
fi
scripts/sbom.py "$version" "$SOURCE_DATE_EPOCH" >"$output/bulkhead-$version.cdx.json"
sed -n "/^## $version\$/,/^## /{/^## /d;p}" CHANGELOG.md >"$output/NOTES.md"
(cd "$output" && sha256sum -- * >SHA256SUMS)
cat "$output/SHA256SUMS"
