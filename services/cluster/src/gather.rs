//! Gathers the facts of a head that the check compares with the file. One script collects all facts, so that a head
//! behind ssh needs one connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use appliance::Appliance;
use appliance::alerts::Alerts;
use appliance::facts::{
    DiskFacts, HeadFacts, InterfaceFacts, MemberProbe, ProbeResult, SecretFacts, members_required,
    programs_required, secrets_required, tls_required,
};
use appliance::placement::{DiskPlacement, InterfaceLinks};
use appliance::render::{LEGS_KEY_PATH, LEGS_PATH};
use units::ByteCount;

use crate::host::{Host, HostError, must};
use crate::process::Invocation;

/// Time limit for a head's response; a stuck disk must not block the check.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Packages that should have the same version on all heads.
const PACKAGES: &[&str] = &[
    "corosync",
    "pacemaker",
    "fence-agents",
    "resource-agents",
    "libzpool6linux",
    "bulkhead",
];

/// Prints lines of words separated by tabs, of which the first is the kind. Reads its queries as lines: `program NAME`,
/// `package NAME`, `disk PATH`, `secret PATH`, `tls PATHS`, `pool NAME`, `way ADDRESS PORT`,
/// `member ADDRESS PORT FINGERPRINT`, `ring INTERFACE`, `path ADDRESS MTU`, `feed JSON`, `receiver HOST PORT`.
const SCRIPT: &str = r#"
tab=$(printf '\t')
say() { local IFS="$tab"; printf '%s\n' "$*"; }
say node "$(uname -n)"
for file in /etc/machine-id /etc/hostid /etc/hostname ''; do [ -s "$file" ] && break; done
[ -z "$file" ] && say identity || say identity "$(sha256sum <"$file" | cut -c 1-16)"
say memory_kib $(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)
for way in /sys/class/net/*; do
    [ -e "$way/mtu" ] && say interface "${way##*/}" "$(cat "$way/mtu")"
done
for unit in zfs-import-cache.service zfs-import-scan.service; do
    systemctl is-enabled --quiet $unit 2>/dev/null && say unit $unit
done
[ -e /etc/corosync/qdevice/net/nssdb/cert9.db ] && say certificate yes || say certificate no
[ -e "$2" ] && say leg_config yes
[ -e "$3" ] && say leg_key "$(stat -L -c %a "$3")"
PATH=$PATH:/usr/sbin:/sbin
ip -o address show 2>/dev/null | while read -r _ way family address _; do
    case $family in inet | inet6) say address "$way" "${address%/*}" ;; esac
done
questions=$(cat)
disks=$(printf '%s\n' "$questions" | sed -n 's/^disk //p; /^tls /p; /^member /p; /^ring /p; /^path /p; /^feed /p')
# Of real-time priority, as Corosync is: what delays that delays everything.
chrt -R -r 1 true 2>/dev/null && first='chrt -R -r 1' || first=
[ "$1" = quick ] && first="$first timeout 15 bulkhead appliance facts" ||
    first="$first timeout 15 bulkhead appliance facts --stalls"
printf '%s\n' "$disks" | $first 2>/dev/null
printf '%s\n' "$questions" | { while read -r kind name; do
    case $kind in
    program) command -v "$name" >/dev/null 2>&1 && say program "$name" yes || say program "$name" no ;;
    package) version=$(dpkg-query -W -f '${Version}' "$name" 2>/dev/null) && [ -n "$version" ] &&
        say package "$name" "$version" ;;
    secret) [ -e "$name" ] && say secret "$name" "$(stat -L -c %a "$name")" || say secret "$name" missing ;;
    way) timeout 2 bash -c ': </dev/tcp/"$0"/"$1"' $name 2>/dev/null &&
        say way "$name" yes || say way "$name" no ;;
    receiver) { timeout 3 bash -c ': </dev/tcp/"$0"/"$1"' $name 2>/dev/null &&
        say receiver "$name" yes || say receiver "$name" no; } & ;;
    pool) grep -aqsF "$name" /etc/zfs/zpool.cache && say cached "$name" ;;
    disk)
        device=$(readlink -f "$name")
        if [ ! -e "$device" ]; then say disk "$name" missing; continue; fi
        node=/sys/class/block/${device##*/}
        queue=$node/queue; [ -d "$queue" ] || queue=$node/../queue
        physical=$(cat "$queue/physical_block_size" 2>/dev/null || echo 0)
        offset=$(cat "$node/alignment_offset" 2>/dev/null || echo 0)
        sectors=$(cat "$node/size" 2>/dev/null) && size=$((sectors * 512)) || size=$(stat -L -c %s "$name")
        say disk "$name" "$physical" "$offset" "$size" ;;
    esac
done; wait; }
say now_ms $(date +%s%3N)
true
"#;

