#!/usr/bin/env bash
# Writes a simulated map of a Ceph cluster, for `bulkhead growth plan --osdmap`: hosts with disks of one size, in racks if
# their number is given, and one pool `rbd` with about 100 copies a disk (3 copies). Needs Debian's ceph-base.
set -euo pipefail

if (($# < 5)); then
    echo "usage: $0 FILE HOSTS DISKS_PER_HOST TIB_PER_DISK COPIES [RACKS]" >&2
    exit 2
fi
file=$1 hosts=$2 disks=$3 tib=$4 copies=$5 racks=${6:-0}
for tool in crushtool osdmaptool; do
    if ! command -v "$tool" >/dev/null; then
        echo "$0: $tool is not installed: apt-get install ceph-base" >&2
        exit 1
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk -v hosts="$hosts" -v disks="$disks" -v tib="$tib" -v racks="$racks" 'BEGIN {
    print "tunable choose_local_tries 0\ntunable choose_local_fallback_tries 0\ntunable choose_total_tries 50"
    print "tunable chooseleaf_descend_once 1\ntunable chooseleaf_vary_r 1\ntunable chooseleaf_stable 1"
    print "tunable straw_calc_version 1\ntunable allowed_bucket_algs 54"
    for (osd = 0; osd < hosts * disks; osd++) print "device " osd " osd." osd
    print "type 0 osd\ntype 1 host\ntype 3 rack\ntype 11 root"
    for (host = 0; host < hosts; host++) {
        print "host h" host " {\n id " (-2 - host) "\n alg straw2\n hash 0"
        for (disk = 0; disk < disks; disk++) print " item osd." (host * disks + disk) " weight " tib
        print "}"
    }
    # Hosts go to the racks in turn.
    for (rack = 0; rack < racks; rack++) {
        print "rack r" rack " {\n id " (-2 - hosts - rack) "\n alg straw2\n hash 0"
        for (host = rack; host < hosts; host += racks) print " item h" host " weight " tib * disks
        print "}"
    }
    print "root default {\n id -1\n alg straw2\n hash 0"
    for (rack = 0; rack < racks; rack++) print " item r" rack " weight " tib * disks * int((hosts - rack + racks - 1) / racks)
    if (racks == 0) for (host = 0; host < hosts; host++) print " item h" host " weight " tib * disks
    print "}"
    print "rule replicated_rule {\n id 0\n type replicated\n min_size 1\n max_size 10"
    print " step take default\n step chooseleaf firstn 0 type host\n step emit\n}"
}' >"$work/crush.txt"
crushtool --compile "$work/crush.txt" --outfn "$work/crush" >/dev/null
osdmaptool --createsimple $((hosts * disks)) --with-default-pool --pg-bits 5 --osd_pool_default_size "$copies" \
    --clobber "$work/osdmap" >/dev/null 2>&1
osdmaptool "$work/osdmap" --mark-up-in --import-crush "$work/crush" >/dev/null 2>&1
cp "$work/osdmap" "$file"
echo "$file: $((hosts * disks)) disks of $tib TiB on $hosts hosts, $copies copies"
