#!/usr/bin/env bash
# Installs the packages for building (`build`), testing (`test`, or `check` with the runner of the tests of the crates)
# or measuring (`bench`) Bulkhead, or for building its ZFS library (`libzpool`) or the witness alone (`witness`), on
# Debian 12 or 13, as root. Returns quickly if all packages are installed already.
set -euo pipefail
# A check installs once for all of its steps.
[[ -z ${BULKHEAD_PREPARED:-} ]] || exit 0

readonly zfs_version='2.3.*'
readonly sources=/etc/apt/sources.list.d/bulkhead.sources
readonly rust_minor_min=85
readonly node_major_min=18
# The newest one that Rust 1.85 builds.
readonly nextest_version=0.9.100

die() {
    echo "deps: $*" >&2
    exit 1
}

# Packages by purpose.
build_packages=(build-essential pkg-config git ca-certificates python3 libjemalloc-dev)
# The interface of Kerberos; its bindings are made by clang.
kerberos_packages=(libkrb5-dev libclang-dev)
zfs_packages=("libzfslinux-dev=$zfs_version" "libzpool6linux=$zfs_version"
    "libnvpair3linux=$zfs_version" "libzfs6linux=$zfs_version")
# zdb verifies our pools; the kernel modules that zfsutils recommends are not wanted. nbdinfo calls
# file for the type of the contents. The line before the last creates the contents of guests' disks.
test_packages=("zfsutils-linux=$zfs_version" libiscsi-bin libnbd-bin python3-libnbd qemu-utils
    qemu-block-extra fio sg3-utils openssl iproute2 man-db fdisk
    corosync pacemaker pacemaker-cli-utils resource-agents libxml2-utils
    fence-agents ipmitool openipmi snmp snmpd nut-server nut-client
    corosync-qdevice corosync-qnetd libnss3-tools iputils-ping python3-venv prometheus chromium file
    dropbear-bin openssh-client
    iperf3
    e2fsprogs xfsprogs btrfs-progs ntfs-3g dosfstools exfatprogs lvm2 cryptsetup-bin
    krb5-kdc krb5-user krb5-admin-server python3-gssapi)
bench_packages=(tgt nbdkit nfs-ganesha nfs-ganesha-vfs)
# Dependencies of OpenZFS when only its library for user space is built.
libzpool_packages=(dpkg-dev libblkid-dev uuid-dev libudev-dev libtirpc-dev libssl-dev zlib1g-dev libaio-dev)
# The tools that build and run the guest of proof.linux; the guest's own packages are only unpacked. The last line is
# for filebench: its build dependencies, and the peers in the comparison.
linux_packages=(qemu-system-x86 cpio kmod linux-source iproute2 make libelf-dev attr
    autoconf automake libtool flex bison nfs-ganesha nfs-ganesha-vfs)
# Ceph's tools, which plans of growth run, the daemons of a small cluster, and the libraries of the engine on Ceph: 200
# MB, so only for the nightly runs.
ceph_packages=(ceph-base ceph-common ceph-mon ceph-mgr ceph-osd librados-dev librbd-dev)

# shellcheck disable=SC1091
. /etc/os-release
case "${ID:-}:${VERSION_CODENAME:-}" in
debian:bookworm) zfs_suite=bookworm-backports ;;
debian:trixie) zfs_suite=trixie ;;
*) die "this is ${PRETTY_NAME:-unknown}; Debian 12 or 13 is supported. On others install OpenZFS" \
    "$zfs_version with its development files, jemalloc and Rust 1.$rust_minor_min or newer by hand." ;;
esac

