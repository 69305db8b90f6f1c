#!/usr/bin/env bash
# Builds target/bulkhead_VERSION_ARCH.deb and bulkhead-witness_VERSION_ARCH.deb from the build results, for hosts with
# the same Debian release as this one. Prints their paths. `deb.sh DIRECTORY witness` builds the second one only, and
# `deb.sh DIRECTORY ceph` bulkhead-ceph_VERSION_ARCH.deb, which links Ceph's libraries.
# DEB_SYMBOLS=1 builds NAME-dbgsym_… of each, with the line tables; SOURCE_DATE_EPOCH is the time of all files in the
# packages.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# shellcheck disable=SC1091
. /etc/os-release
release=$version~deb${VERSION_ID:-0}
folder=${1:-target}
wanted=${2:-all}
program=${BULKHEAD_PROGRAM:-target/release/bulkhead}
witness=$(dirname "$program")/bulkhead-witness
ceph=${BULKHEAD_CEPH:-target/ceph/release/bulkhead-ceph}

die() {
    echo "deb: $*" >&2
    exit 1
}

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}
case "$wanted" in
ceph) [[ -x $ceph ]] || die "no $ceph: run 'make deb-ceph'" ;;
all | witness) [[ -x $witness ]] || die "no $witness: run 'make build' first" ;;
*) die "unknown package '$wanted': all, witness or ceph" ;;
esac
stages=$(mktemp -d)
trap 'rm -rf "$stages"' EXIT
mkdir -p "$folder"

# The fields that are equal in every package.
document() { # package
    local doc=$stages/$1/usr/share/doc/$1
    install -D -m 644 packaging/debian/copyright "$doc/copyright"
    {
        echo "$1 ($release) unstable; urgency=medium"
        printf '\n  * What changed stands in CHANGELOG.md.gz.\n\n'
        echo " -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date -uR -d "@$SOURCE_DATE_EPOCH")"
    } >"$doc/changelog"
    install -m 644 CHANGELOG.md "$doc/CHANGELOG.md"
    gzip -9n "$doc/changelog" "$doc/CHANGELOG.md"
}