/// The extent of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Facts that are available at once.
    Quick,
    /// In addition the longest stall of the head, measured for a second.
    Measured,
}

/// Returns the facts of one head.
///
/// # Errors
///
/// It cannot be reached or does not respond in time.
pub fn gather(
    machine: &dyn Host,
    appliance: &Appliance,
    depth: Depth,
) -> Result<HeadFacts, HostError> {
    let depth = match depth {
        Depth::Quick => "quick",
        Depth::Measured => "measured",
    };
    let invocation = Invocation::new(
        "sh",
        &["-c", SCRIPT, "facts", depth, LEGS_PATH, LEGS_KEY_PATH],
    )
    .reading(questions(appliance))
    .within(TIME_LIMIT);
    let output = must(machine, &invocation)?;
    let answered_ms = now_ms();
    Ok(understand(&output.text(), answered_ms))
}

/// Prints the unreadable files among its input lines.
const MISSING: &str =
    r#"while IFS= read -r file; do [ -r "$file" ] || printf '%s\n' "$file"; done"#;

/// The files that are missing on a head.
///
/// # Errors
///
/// It cannot be reached or does not respond in time.
pub fn missing_files(
    machine: &dyn Host,
    files: &BTreeSet<PathBuf>,
) -> Result<BTreeSet<PathBuf>, HostError> {
    let lines = files.iter().map(|file| format!("{}\n", file.display()));
    let invocation = Invocation::new("sh", &["-c", MISSING])
        .reading(lines.collect::<String>())
        .within(TIME_LIMIT);
    let output = must(machine, &invocation)?;
    let text = output.text();
    // A path with a line break could yield names that are not in the query.
    let said = text.lines().map(PathBuf::from);
    Ok(said.filter(|file| files.contains(file)).collect())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

fn questions(appliance: &Appliance) -> String {
    let mut lines = String::new();
    let mut ask = |kind: &str, name: &str| {
        // A name with a line break would be two queries; no such file is in use.
        if !name.contains('\n') {
            lines.push_str(&format!("{kind} {name}\n"));
        }
    };
    for program in programs_required(appliance) {
        ask("program", &program);
    }
    for package in PACKAGES {
        ask("package", package);
    }
    for secret in secrets_required(appliance) {
        ask("secret", &secret.to_string_lossy());
    }
    for tls in tls_required(appliance) {
        // Separated as in the response.
        let files = tls.files().map(|file| file.to_string_lossy());
        let files: Vec<_> = files.collect();
        ask("tls", &files.join("\t"));
    }
    for witness in appliance.witness.iter().filter(|_| appliance.has_legs()) {
        for address in &witness.addresses {
            ask("way", &format!("{address} {}", witness.port));
        }
    }
    for (host, port) in appliance.alerts.iter().flat_map(Alerts::addresses) {
        ask("receiver", &format!("{host} {port}"));
    }
    for (way, fingerprint) in members_required(appliance) {
        ask(
            "member",
            &format!("{} {} {fingerprint}", way.ip(), way.port()),
        );
    }
    // Interfaces and addresses of all heads: a head does not have those of its peers.
    for (network, link) in appliance.heads.values().flat_map(|head| &head.links) {
        ask("ring", &link.interface);
        let mtu = appliance.networks.get(network).map_or(0, |one| one.mtu);
        for address in link
            .addresses
            .iter()
            .filter(|_| appliance.heads.len() > 1 && mtu > 0)
        {
            ask("path", &format!("{address} {mtu}"));
        }
    }
    for feed in appliance.feeds() {
        // JSON has no line breaks.
        ask("feed", &serde_json::to_string(&feed).unwrap_or_default());
    }
    for (name, pool) in &appliance.pools {
        ask("pool", name.as_str());
        // The disks of another head are not visible to a head.
        let own = pool.all_legs().filter_map(|leg| appliance.leg_path(leg));
        for disk in pool.disks.iter().chain(own) {
            ask("disk", &disk.to_string_lossy());
        }
    }
    lines
}

/// Parses the response. An unknown line is ignored.
fn understand(text: &str, answered_ms: i64) -> HeadFacts {
    let mut facts = HeadFacts::default();
    let mut interfaces = BTreeMap::new();
    let mut addresses = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["node", name] => facts.node_name = Some((*name).to_owned()),
            ["identity"] => facts.identity = Some(String::new()),
            ["identity", digest] => facts.identity = Some((*digest).to_owned()),
            ["memory_kib", kib] => facts.memory = kib.parse().ok().map(ByteCount::kib),
            ["interface", name, mtu] => {
                if let Ok(mtu) = mtu.parse() {
                    interfaces.insert((*name).to_owned(), InterfaceFacts { mtu });
                }
            }
            ["unit", name] => {
                facts.enabled_units.insert((*name).to_owned());
            }
            ["way", way, answer] => {
                let (address, port) = way.split_once(' ').unwrap_or_default();
                if let (Ok(address), Ok(port)) = (address.parse(), port.parse()) {
                    let way = SocketAddr::new(address, port);
                    facts.ways_to_witness.insert(way, *answer == "yes");
                }
            }
            ["receiver", server, answer] => {
                facts
                    .receivers
                    .insert((*server).to_owned(), *answer == "yes");
            }
            ["address", name, address] => {
                // A host of the link (fe80::1%eth0) is in no file.
                if let Ok(address) = address.parse() {
                    let addresses = addresses.entry((*name).to_owned()).or_default();
                    let addresses: &mut BTreeSet<IpAddr> = addresses;
                    addresses.insert(address);
                }
            }
            ["leg_config", _] => facts.has_leg_config = true,
            ["leg_key", mode] => facts.leg_key_mode = u32::from_str_radix(mode, 8).ok(),
            ["member", way, probe @ ..] => {
                let (address, port) = way.split_once(' ').unwrap_or_default();
                if let (Ok(address), Ok(port), Some(probe)) =
                    (address.parse(), port.parse(), member_probe(probe))
                {
                    facts.members.insert(SocketAddr::new(address, port), probe);
                }
            }
            ["certificate", answer] => facts.witness_certificate = Some(*answer == "yes"),
            ["program", name, answer] => {
                facts.programs.insert((*name).to_owned(), *answer == "yes");
            }
            ["package", name, version] => {
                facts
                    .versions
                    .insert((*name).to_owned(), (*version).to_owned());
            }
            ["cached", pool] => {
                facts.cached_pools.insert((*pool).to_owned());
            }
            ["secret", path, mode] => {
                let secret = u32::from_str_radix(mode, 8).ok();
                let secret = secret.map(|mode| SecretFacts { mode });
                facts.secrets.insert(PathBuf::from(path), secret);
            }
            ["disk", path, "missing"] => {
                facts.disks.insert(PathBuf::from(path), None);
            }
            ["disk", path, physical, offset, size] => {
                let disk = DiskFacts {
                    physical_block_bytes: physical.parse().unwrap_or(0),
                    alignment_offset_bytes: offset.parse().unwrap_or(0),
                    size_bytes: size.parse().unwrap_or(0),
                };
                facts.disks.insert(PathBuf::from(path), Some(disk));
            }
            ["leg_fingerprint"] => facts.leg_fingerprint = Some(String::new()),
            ["leg_fingerprint", digits] => facts.leg_fingerprint = Some((*digits).to_owned()),
            ["reservations", path, answer] => {
                facts
                    .reservations
                    .insert(PathBuf::from(path), *answer == "yes");
            }
            ["tls", path, "refused", why] => {
                let found = facts.tls.entry(PathBuf::from(path)).or_default();
                found.refused = Some((*why).to_owned());
            }
            ["tls", path, "valid_for_s", seconds] => {
                let found = facts.tls.entry(PathBuf::from(path)).or_default();
                found.valid_for_s = seconds.parse().ok();
            }
            ["zfs_feature", name] => {
                let features = facts.zfs_features.get_or_insert_default();
                features.insert((*name).to_owned());
            }
            ["engine_refused", reason] => facts.engine_refused = Some((*reason).to_owned()),
            ["feature_in_use", pool, name] => {
                if let Ok(pool) = pool.parse() {
                    let features = facts.features_in_use.entry(pool).or_default();
                    features.insert((*name).to_owned());
                }
            }
            ["key_file", pool, path] => {
                if let Ok(pool) = pool.parse() {
                    let files = facts.key_files.entry(pool).or_default();
                    files.insert(PathBuf::from(path));
                }
            }
            // Another version may report more, or less.
            ["placement", json] => {
                let placement: Option<(PathBuf, DiskPlacement)> = serde_json::from_str(json).ok();
                facts.placements.extend(placement);
            }
            ["links", json] => {
                let links: Option<(String, InterfaceLinks)> = serde_json::from_str(json).ok();
                facts.links.extend(links);
            }
            ["tuning", json] => facts.tuning = serde_json::from_str(json).ok(),
            ["feed", json] => {
                let reply: Option<(String, ProbeResult)> = serde_json::from_str(json).ok();
                facts.feeds.extend(reply);
            }
            ["stall_ms", stall] => facts.stall_ms_max = stall.parse().ok(),
            ["now_ms", then] => {
                facts.clock_ahead_ms = then.parse().ok().map(|then: i64| then - answered_ms);
            }
            _ => tracing::debug!(line, "ignored an unknown line"),
        }
    }
    facts.interfaces = Some(interfaces);
    // A host without `ip` returns none.
    facts.addresses = (!addresses.is_empty()).then_some(addresses);
    facts
}