is_installed() {
    local name=${1%%=*} wanted=*
    [[ $1 == *=* ]] && wanted=${1#*=}
    local found
    found=$(dpkg-query -W -f '${db:Status-Abbrev}|${Version}' "$name" 2>/dev/null) || return 1
    # The right side is a pattern on purpose.
    # shellcheck disable=SC2053
    [[ ${found%%|*} == ii* && ${found#*|} == $wanted ]]
}

# The archive that this host already uses, so that mirrors and proxies are respected.
own_archive() {
    apt-get indextargets --format '$(REPO_URI)|$(RELEASE)|$(COMPONENT)' |
        awk -F'|' -v suite="$VERSION_CODENAME" '$2 == suite && $3 == "main" { print $1; exit }'
}

has_component() {
    apt-get indextargets --format '$(RELEASE)|$(COMPONENT)' | grep -qx "$1|$2"
}

# OpenZFS is in contrib, on Debian 12 in its backports. The file is written only where the
# machine's own sources lack them, and stays: without it OpenZFS would get no updates.
add_sources() {
    has_component "$zfs_suite" contrib && return
    local archive components="main contrib"
    # Packages that the host has already are not named twice.
    has_component "$zfs_suite" main && components=contrib
    archive=$(own_archive)
    [[ -n $archive ]] || die "found no archive of $VERSION_CODENAME main in apt's sources"
    {
        echo "# Written by Bulkhead's scripts/deps.sh: OpenZFS is in Debian's contrib section."
        echo "# Keep it for updates of OpenZFS; remove it together with those packages only."
        echo "Types: deb"
        echo "URIs: ${archive%/}"
        echo "Suites: $zfs_suite"
        echo "Components: $components"
        echo "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg"
    } >"$sources"
    echo "deps: added contrib of $zfs_suite in $sources"
    apt-get update -q
}

# Installing a target or a cluster must not start it on this host.
hold_services() {
    [[ -e /usr/sbin/policy-rc.d ]] && return
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
}

install_packages() {
    local missing=() package
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [[ ${#missing[@]} -eq 0 ]] && return
    [[ $(id -u) -eq 0 ]] || die "needs root to install: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    add_sources
    hold_services
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

rust_is_new_enough() {
    local version
    version=$("$(dirname "$0")/cargo.sh" --version 2>/dev/null) || return 1
    [[ $version =~ ^cargo\ 1\.([0-9]+)\. && ${BASH_REMATCH[1]} -ge $rust_minor_min ]]
}

install_rust() {
    rust_is_new_enough && return
    case "$VERSION_CODENAME" in
    bookworm) install_packages rustc-web cargo-web rustfmt-web rust-web-clippy ;;
    *) install_packages rustc cargo rustfmt rust-clippy ;;
    esac
    rust_is_new_enough || die "no Rust 1.$rust_minor_min or newer: install it with rustup"
}

node_is_new_enough() {
    local version
    version=$(node --version 2>/dev/null) || return 1
    [[ $version =~ ^v([0-9]+)\. && ${BASH_REMATCH[1]} -ge $node_major_min ]] && command -v npm >/dev/null
}

# The console is built by node, from wherever it is.
install_node() {
    node_is_new_enough && return
    install_packages nodejs npm
    node_is_new_enough || die "no Node.js $node_major_min or newer with npm: install both by hand."
}

nextest_is_there() {
    "$(dirname "$0")/cargo.sh" nextest --version 2>/dev/null | grep -q " $nextest_version"
}

# The runner for the tests of the crates. Built without optimization: it is mostly idle.
install_nextest() {
    nextest_is_there && return
    "$(dirname "$0")/cargo.sh" install --locked --debug --no-default-features --features default-no-update \
        --version "$nextest_version" cargo-nextest
}

need=${1:-test}
case "$need" in
witness) install_packages "${build_packages[@]}" ;;
build) install_packages "${build_packages[@]}" "${kerberos_packages[@]}" "${zfs_packages[@]}" ;;
test | check) install_packages "${build_packages[@]}" "${kerberos_packages[@]}" "${zfs_packages[@]}" "${test_packages[@]}" ;;
bench) install_packages "${build_packages[@]}" "${kerberos_packages[@]}" "${zfs_packages[@]}" "${test_packages[@]}" \
    "${bench_packages[@]}" ;;
linux) install_packages "${build_packages[@]}" "${kerberos_packages[@]}" "${zfs_packages[@]}" "${test_packages[@]}" \
    "${linux_packages[@]}" "${ceph_packages[@]}" ;;
ceph) install_packages "${build_packages[@]}" "${kerberos_packages[@]}" "${zfs_packages[@]}" "${ceph_packages[@]}" ;;
libzpool) install_packages "${build_packages[@]}" "${zfs_packages[@]}" "${libzpool_packages[@]}" ;;
*) die "unknown set '$need': witness, build, test, check, bench, linux, ceph or libzpool" ;;
esac
install_rust
[[ $need == witness ]] || install_node
[[ $need != check ]] || install_nextest