# The packages that hold the libraries of its programs.
libraries() { # package
    local stage=$stages/$1 found
    # dpkg-shlibdeps wants a source package around it; one line is enough.
    mkdir "$stage/debian"
    echo "Source: $1" >"$stage/debian/control"
    found=$(cd "$stage" && dpkg-shlibdeps -O usr/bin/* 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    rm -r "$stage/debian"
    [[ -n $found ]] || die "dpkg-shlibdeps names no library of $1"
    echo "$found"
}

build_deb() { # stage, output
    (cd "$1" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0r md5sum) >"$1/DEBIAN/md5sums"
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group --build "$1" "$2" >/dev/null
    echo "$2"
}

# The files that a debugger needs in addition to the stripped binaries; it finds the files by their
# build ids.
symbols() { # package
    local stage=$stages/$1-dbgsym program id file
    mkdir -p "$stage/DEBIAN"
    for program in "$stages/$1"/usr/bin/*; do
        id=$(readelf -n "$program" | sed -n 's/.*Build ID: //p')
        [[ -n $id ]] || die "$program has no build id"
        file=$stage/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug
        install -d "$(dirname "$file")"
        objcopy --only-keep-debug --compress-debug-sections "$program" "$file"
        chmod 644 "$file"
    done
    sed -e "s/@PACKAGE@/$1/" -e "s/@VERSION@/$release/" -e "s/@ARCHITECTURE@/$architecture/" \
        packaging/debian/control-dbgsym >"$stage/DEBIAN/control"
    build_deb "$stage" "$folder/${1}-dbgsym_${release}_$architecture.deb"
}

package() { # package, control file, libraries, those that must fit before the package is unpacked
    local stage=$stages/$1 output=$folder/${1}_${release}_$architecture.deb
    [[ -z ${DEB_SYMBOLS:-} ]] || symbols "$1"
    [[ -n ${DEB_KEEP_SYMBOLS:-} ]] || strip --strip-unneeded "$stage"/usr/bin/*
    mkdir -p "$stage/DEBIAN"
    sed -e "s/@VERSION@/$release/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBRARIES@/$3/" \
        -e "s/@LIBRARY@/${4:-}/" "$2" >"$stage/DEBIAN/control"
    install -m 755 packaging/debian/postinst "$stage/DEBIAN/postinst"
    build_deb "$stage" "$output"
}

package_of_heads() {
    local needed openzfs after library
    mkdir -m 755 "$stages/bulkhead"
    PREFIX=/usr DESTDIR=$stages/bulkhead scripts/install.sh >/dev/null
    install -D -m 644 packaging/debian/lintian-overrides "$stages/bulkhead/usr/share/lintian/overrides/bulkhead"
    document bulkhead
    find "$stages/bulkhead/usr/share/man" -type f -exec gzip -9n {} +

    # Refuses an upgrade of a head that serves clients: dpkg runs it for this package, apt for all packages of a head.
    install -D -m 755 packaging/debian/preinst "$stages/bulkhead/usr/lib/bulkhead/apt-hook"
    install -D -m 644 packaging/debian/apt.conf "$stages/bulkhead/etc/apt/apt.conf.d/60bulkhead"
    mkdir "$stages/bulkhead/DEBIAN"
    install -m 755 packaging/debian/preinst "$stages/bulkhead/DEBIAN/preinst"
    echo /etc/apt/apt.conf.d/60bulkhead >"$stages/bulkhead/DEBIAN/conffiles"

    # The library's internal structures change from version to version without a new name. A binary for
    # bulkhead-libzpool already depends on that very version. As a Pre-Depends the relation prevents that dpkg replaces
    # the binary before the library fits.
    needed=$(libraries bulkhead)
    library=$(grep -o 'bulkhead-libzpool ([^)]*)' <<<"$needed" || true)
    if [[ -z $library ]]; then
        openzfs=$(pkg-config --modversion libzfs)
        after=${openzfs%.*}.$((${openzfs##*.} + 1))
        library="libzpool6linux (>= $openzfs), libzpool6linux (<< $after~)"
        needed="$needed, libzfs6linux"
    fi
    package bulkhead packaging/debian/control "$needed" "$library"
}

package_of_witness() {
    local stage=$stages/bulkhead-witness needed
    mkdir -m 755 "$stage"
    install -D -m 755 "$witness" "$stage/usr/bin/bulkhead-witness"
    install -D -m 644 /dev/null "$stage/usr/lib/systemd/system/bulkhead-witness.service"
    sed 's,[/a-z]*/bin/bulkhead,/usr/bin/bulkhead,g' packaging/systemd/bulkhead-witness.service \
        >"$stage/usr/lib/systemd/system/bulkhead-witness.service"
    install -d -m 755 "$stage/etc/bulkhead"
    document bulkhead-witness
    needed=$(libraries bulkhead-witness)
    package bulkhead-witness packaging/debian/control-witness "$needed"
}

package_of_ceph() {
    local stage=$stages/bulkhead-ceph needed
    mkdir -m 755 "$stage"
    install -D -m 755 "$ceph" "$stage/usr/bin/bulkhead-ceph"
    install -D -m 644 packaging/systemd/bulkhead-ceph@.service "$stage/usr/lib/systemd/system/bulkhead-ceph@.service"
    install -D -m 644 docs/guide/ceph.md "$stage/usr/share/doc/bulkhead-ceph/ceph.md"
    install -d -m 755 "$stage/etc/bulkhead"
    document bulkhead-ceph
    needed=$(libraries bulkhead-ceph)
    [[ $needed == *librbd1* && $needed != *zpool* ]] || die "bulkhead-ceph depends on $needed"
    package bulkhead-ceph packaging/debian/control-ceph "$needed"
}

case "$wanted" in
all) package_of_heads && package_of_witness ;;
witness) package_of_witness ;;
ceph) package_of_ceph ;;
esac
