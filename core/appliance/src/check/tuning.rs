//! Checks the settings of each host: memory, processors, queues of disks, rings, its clock, packets between heads. A
//! setting that a host does not have yields no finding.

use units::{HeadName, NetworkName};

use super::{Checker, Code, head_key, network_key};
use crate::key::Key;
use crate::tuning::{DiskQueue, HostTuning, echo_headers};

/// The largest block of ZFS that is common, in KiB.
const BLOCK_KIB: u64 = 1_024;
/// Memory of a server in swap that is reported, in KiB.
const SWAPPED_KIB: u64 = 16 << 10;
/// Above it the kernel swaps processes out in favour of its page cache.
const SWAPPINESS: u64 = 10;
/// A ring with fewer packets overflows in a burst of full speed.
const RING_PACKETS: u64 = 1_024;
/// A longer return from idle is a considerable part of a round trip, in microseconds.
const IDLE_EXIT_US: u64 = 50;
/// With fewer processors the distribution of interrupts hardly matters.
const PROCESSORS: u64 = 8;
/// Schedulers that do not delay requests for the sake of fairness between processes.
const SCHEDULERS: &[&str] = &["none", "noop", "mq-deadline", "deadline"];
/// Most names in a sentence.
const NAMES_MAX: usize = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    let facts = checker.facts;
    for name in checker.appliance.heads.keys() {
        let known = facts.heads.get(name).and_then(|head| head.tuning.as_ref());
        if let Some(tuning) = known {
            memory(checker, name, tuning);
            servers(checker, name, tuning);
            processors(checker, name, tuning);
            disks(checker, name, tuning);
            rings(checker, name, tuning);
            paths(checker, name, tuning);
        }
    }
}

/// The command that changes a setting of the kernel.
fn sysctl(setting: &str) -> String {
    format!(
        "run `sysctl -w {setting}` there, and write the setting to /etc/sysctl.d/60-bulkhead.conf"
    )
}

fn memory(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    let key = head_key(name);
    if let Some(mode) = tuning.zone_reclaim_mode.filter(|mode| *mode != 0) {
        let what = format!("vm.zone_reclaim_mode is {mode} on {name}");
        checker.find(
            Code::ZoneReclaim,
            &key,
            what,
            sysctl("vm.zone_reclaim_mode=0"),
        );
    }
    let has_nodes = tuning.numa_nodes.is_some_and(|nodes| nodes > 1);
    if has_nodes && tuning.numa_balancing.is_some_and(|mode| mode != 0) {
        let what = format!("kernel.numa_balancing is on at {name}");
        checker.find(
            Code::NumaBalancing,
            &key,
            what,
            sysctl("kernel.numa_balancing=0"),
        );
    }
    let has_swap = tuning.swap_kib.is_some_and(|size| size > 0);
    let swappiness = tuning.swappiness.filter(|value| *value > SWAPPINESS);
    if let (true, Some(value)) = (has_swap, swappiness) {
        let what = format!("{name} has swap, and vm.swappiness is {value}");
        checker.find(Code::Swappiness, &key, what, sysctl("vm.swappiness=1"));
    }
    if tuning.huge_pages.as_deref() == Some("always") {
        checker.find(
            Code::HugePages,
            &key,
            format!("transparent huge pages are always used on {name}"),
            "run `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` there, and boot with \
             transparent_hugepage=madvise",
        );
    }
    if tuning.is_clock_synchronised == Some(false) {
        checker.find(
            Code::ClockUnsynchronised,
            &key,
            format!("no time server synchronises the clock of {name}"),
            "run `apt install chrony` there; `chronyc sources` shows its time servers",
        );
    }
}

fn servers(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    for (pool, server) in &tuning.servers {
        let server_of = match pool.as_str() {
            "" => "the leg-server".to_owned(),
            pool => format!("the server of {pool}"),
        };
        if server.swapped_kib >= SWAPPED_KIB {
            checker.find(
                Code::ServerSwapped,
                &head_key(name),
                format!("{} MiB of {server_of} on {name} are in swap", server.swapped_kib >> 10),
                "run `swapoff -a && swapon -a` there when enough memory is free; give the pool a smaller `arc`, or the \
                 host no swap",
            );
        }
        // 1 byte: the kernel writes no core, and starts no pipe either.
        if !matches!(server.core_limit.as_str(), "" | "0" | "1") {
            let pattern = tuning.core_pattern.as_deref().unwrap_or("core");
            checker.find(
                Code::CoreDump,
                &head_key(name),
                format!("{server_of} on {name} writes a core dump when it crashes: {pattern}"),
                "remove BULKHEAD_CORE_DUMPS from its environment, and restart the server; LimitCORE=1 in its unit \
                 prevents it, too",
            );
        }
    }
}

