#!/usr/bin/env bash
# Builds target/bulkhead-libzpool_VERSION_ARCH.deb: the OpenZFS library of the Debian package that is installed here,
# built from Debian's source without debugging checks. See docs/guide/libzpool.md.
#
#   scripts/libzpool.sh             builds and packs
#   scripts/libzpool.sh --twice     builds in two folders, and fails if the packages differ
#
# apt fetches the source and verifies it, by the archive's signature. ORIG_ONLY=1 uses OpenZFS's release without
# Debian's patches, for an archive that has lost them; the package's version shows that. JOBS is the number of
# compilers.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly library=libzpool-bulkhead.so.6
readonly place=usr/lib/bulkhead/libzpool
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly jobs=${JOBS:-$(nproc)}
readonly orig_only=${ORIG_ONLY:-}
repository=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

die() {
    echo "libzpool: $*" >&2
    exit 1
}

# The version of the source package that the installed library was made from.
source_version() {
    dpkg-query -W -f '${source:Version}' libzpool6linux 2>/dev/null || die "libzpool6linux is not installed: run \`make deps\`"
}

# Debian's sections in apt's configuration here that can have OpenZFS, as sources. In private directories: the host's
# apt is not changed.
prepare_apt() {
    mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,source}
    apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(RELEASE) $(COMPONENT)' |
        awk -v keys="$keyring" '$1 == "Packages" && $4 == "contrib" { print "deb-src [signed-by=" keys "]", $2, $3, $4 }' |
        sort -u >"$work/apt/sources.list"
    [[ -s $work/apt/sources.list ]] || die "apt knows no contrib section here: run \`make deps\`"
    apt_options=(-o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=)
    apt-get "${apt_options[@]}" -q update
}

fetch() { # version
    local only=()
    prepare_apt
    [[ -z $orig_only ]] || only=(--tar-only)
    # apt refuses sources that it cannot verify.
    (cd "$work/apt/source" && apt-get "${apt_options[@]}" -q source --download-only "${only[@]}" "zfs-linux=$1") ||
        die "apt could not fetch the source of zfs-linux $1. If the archive has a newer one, update libzpool6linux first." \
            "If it has lost Debian's part of it, ORIG_ONLY=1 builds without Debian's patches."
}

unpack() { # directory
    if [[ -n $orig_only ]]; then
        mkdir "$1"
        tar -x --strip-components=1 -C "$1" -f "$work"/apt/source/zfs-linux_*.orig.tar.*
    else
        dpkg-source --extract "$work"/apt/source/zfs-linux_*.dsc "$1"
    fi
    # Patches touch files that are inputs of generated files; the generated files are as they were
    # released.
    (cd "$1" && touch aclocal.m4 && sleep 1 && touch configure zfs_config.h.in && find . -name Makefile.in -exec touch {} +)
}

# The program's part is compiled with the headers that are installed: they must be those of the source.
same_headers() { # directory
    local root header found candidate count=0
    for root in /usr/include/libzfs /usr/include/libspl; do
        while read -r header; do
            found=
            for candidate in include include/os/linux lib/libspl/include lib/libspl/include/os/linux lib/libzpool/include; do
                cmp -s "$root/$header" "$1/$candidate/$header" && found=yes && break
            done
            [[ -n $found ]] || die "$root/$header is not that of the source: install the libzfslinux-dev of the same version"
            count=$((count + 1))
        done < <(cd "$root" && find . -name '*.h')
    done
    ((count > 100)) || die "only $count headers of libzfslinux-dev were found"
}

# Times in the package, independent of the builder.
source_time() { # directory
    if [[ -n $orig_only ]]; then
        stat -c %Y "$1/META"
    else
        dpkg-parsechangelog -l "$1/debian/changelog" -S Timestamp
    fi
}

