#!/usr/bin/env bash
# Installs the build results: the binary, its manual pages and completions, the unit of a pool, the
# resource agent, guide and examples. Under PREFIX (/usr/local) and, for packages, below DESTDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=${PREFIX:-/usr/local}
destdir=${DESTDIR:-}
program=${BULKHEAD_PROGRAM:-target/release/bulkhead}

die() {
    echo "install: $*" >&2
    exit 1
}

[[ $prefix == /* ]] || die "PREFIX=$prefix is no absolute path"
[[ $prefix != *[!A-Za-z0-9/._-]* ]] || die "PREFIX=$prefix: use letters, digits and / . _ -"
[[ -x $program ]] || die "no $program: run 'make build' first"

put() { # mode, source, destination
    install -D -m "$1" "$2" "$destdir$3"
}

# A text that contains the path of the binary, adjusted to the installed path.
put_naming_program() { # mode, source, destination
    install -D -m "$1" /dev/null "$destdir$3"
    sed "s,[/a-z]*/bin/bulkhead,$prefix/bin/bulkhead,g" "$2" >"$destdir$3"
}

put 755 "$program" "$prefix/bin/bulkhead"
# The agents in a separate binary, which starts faster. The resource agent works without it, too.
if [[ -x $(dirname "$program")/bulkhead-agent ]]; then
    put 755 "$(dirname "$program")/bulkhead-agent" "$prefix/bin/bulkhead-agent"
fi
# Pacemaker searches only these directories, whatever the prefix is.
for agent in pool address; do
    put_naming_program 755 "packaging/ocf/$agent" "/usr/lib/ocf/resource.d/bulkhead/$agent"
done
put_naming_program 755 packaging/fence/fence_bulkhead /usr/sbin/fence_bulkhead
put_naming_program 644 packaging/systemd/bulkhead-pool@.service \
    "$prefix/lib/systemd/system/bulkhead-pool@.service"

put_naming_program 644 packaging/systemd/bulkhead-head.service \
    "$prefix/lib/systemd/system/bulkhead-head.service"
put_naming_program 644 packaging/systemd/bulkhead-leg-server.service \
    "$prefix/lib/systemd/system/bulkhead-leg-server.service"
for file in alerts.yml dashboard.json; do
    put 644 "packaging/monitoring/$file" "$prefix/share/bulkhead/monitoring/$file"
done

# An upgrade compares the formats of two packages before it installs one.
"$program" appliance formats </dev/null >"$destdir$prefix/share/bulkhead/formats.json"

install -d "$destdir$prefix/share/man/man1"
"$program" man "$destdir$prefix/share/man/man1" >/dev/null
completion() { # shell, destination
    install -D -m 644 /dev/null "$destdir$prefix/share/$2"
    "$program" completion "$1" >"$destdir$prefix/share/$2"
}
completion bash bash-completion/completions/bulkhead
completion zsh zsh/site-functions/_bulkhead
completion fish fish/vendor_completions.d/bulkhead.fish

doc=$prefix/share/doc/bulkhead
put 644 LICENSE "$doc/copyright"
put 644 README.md "$doc/README.md"
put 644 CHANGELOG.md "$doc/CHANGELOG.md"
while read -r page; do
    put 644 "$page" "$doc/$page"
done < <(find docs examples -type f)

# Secrets of fence devices and, on a head, the appliance file live here.
install -d -m 755 "$destdir/etc/bulkhead"
install -d -m 700 "$destdir/etc/bulkhead/secrets"
if [[ -z $destdir && -d /run/systemd/system ]]; then
    systemctl daemon-reload
fi
echo "installed under ${destdir:-/}: $prefix/bin/bulkhead, its manual pages, completions, unit, agent, $doc"