fn processors(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    let many = tuning.processors.filter(|count| *count >= PROCESSORS);
    if let (Some(count), Some(false)) = (many, tuning.has_irqbalance) {
        checker.find(
            Code::IrqBalance,
            &head_key(name),
            format!("irqbalance does not run on {name}, which has {count} processors"),
            "run `apt install irqbalance` there, or distribute the interrupts of disks and interfaces by hand",
        );
    }
    if let Some(exit_us) = tuning.idle_exit_us.filter(|time| *time > IDLE_EXIT_US) {
        checker.find(
            Code::IdleStates,
            &head_key(name),
            format!("processors of {name} leave their deepest idle state after {exit_us} us"),
            format!("run `cpupower idle-set -D {IDLE_EXIT_US}` there, or `tuned-adm profile latency-performance`"),
        );
    }
}

/// Names of disks in a sentence.
fn shown<'a>(queues: impl Iterator<Item = &'a DiskQueue>) -> (usize, String) {
    let devices: Vec<&str> = queues.map(|queue| queue.device.as_str()).collect();
    let more = devices.len().saturating_sub(NAMES_MAX);
    let mut text = devices[..devices.len() - more].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    (devices.len(), text)
}

fn disks(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    let key = head_key(name);
    let all = || tuning.queues.values();
    let is_small = |queue: &&DiskQueue| {
        let (now, possible) = (queue.max_sectors_kb, queue.max_hw_sectors_kb);
        now.zip(possible)
            .is_some_and(|(now, possible)| now < BLOCK_KIB && now < possible)
    };
    let (count, small) = shown(all().filter(is_small));
    if count > 0 {
        let first = all().find(is_small);
        let most = all()
            .filter(is_small)
            .filter_map(|queue| queue.max_hw_sectors_kb);
        let most = most.min().unwrap_or(BLOCK_KIB).min(BLOCK_KIB);
        let device = first.map_or("sdX", |queue| queue.device.as_str());
        checker.find(
            Code::DiskRequestSmall,
            &key,
            format!("{name} splits requests of {BLOCK_KIB} KiB to {small}"),
            format!(
                "run `echo {most} > /sys/class/block/{device}/queue/max_sectors_kb` there, for each, and write a rule \
                 for udev"
            ),
        );
    }
    let is_fair = |queue: &&DiskQueue| {
        let scheduler = queue.scheduler.as_deref();
        scheduler.is_some_and(|scheduler| !SCHEDULERS.contains(&scheduler))
    };
    if let Some(first) = all().find(is_fair) {
        let (_, fair) = shown(all().filter(is_fair));
        let scheduler = first.scheduler.as_deref().unwrap_or_default();
        checker.find(
            Code::DiskScheduler,
            &key,
            format!("{name} uses the scheduler {scheduler} for {fair}"),
            format!(
                "run `echo none > /sys/class/block/{}/queue/scheduler` there, for each, and write a rule for udev",
                first.device
            ),
        );
    }
    let (count, cached) = shown(all().filter(|queue| queue.has_write_cache == Some(true)));
    if count > 0 {
        checker.find(
            Code::DiskWriteCache,
            &key,
            format!("write caches of disks on {name} are enabled: {cached}"),
            "nothing, if the disks honour flushes; disks with power-loss protection commit faster",
        );
    }
}

fn rings(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    for (network, link) in &checker.appliance.heads[name].links {
        let Some(ring) = tuning.rings.get(&link.interface) else {
            continue;
        };
        let wanted = RING_PACKETS.min(ring.received_max);
        if ring.received < wanted {
            let interface = &link.interface;
            checker.find(
                Code::RingSmall,
                &head_key(name).field("links").field(network),
                format!(
                    "{interface} of {name} buffers {} packets, and could buffer {}",
                    ring.received, ring.received_max
                ),
                format!("run `ethtool -G {interface} rx {wanted}` there, and make it permanent"),
            );
        }
    }
}