build() { # directory
    cd "$1"
    # Debian's flags, with the folder's name mapped away.
    eval "$(DEB_BUILD_MAINT_OPTIONS='hardening=+all reproducible=+fixfilepath' dpkg-buildflags --export=sh)"
    # Where Debian's libraries are, of which it uses some: they are found without a search path in the file.
    ./configure --quiet --with-config=user --disable-pyzfs --disable-systemd --disable-pam --without-python \
        --prefix=/usr --libdir="/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" >configure.log 2>&1 || die "configure failed: $(tail -n 5 configure.log)"
    # A library that is not installed yet would search the directory in which it was built.
    sed -i -e 's/^hardcode_libdir_flag_spec=.*/hardcode_libdir_flag_spec=""/' -e 's/^runpath_var=.*/runpath_var=NO_SUCH_VARIABLE/' libtool
    # The version stays; the name becomes one that no other binary depends on.
    local linked
    linked=$(make --no-print-directory -f Makefile -f - print <<<'print: ; @echo $(libzpool_la_LDFLAGS)' 2>/dev/null)
    [[ $linked == *-version-info\ 6:* ]] || die "libzpool's interface is not 6 any more: $linked"
    make -j"$jobs" LIBZPOOL_CPPFLAGS='-UDEBUG -DNDEBUG' libzpool_la_LDFLAGS="$linked -release bulkhead" libzpool.la \
        >make.log 2>&1 || die "make failed: $(tail -n 20 make.log)"
    cd "$repository"
}

# The exports of the library: all of Debian's, except those that only its checks need.
same_interface() { # built library
    local debian lost checks='^(zfs_refcount_|arc_referenced$|dmu_tx_dirty_buf$|dnode_verify$|reference_tracking_enable$|txg_verify$|zrl_owner$)'
    debian=$(readlink -f "$(cc -print-file-name=libzpool.so)")
    exported() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort -u; }
    lost=$(comm -23 <(exported "$debian") <(exported "$1") | grep -Ev "$checks" || true)
    [[ -z $lost ]] || die "without checks the library lacks: $lost"
    ! exported "$1" | grep -q '^zfs_refcount_add$' || die "the library has its checks after all"
    ! readelf -d "$1" | grep -Eq 'RPATH|RUNPATH' || die "the library searches folders of its build"
}

pack() { # directory, output
    local stage=$work/stage built version architecture libraries doc
    architecture=$(dpkg --print-architecture)
    rm -rf "$stage"
    built=$(readlink -f "$1/.libs/$library")
    same_interface "$built"
    install -D -m 644 "$built" "$stage/$place/$library"
    strip --strip-unneeded "$stage/$place/$library"
    ln -s "$library" "$stage/$place/${library%.6}"
    doc=$stage/usr/share/doc/bulkhead-libzpool
    install -D -m 644 packaging/libzpool/copyright "$doc/copyright"
    for text in COPYRIGHT LICENSE NOTICE; do
        install -m 644 "$1/$text" "$doc/$text.openzfs"
    done
    mkdir "$stage/debian"
    echo "Source: bulkhead-libzpool" >"$stage/debian/control"
    libraries=$(cd "$stage" && dpkg-shlibdeps -O "$place/$library" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
    rm -r "$stage/debian"
    [[ -n $libraries ]] || die "dpkg-shlibdeps names no library"
    mkdir "$stage/DEBIAN"
    sed -e "s/@VERSION@/$package_version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@SOURCE@/$debian_version/" \
        -e "s/@LIBRARIES@/$libraries/" packaging/libzpool/control >"$stage/DEBIAN/control"
    # A binary loads the build that it was linked with.
    echo "libzpool-bulkhead 6 bulkhead-libzpool (= $package_version)" >"$stage/DEBIAN/shlibs"
    (cd "$stage" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k2) >"$stage/DEBIAN/md5sums"
    find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --root-owner-group --build "$stage" "$2" >/dev/null
}

debian_version=$(source_version)
package_version=$debian_version+bulkhead1
[[ -z $orig_only ]] || package_version=${debian_version%-*}+orig+bulkhead1
readonly debian_version package_version
output=target/bulkhead-libzpool_${package_version}_$(dpkg --print-architecture).deb
mkdir -p target

fetch "$debian_version"
make_once() { # output
    local folder
    folder=$(mktemp -d "$work/build-XXXXXX")/source
    unpack "$folder"
    same_headers "$folder"
    SOURCE_DATE_EPOCH=$(source_time "$folder")
    export SOURCE_DATE_EPOCH
    build "$folder"
    pack "$folder" "$1"
    rm -rf "$folder"
}
make_once "$output"
if [[ ${1:-} == --twice ]]; then
    make_once "$work/again.deb"
    cmp "$output" "$work/again.deb" || die "two builds differ"
    echo "two builds are the same"
fi
sha256sum "$output"