fn member_probe(words: &[&str]) -> Option<MemberProbe> {
    match words {
        ["accepted"] => Some(MemberProbe::Accepted),
        ["closed", why] => Some(MemberProbe::Closed((*why).to_owned())),
        ["fingerprint", digits] => Some(MemberProbe::Fingerprint((*digits).to_owned())),
        ["rejected"] => Some(MemberProbe::Rejected),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Local;

    #[test]
    fn facts_of_this_host_are_gathered() {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = folder.path().join("a secret");
        std::fs::write(&secret, "x").expect("writable");
        let text = include_str!("../../../examples/pair.toml")
            .replace("/etc/bulkhead/secrets/bmc-left", &secret.to_string_lossy())
            .replace(
                "/dev/disk/by-id/scsi-35000c500a1b20000",
                &secret.to_string_lossy(),
            );
        let parsed = appliance::parse(&text).expect("well formed");
        let facts = gather(&Local::default(), &parsed.appliance, Depth::Quick).expect("sh answers");
        assert!(facts.node_name.is_some());
        assert!(facts.identity.is_some());
        assert!(facts.memory.expect("known") > ByteCount::mib(1));
        assert!(facts.interfaces.expect("known").contains_key("lo"));
        let addresses = facts.addresses.expect("known");
        let loopback = "127.0.0.1".parse().expect("an address");
        assert!(addresses["lo"].contains(&loopback), "{addresses:?}");
        assert!(facts.clock_ahead_ms.expect("known").abs() < 60_000);
        assert_eq!(facts.programs.get("ip"), Some(&true));
        assert!(facts.secrets[&secret].is_some());
        assert!(facts.disks[&secret].is_some());
        let missing = PathBuf::from("/dev/disk/by-id/scsi-35000c500a1b20100");
        assert_eq!(facts.disks[&missing], None);
        let missing = PathBuf::from("/etc/bulkhead/secrets/bmc-right");
        assert_eq!(facts.secrets[&missing], None);
    }

    /// The script itself, on this host.
    #[test]
    fn listening_witness_is_distinguished_from_silent_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let (open, shut) = (listener.local_addr(), closed.local_addr());
        let (open, shut) = (open.expect("bound"), shut.expect("bound"));
        drop(closed);
        let ask = |way: SocketAddr| format!("way {} {}\n", way.ip(), way.port());
        let invocation = Invocation::new("sh", &["-c", SCRIPT, "facts", "quick"])
            .reading(ask(open) + &ask(shut))
            .within(TIME_LIMIT);
        let output = must(&Local::default(), &invocation).expect("the script works");
        let facts = understand(&output.text(), 0);
        let wanted = BTreeMap::from([(open, true), (shut, false)]);
        assert_eq!(facts.ways_to_witness, wanted);
    }

    /// The script itself, on this host. Several silent servers delay it no longer than one.
    #[test]
    fn servers_of_receivers_are_probed_together() {
        let open = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = open.local_addr().expect("bound").port();
        // A socket that is bound and does not listen refuses.
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let shut = closed.local_addr().expect("bound").port();
        drop(closed);
        let asked = format!("receiver localhost {port}\nreceiver 127.0.0.1 {shut}\n");
        let invocation = Invocation::new("sh", &["-c", SCRIPT, "facts", "quick"])
            .reading(asked)
            .within(TIME_LIMIT);
        let output = must(&Local::default(), &invocation).expect("the script works");
        let facts = understand(&output.text(), 0);
        let wanted = BTreeMap::from([
            (format!("127.0.0.1 {shut}"), false),
            (format!("localhost {port}"), true),
        ]);
        assert_eq!(facts.receivers, wanted);
        let last = output.text().lines().last().map(str::to_owned);
        assert!(last.is_some_and(|line| line.starts_with("now_ms")));
    }

    #[test]
    fn invalid_responses_are_unknown() {
        let facts = understand(
            "memory_kib\tx\nnonsense\ninterface\teth0\tbig\nnow_ms\t5000\n",
            4_000,
        );
        assert_eq!(facts.memory, None);
        assert!(facts.interfaces.expect("asked").is_empty());
        assert_eq!(facts.clock_ahead_ms, Some(1_000));
    }

    #[test]
    fn facts_reported_by_binary_are_parsed() {
        let facts = understand(
            "leg_fingerprint\t0f\nstall_ms\t12\nzfs_feature\tdraid\nzfs_feature\tzstd_compress\nfeature_in_use\ttank\tdraid\n",
            0,
        );
        assert_eq!(facts.leg_fingerprint.as_deref(), Some("0f"));
        assert_eq!(facts.stall_ms_max, Some(12));
        assert_eq!(facts.zfs_features.map(|all| all.len()), Some(2));
        let tank = "tank".parse().expect("a good name");
        assert!(facts.features_in_use[&tank].contains("draid"));

        // As recorded on the head of a lab.
        let facts = understand(
            "leg_config\tyes\nleg_key\t644\naddress\teth0\t10.77.1.12\naddress\teth0\tfe80::1\n\
             member\t10.77.3.12 7071\taccepted\nmember\t10.77.3.11 7071\tclosed\tConnection refused\n\
             member\t10.77.9.31 7071\tfingerprint\t0f\nmember\tfd00::1 7071\trejected\nmember\tx\taccepted\n",
            0,
        );
        assert_eq!(
            (facts.has_leg_config, facts.leg_key_mode),
            (true, Some(0o644))
        );
        assert_eq!(facts.addresses.expect("known")["eth0"].len(), 2);
        let probes: Vec<MemberProbe> = facts.members.into_values().collect();
        let wanted = [
            MemberProbe::Closed("Connection refused".to_owned()),
            MemberProbe::Accepted,
            MemberProbe::Fingerprint("0f".to_owned()),
            MemberProbe::Rejected,
        ];
        assert_eq!(probes, wanted);

        let facts = understand(
            "placement\t[\"/dev/a\", {\"shelf\": \"0x5\", \"paths\": 2, \"group\": null, \"later\": 1}]\n\
             placement\t[\"/dev/b\", 3]\nlinks\t[\"eth0\", {\"all\": 2, \"working\": 1}]\nlinks\t{}\n",
            0,
        );
        assert_eq!(facts.placements.len(), 1);
        let place = &facts.placements[std::path::Path::new("/dev/a")];
        assert_eq!(
            (place.shelf.as_deref(), place.paths),
            (Some("0x5"), Some(2))
        );
        assert_eq!(facts.links["eth0"].working, 1);

        let facts = understand("engine_refused\tanother OpenZFS\n", 0);
        assert_eq!(facts.engine_refused.as_deref(), Some("another OpenZFS"));
    }
}
