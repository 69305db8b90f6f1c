#!/usr/bin/env bash
# Makes target/bulkhead_VERSION_ARCH.deb of what was built, for machines with the same Debian
# release as this one.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# shellcheck disable=SC1091
. /etc/os-release
output=${1:-target}/bulkhead_${version}~deb${VERSION_ID:-0}_$architecture.deb

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
PREFIX=/usr DESTDIR=$stage scripts/install.sh >/dev/null
doc=$stage/usr/share/doc/bulkhead
install -m 644 packaging/debian/copyright "$doc/copyright"
{
    echo "bulkhead ($version~deb${VERSION_ID:-0}) unstable; urgency=medium"
    printf '\n  * What changed stands in CHANGELOG.md.gz.\n\n'
    echo " -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date -uR -r CHANGELOG.md)"
} >"$doc/changelog"
install -D -m 644 packaging/debian/lintian-overrides "$stage/usr/share/lintian/overrides/bulkhead"
find "$stage/usr/share/man" "$doc/changelog" "$doc/CHANGELOG.md" -type f -exec gzip -9n {} +
[[ -n ${DEB_KEEP_SYMBOLS:-} ]] || strip --strip-unneeded "$stage"/usr/bin/bulkhead*

# dpkg-shlibdeps wants a source package around it; one line is enough.
mkdir "$stage/debian"
echo "Source: bulkhead" >"$stage/debian/control"
libraries=$(cd "$stage" && dpkg-shlibdeps -O usr/bin/bulkhead* 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p')
rm -r "$stage/debian"
[[ -n $libraries ]] || {
    echo "deb: dpkg-shlibdeps names no library" >&2
    exit 1
}

# The library's inner structures change from version to version while its name stays.
openzfs=$(pkg-config --modversion libzfs)
after=${openzfs%.*}.$((${openzfs##*.} + 1))
libraries="$libraries, libzpool6linux (>= $openzfs), libzpool6linux (<< $after~), libzfs6linux"

mkdir "$stage/DEBIAN"
sed -e "s/@VERSION@/$version~deb${VERSION_ID:-0}/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@LIBRARIES@/$libraries/" packaging/debian/control >"$stage/DEBIAN/control"
install -m 755 packaging/debian/postinst "$stage/DEBIAN/postinst"
(cd "$stage" && find usr etc -type f -exec md5sum {} +) >"$stage/DEBIAN/md5sums"
mkdir -p "$(dirname "$output")"
dpkg-deb --root-owner-group --build "$stage" "$output" >/dev/null
echo "$output"