/// Checks that the large packets of a network reach the other heads.
fn paths(checker: &mut Checker<'_>, name: &HeadName, tuning: &HostTuning) {
    let appliance = checker.appliance;
    for (other, head) in &appliance.heads {
        if other == name {
            continue;
        }
        for (network, link) in &head.links {
            // An interface with a smaller setting has a finding of its own.
            if [name, other]
                .into_iter()
                .any(|head| is_smaller(checker, head, network))
            {
                continue;
            }
            for address in &link.addresses {
                // A head that is off has a finding of its own.
                let probe = tuning.paths.get(address);
                let Some(probe) = probe.filter(|probe| probe.small_returns && !probe.large_returns)
                else {
                    continue;
                };
                let key: Key = network_key(network).field("mtu");
                let (mtu, payload) = (probe.mtu, probe.mtu.saturating_sub(echo_headers(*address)));
                checker.find(
                    Code::MtuPath,
                    &key,
                    format!("packets of {mtu} bytes do not pass from {name} to {other} over {network}"),
                    format!(
                        "set {mtu} on every switch port between them, or write a smaller mtu; test with `ping -M do -s \
                         {payload} {address}` on {name}"
                    ),
                );
            }
        }
    }
}

/// Whether the interface of a head in a network permits only packets that are smaller than those of the network.
fn is_smaller(checker: &Checker<'_>, head: &HeadName, network: &NetworkName) -> bool {
    let link = checker.appliance.heads[head].links.get(network);
    let interfaces = checker
        .facts
        .heads
        .get(head)
        .and_then(|head| head.interfaces.as_ref());
    let found = link.and_then(|link| interfaces?.get(&link.interface));
    let wanted = checker.appliance.networks.get(network);
    found
        .zip(wanted)
        .is_some_and(|(found, wanted)| found.mtu < wanted.mtu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Finding, Severity, check};
    use crate::facts::{Facts, HeadFacts};
    use crate::tuning::{PathProbe, Ring, ServerProcess};

    const PAIR: &str = include_str!("../../../../examples/pair.toml");

    /// The findings of a host with these settings, without those of the rest of the file.
    fn found(change: impl FnOnce(&mut HostTuning)) -> Vec<Finding> {
        let parsed = crate::parse::parse(PAIR).expect("well formed");
        let mut tuning = HostTuning::default();
        let usual = check(&parsed, &facts_of(tuning.clone()));
        change(&mut tuning);
        let mut found = check(&parsed, &facts_of(tuning));
        found.retain(|finding| !usual.contains(finding));
        found
    }

    fn facts_of(tuning: HostTuning) -> Facts {
        let head = HeadFacts {
            tuning: Some(tuning),
            ..HeadFacts::default()
        };
        Facts {
            heads: [("left".parse().expect("a name"), head)].into(),
            ..Facts::default()
        }
    }

    type Case = (Code, &'static str, fn(&mut HostTuning));

    #[test]
    fn each_setting_yields_its_finding_with_the_command_that_changes_it() {
        let cases: &[Case] = &[
            (
                Code::ZoneReclaim,
                "sysctl -w vm.zone_reclaim_mode=0",
                |host| {
                    host.zone_reclaim_mode = Some(1);
                },
            ),
            (
                Code::NumaBalancing,
                "sysctl -w kernel.numa_balancing=0",
                |host| {
                    (host.numa_balancing, host.numa_nodes) = (Some(1), Some(2));
                },
            ),
            (Code::Swappiness, "sysctl -w vm.swappiness=1", |host| {
                (host.swap_kib, host.swappiness) = (Some(1), Some(60));
            }),
            (Code::HugePages, "echo madvise", |host| {
                host.huge_pages = Some("always".into());
            }),
            (Code::ClockUnsynchronised, "chrony", |host| {
                host.is_clock_synchronised = Some(false);
            }),
            (Code::ServerSwapped, "swapoff -a", |host| {
                let swapped_kib = 20 << 10;
                host.servers.insert(
                    "tank".into(),
                    ServerProcess {
                        swapped_kib,
                        ..ServerProcess::default()
                    },
                );
            }),
            (Code::CoreDump, "LimitCORE=1", |host| {
                let core_limit = "unlimited".into();
                host.servers.insert(
                    "tank".into(),
                    ServerProcess {
                        core_limit,
                        ..ServerProcess::default()
                    },
                );
            }),
            (Code::IrqBalance, "irqbalance", |host| {
                (host.processors, host.has_irqbalance) = (Some(32), Some(false));
            }),
            (Code::IdleStates, "cpupower", |host| {
                host.idle_exit_us = Some(133)
            }),
            (
                Code::DiskRequestSmall,
                "echo 1024 > /sys/class/block/sda/queue/max_sectors_kb",
                |host| {
                    host.queues.insert(
                        "/dev/a".into(),
                        queue(|disk| {
                            (disk.max_sectors_kb, disk.max_hw_sectors_kb) =
                                (Some(512), Some(4_096));
                        }),
                    );
                },
            ),
            (
                Code::DiskScheduler,
                "echo none > /sys/class/block/sda/queue/scheduler",
                |host| {
                    host.queues.insert(
                        "/dev/a".into(),
                        queue(|disk| disk.scheduler = Some("bfq".into())),
                    );
                },
            ),
            (Code::DiskWriteCache, "flushes", |host| {
                host.queues.insert(
                    "/dev/a".into(),
                    queue(|disk| disk.has_write_cache = Some(true)),
                );
            }),
            (Code::RingSmall, "ethtool -G ens1f0 rx 1024", |host| {
                host.rings.insert(
                    "ens1f0".into(),
                    Ring {
                        received: 256,
                        received_max: 4_096,
                    },
                );
            }),
            (Code::MtuPath, "ping -M do -s 8972 10.77.1.12", |host| {
                let probe = PathProbe {
                    mtu: 9_000,
                    small_returns: true,
                    large_returns: false,
                };
                host.paths
                    .insert("10.77.1.12".parse().expect("an address"), probe);
            }),
        ];
        for (code, mend, change) in cases {
            let found = found(change);
            let codes: Vec<Code> = found.iter().map(|finding| finding.code).collect();
            assert_eq!(codes, [*code], "{found:#?}");
            assert!(found[0].mend.contains(mend), "{}", found[0]);
        }
    }

    fn queue(change: impl FnOnce(&mut DiskQueue)) -> DiskQueue {
        let mut queue = DiskQueue {
            device: "sda".into(),
            ..DiskQueue::default()
        };
        change(&mut queue);
        queue
    }

    #[test]
    fn settings_without_an_effect_yield_no_finding() {
        let quiet = |change: fn(&mut HostTuning)| {
            let found = found(change);
            assert!(found.is_empty(), "{found:#?}");
        };
        quiet(|host| (host.numa_balancing, host.numa_nodes) = (Some(1), Some(1)));
        quiet(|host| (host.swap_kib, host.swappiness) = (Some(0), Some(60)));
        quiet(|host| (host.processors, host.has_irqbalance) = (Some(2), Some(false)));
        // No setting makes its requests larger.
        quiet(|host| {
            let small = |disk: &mut DiskQueue| {
                (disk.max_sectors_kb, disk.max_hw_sectors_kb) = (Some(512), Some(512));
            };
            host.queues.insert("/dev/a".into(), queue(small));
        });
        quiet(|host| {
            host.rings.insert(
                "ens1f0".into(),
                Ring {
                    received: 256,
                    received_max: 256,
                },
            );
        });
        // A head that is off returns no packet of any size.
        quiet(|host| {
            let probe = PathProbe {
                mtu: 9_000,
                small_returns: false,
                large_returns: false,
            };
            host.paths
                .insert("10.77.1.12".parse().expect("an address"), probe);
        });
        quiet(|host| {
            let core_limit = "1".into();
            host.servers.insert(
                "tank".into(),
                ServerProcess {
                    core_limit,
                    swapped_kib: 8,
                },
            );
        });
    }

    #[test]
    fn many_disks_are_one_finding() {
        let found = found(|host| {
            for index in 0..90 {
                let mut disk = queue(|disk| disk.has_write_cache = Some(true));
                disk.device = format!("sd{index}");
                host.queues.insert(format!("/dev/{index:02}").into(), disk);
            }
        });
        assert_eq!(found.len(), 1);
        assert!(found[0].what.ends_with("and 82 more"), "{}", found[0]);
        assert_eq!(found[0].severity, Severity::Hint);
    }
}
