#!/usr/bin/env bash
# Adds packages to a signed apt repository in target/repository, for any web server, with a suite for each release of
# Debian:
#
#   REPOSITORY_KEY=KEY scripts/repository.sh [DIRECTORY…]
#
# Each DIRECTORY (target/release-VERSION) holds the packages for one release of Debian, as its package bulkhead names
# it. Packages of earlier runs stay, for the way back. KEY is the id of a secret key of GnuPG, or a directory (GNUPGHOME)
# that has one. REPOSITORY is another directory for the output. The same packages, key and SOURCE_DATE_EPOCH result in
# the same files.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=${REPOSITORY:-target/repository}
readonly keyring=bulkhead-archive-keyring

die() {
    echo "repository: $*" >&2
    exit 1
}

for tool in gpg dpkg-scanpackages dpkg-deb; do
    command -v "$tool" >/dev/null || die "no $tool: apt install gnupg dpkg-dev"
done

# The key.
key=${REPOSITORY_KEY:-}
[[ -n $key ]] || die "name the key that signs the repository: REPOSITORY_KEY=KEY, an id that 'gpg --list-secret-keys' shows, or a directory with one key. Nothing was changed"
if [[ -d $key ]]; then
    GNUPGHOME=$(realpath "$key")
    export GNUPGHOME
    key=
fi
# The fields of a secret key with colons: 5 is its id, 6 the time of its creation.
mapfile -t secret < <(gpg --batch --with-colons --list-secret-keys ${key:+"$key"} 2>/dev/null | grep '^sec:' || true)
[[ ${#secret[@]} -eq 1 ]] || die "${#secret[@]} secret keys match ${key:-the directory $GNUPGHOME}, not one. Nothing was changed"
IFS=: read -r _ _ _ _ id created _ <<<"${secret[0]}"

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
# A signature is not older than its key.
[[ $SOURCE_DATE_EPOCH -ge $created ]] || SOURCE_DATE_EPOCH=$created
export SOURCE_DATE_EPOCH

sign() { # arguments of gpg
    gpg --batch --yes --local-user "$id" --digest-algo SHA512 --faked-system-time "$SOURCE_DATE_EPOCH!" "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ $# -gt 0 ]] || set -- "target/release-$version"

# The suite of the packages in a directory.
suite_of() { # directory
    local found
    found=$(find "$1" -maxdepth 1 -name 'bulkhead_*~deb*_*.deb' | sed -n 's/.*~deb\([0-9]*\)_.*/\1/p' | sort -u)
    case "$found" in
    12) echo bookworm ;;
    13) echo trixie ;;
    '') die "$1 holds no package bulkhead_…~debNN_…: run 'make release' or 'make deb'" ;;
    *) die "$1 holds packages for more than one release of Debian, or for another one: $found" ;;
    esac
}

# All packages are checked before the repository is changed.
for directory in "$@"; do
    suite=$(suite_of "$directory")
    mkdir -p "$work/pool/$suite/main"
    while IFS= read -r package; do
        dpkg-deb --info "$package" >/dev/null || die "$package is no package"
        name=$(basename "$package")
        there=$repository/pool/$suite/main/$name
        # apt refuses another file of the same version.
        [[ ! -e $there ]] || cmp -s "$package" "$there" || die "$name is in the repository already, and differs: give it a new version"
        cp "$package" "$work/pool/$suite/main/"
    done < <(find "$directory" -maxdepth 1 -name '*.deb' | LC_ALL=C sort)
done

# The package with the public key; its version is the day of the key.
build_keyring() {
    local stage=$work/keyring key_version output
    key_version=$(date -u -d "@$created" +%Y.%m.%d)
    install -d -m 755 "$stage" "$stage/DEBIAN" "$stage/usr/share/keyrings"
    gpg --batch --export --export-options export-minimal "$id" >"$stage/usr/share/keyrings/$keyring.gpg"
    chmod 644 "$stage/usr/share/keyrings/$keyring.gpg"
    install -D -m 644 packaging/debian/copyright "$stage/usr/share/doc/$keyring/copyright"
    sed "s/@VERSION@/$key_version/" packaging/repository/control >"$stage/DEBIAN/control"
    find "$stage" -exec touch -h -d "@$created" {} +
    output=$work/${keyring}_${key_version}_all.deb
    SOURCE_DATE_EPOCH=$created dpkg-deb --root-owner-group --build "$stage" "$output" >/dev/null
    echo "$output"
}
keyring_package=$(build_keyring)

for suite in "$work"/pool/*; do
    cp "$keyring_package" "$suite/main/"
done
mkdir -p "$repository"
cp -r "$work/pool" "$repository/"
# The key for a host that does not trust it yet.
cp "$work/keyring/usr/share/keyrings/$keyring.gpg" "$repository/"

# The lists of one suite.
list() { # suite
    local suite=$1 dist=$work/dists/$1 architectures architecture
    mapfile -t architectures < <(find "$repository/pool/$suite" -name '*.deb' | sed -n 's/.*_\([a-z0-9]*\)\.deb$/\1/p' | grep -vx all | LC_ALL=C sort -u)
    for architecture in "${architectures[@]}"; do
        mkdir -p "$dist/main/binary-$architecture"
        (cd "$repository" && dpkg-scanpackages --multiversion --arch "$architecture" "pool/$suite" 2>/dev/null) \
            >"$dist/main/binary-$architecture/Packages"
        gzip -9nk "$dist/main/binary-$architecture/Packages"
    done
    {
        echo "Origin: Bulkhead"
        echo "Label: Bulkhead"
        echo "Suite: $suite"
        echo "Codename: $suite"
        echo "Date: $(date -uR -d "@$SOURCE_DATE_EPOCH")"
        echo "Architectures: ${architectures[*]}"
        echo "Components: main"
        echo "Description: Bulkhead for Debian $suite"
        echo "SHA256:"
        (cd "$dist" && find main -type f -printf '%P %s\n' | LC_ALL=C sort) | while read -r file size; do
            echo " $(sha256sum "$dist/main/$file" | cut -d ' ' -f 1) $size main/$file"
        done
    } >"$dist/Release"
    sign --clearsign --output "$dist/InRelease" "$dist/Release"
    sign --armor --detach-sign --output "$dist/Release.gpg" "$dist/Release"
}

for pool in "$repository"/pool/*; do
    suite=$(basename "$pool")
    list "$suite"
    mkdir -p "$repository/dists"
    # A web server that is read now has the old lists or the new ones.
    rm -rf "$repository/dists/$suite.old"
    [[ ! -e $repository/dists/$suite ]] || mv "$repository/dists/$suite" "$repository/dists/$suite.old"
    mv "$work/dists/$suite" "$repository/dists/$suite"
    rm -rf "$repository/dists/$suite.old"
    echo "$repository/dists/$suite: $(grep -h '^Package: ' "$repository/dists/$suite"/main/*/Packages | wc -l) packages"
done
