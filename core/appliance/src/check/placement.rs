//! Checks that no single part that disks or clients depend on can be lost with more than the appliance survives: a shelf
//! with the disks of a mirror, the path to a disk, the cable to a network. A part that is unknown yields no finding.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use units::{HeadName, NetworkName, PoolName};

use super::{Checker, Code, head_key, pool_key};
use crate::facts::HeadFacts;
use crate::file::Pool;
use crate::key::Key;
use crate::placement::DiskPlacement;

/// Most disks in a sentence.
const NAMES_MAX: usize = 8;

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        shelves(checker, name, pool);
        name_on_disks(checker, name, pool);
    }
    for (name, head) in &appliance.heads {
        let Some(known) = checker.facts.heads.get(name) else {
            continue;
        };
        disk_paths(checker, name, known);
        for (network, link) in &head.links {
            if let Some(links) = known.links.get(&link.interface) {
                let key = head_key(name).field("links").field(network);
                if links.all > 1 && links.working < links.all {
                    checker.find(
                        Code::LinkDegraded,
                        &key,
                        format!(
                            "{} of {name} has {} links, and {} of them work",
                            link.interface, links.all, links.working
                        ),
                        format!(
                            "see `cat /proc/net/bonding/{}` there; check the cable and the port of the link that is down",
                            link.interface
                        ),
                    );
                }
                if links.all == 1 {
                    single_link(checker, &key, name, network, &link.interface);
                }
            }
        }
    }
}

/// A mirror or raidz with the known shelves of its disks.
struct Group {
    key: Key,
    /// The disks of each member, with the shelf and how the disk is shown.
    members: BTreeMap<usize, Vec<(Option<String>, String)>>,
    count: usize,
    needed: usize,
}

impl Group {
    /// The members that are lost with a shelf.
    fn lost_with(&self, shelf: &str) -> Vec<&[(Option<String>, String)]> {
        let is_there = |disk: &(Option<String>, String)| disk.0.as_deref() == Some(shelf);
        let members = self.members.values().map(Vec::as_slice);
        members.filter(|disks| disks.iter().all(is_there)).collect()
    }

    /// The shelf with the most members, if the group does not survive its loss. A group without redundancy yields none.
    fn fatal_shelf(&self) -> Option<&str> {
        let survives = self
            .count
            .checked_sub(self.needed)
            .filter(|lost| *lost > 0)?;
        let shelves = self.shelves().into_iter();
        let lost = |shelf: &str| self.lost_with(shelf).len();
        let worst = shelves.max_by_key(|shelf| lost(shelf))?;
        (lost(worst) > survives).then_some(worst)
    }

    fn shelves(&self) -> BTreeSet<&str> {
        let disks = self.members.values().flatten();
        disks.filter_map(|(shelf, _)| shelf.as_deref()).collect()
    }
}

/// Compares the name with that of the pool on the shared disks. Disks without a pool, and legs, yield no finding.
fn name_on_disks(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let heads = checker.facts.heads.values();
    let placements = heads.flat_map(|head| {
        pool.disks
            .iter()
            .filter_map(|disk| head.placements.get(disk))
    });
    let roles = placements.filter_map(|placement| placement.group.as_ref());
    let found: BTreeSet<&str> = roles.map(|role| role.pool.as_str()).collect();
    let [other] = found.into_iter().collect::<Vec<_>>()[..] else {
        return;
    };
    if other == name.as_str() {
        return;
    }
    let what = format!("the disks of pool {name} contain pool {other}");
    let mend = format!(
        "write [pools.{other}] instead of [pools.{name}] if that pool is meant; or name other disks; or, if no data of {other} is needed, \
         `bulkhead pool create {name}` with --overwrite-old-labels replaces it"
    );
    checker.find(Code::PoolName, &pool_key(name), what, mend);
}

fn shelves(checker: &mut Checker<'_>, name: &PoolName, pool: &Pool) {
    let groups = match pool.has_legs() {
        true => groups_of_legs(checker, name, pool),
        false => groups_by_labels(checker, name, pool),
    };
    let fatal = |group: &Group| group.fatal_shelf().map(str::to_owned);
    let disks = groups.iter().flat_map(|group| group.members.values());
    let all: BTreeSet<_> = disks.flatten().map(|(shelf, _)| shelf.as_deref()).collect();
    if let ([Some(shelf)], true) = (
        all.iter().copied().collect::<Vec<_>>().as_slice(),
        groups.iter().any(|group| fatal(group).is_some()),
    ) {
        checker.find(
            Code::ShelfSingle,
            &pool_key(name),
            format!("all disks of {name} are on the shelf {shelf}"),
            "with a second shelf, `bulkhead pool replace-disk` moves one side of each mirror there; without one, nothing: \
             a shelf with two controllers and two power supplies survives the loss of one of either",
        );
        return;
    }
    for group in &groups {
        let Some(shelf) = fatal(group) else { continue };
        let lost = group.lost_with(&shelf);
        let names: Vec<&str> = lost
            .iter()
            .flat_map(|disks| disks.iter().map(|(_, shown)| shown.as_str()))
            .collect();
        let names = list(&names);
        let what = match group.needed {
            1 => format!("all sides of a mirror of {name} are on the shelf {shelf}: {names}"),
            needed => format!(
                "{} of the {} disks of a raidz of {name} are on the shelf {shelf}, and it survives the loss of {}: {names}",
                lost.len(),
                group.count,
                group.count - needed
            ),
        };
        checker.find(
            Code::ShelfShared,
            &group.key,
            what,
            format!(
                "run `bulkhead pool replace-disk {name} DISK --with UNUSED` with an unused disk of another shelf; \
                 `bulkhead head disks` prints the shelf and the slot of each disk"
            ),
        );
    }
}

/// The groups of the file.
fn groups_of_legs(checker: &Checker<'_>, name: &PoolName, pool: &Pool) -> Vec<Group> {
    let groups = pool.all_groups().map(|(field, index, group)| {
        let disk = |leg: &crate::file::Leg| {
            let path = checker.appliance.leg_path(leg);
            let known = checker.facts.heads.get(&leg.head);
            let known = path.and_then(|path| known?.placements.get(path));
            let shelf = known.and_then(|known| known.shelf.clone());
            vec![(shelf, shown(&leg.to_string(), known))]
        };
        Group {
            key: pool_key(name).field(field).item(index),
            members: group.legs.iter().map(disk).enumerate().collect(),
            count: group.legs.len(),
            needed: group.needed(),
        }
    });
    groups.collect()
}

/// The groups of a pool on shared disks, by the labels that any head could read.
fn groups_by_labels(checker: &Checker<'_>, name: &PoolName, pool: &Pool) -> Vec<Group> {
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    for path in &pool.disks {
        let heads = checker.facts.heads.values();
        let views: Vec<_> = heads.filter_map(|head| head.placements.get(path)).collect();
        let roles = views.iter().filter_map(|view| view.group.as_ref());
        let mut roles = roles.filter(|role| role.pool == name.as_str());
        let Some(role) = roles.next() else { continue };
        let known = views.iter().find(|view| view.shelf.is_some()).copied();
        let group = groups.entry(role.id).or_insert_with(|| Group {
            key: pool_key(name).field("disks"),
            members: BTreeMap::new(),
            count: role.members,
            needed: role.needed,
        });
        let disks = group.members.entry(role.member).or_default();
        let shelf = known.and_then(|known| known.shelf.clone());
        disks.push((shelf, shown(&path.display().to_string(), known)));
    }
    groups.into_values().collect()
}

fn shown(disk: &str, known: Option<&DiskPlacement>) -> String {
    match known.and_then(|known| known.slot.as_ref()) {
        Some(slot) => format!("{disk} ({slot})"),
        None => disk.to_owned(),
    }
}

fn list(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let mut text = names[..names.len() - more].join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Disks with one path on a head that has several to other disks.
fn disk_paths(checker: &mut Checker<'_>, name: &HeadName, known: &HeadFacts) {
    let paths = |placement: &DiskPlacement| placement.paths.unwrap_or(0);
    let most = known.placements.values().map(paths).max().unwrap_or(0);
    let is_single = |placement: &DiskPlacement| placement.paths.is_some_and(|paths| paths < 2);
    let single = known.placements.iter();
    let single = single.filter(|(_, placement)| is_single(placement));
    let names: Vec<String> = single.map(|(path, _)| file_name(path)).collect();
    if most < 2 || names.is_empty() {
        return;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    checker.find(
        Code::DiskSinglePath,
        &head_key(name),
        format!(
            "{name} reaches these disks over one path, and other disks over {most}: {}",
            list(&names)
        ),
        "see `multipath -ll` and `nvme list-subsys` there; check cables and zoning, and that multipathd runs and does \
         not exclude the disks (`multipath -v3`)",
    );
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A link that is the only way of clients to a pool on this head.
fn single_link(
    checker: &mut Checker<'_>,
    key: &Key,
    name: &HeadName,
    network: &NetworkName,
    interface: &str,
) {
    let appliance = checker.appliance;
    let is_only = |pool: &Pool| {
        let mut addresses = pool.addresses.iter();
        let is_here = addresses.all(|address| address.network == *network);
        is_here && !pool.addresses.is_empty() && appliance.heads_of(pool).contains(name)
    };
    let pools = appliance.pools.iter();
    let pools: Vec<&str> = pools
        .filter(|(_, pool)| is_only(pool))
        .map(|(pool, _)| pool.as_str())
        .collect();
    if !pools.is_empty() {
        checker.find(
            Code::LinkSingle,
            key,
            format!(
                "on {name}, clients reach {} over {network} only, and {interface} is a single link",
                list(&pools)
            ),
            "give the pool an address in a second network with an interface of its own, or make a bond of two interfaces",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Finding, check};
    use crate::facts::Facts;
    use crate::placement::{DiskGroup, InterfaceLinks};

    const PAIR: &str = include_str!("../../../../examples/pair.toml");
    const LEGS: &str = include_str!("../../../../examples/legs-two-heads-witness.toml");

    /// The findings that these placements and links add.
    fn found(file: &str, change: impl Fn(&str, &mut HeadFacts)) -> Vec<Finding> {
        let parsed = crate::parse::parse(file).expect("well formed");
        let facts = |is_changed: bool| {
            let heads = parsed.appliance.heads.keys().map(|name| {
                let mut head = HeadFacts::default();
                if is_changed {
                    change(name.as_str(), &mut head);
                }
                (name.clone(), head)
            });
            Facts {
                heads: heads.collect(),
                ..Facts::default()
            }
        };
        let usual = check(&parsed, &facts(false));
        let mut found = check(&parsed, &facts(true));
        found.retain(|finding| !usual.contains(finding));
        found
    }

    fn disk(index: usize) -> String {
        format!("/dev/disk/by-id/scsi-35000c500a1b20{index}00")
    }

    /// The six disks of the pair on these shelves, in groups of so many of which so many are needed.
    fn placed(shelves: [&str; 6], members: usize, needed: usize) -> Vec<Finding> {
        found(PAIR, |name, head| {
            for (index, shelf) in shelves.iter().enumerate() {
                // The labels are read by one head, and the slots by the other one.
                let placement = match name {
                    "left" => DiskPlacement {
                        group: Some(DiskGroup {
                            pool: "tank".to_owned(),
                            id: (index / members) as u64,
                            member: index % members,
                            members,
                            needed,
                        }),
                        ..DiskPlacement::default()
                    },
                    _ => DiskPlacement {
                        shelf: Some((*shelf).to_owned()).filter(|shelf| !shelf.is_empty()),
                        slot: Some(format!("slot {index}")),
                        ..DiskPlacement::default()
                    },
                };
                head.placements.insert(disk(index).into(), placement);
            }
        })
    }

    fn codes(found: &[Finding]) -> Vec<Code> {
        found.iter().map(|finding| finding.code).collect()
    }

    /// A mistyped name in the file.
    #[test]
    fn disks_with_a_pool_of_another_name_are_found() {
        let with = |pools: [&'static str; 2]| {
            found(PAIR, |_, head| {
                for (index, pool) in pools.into_iter().enumerate() {
                    let group = DiskGroup {
                        pool: pool.to_owned(),
                        id: 1,
                        member: index,
                        members: 2,
                        needed: 1,
                    };
                    let placement = DiskPlacement {
                        group: Some(group).filter(|group| !group.pool.is_empty()),
                        ..DiskPlacement::default()
                    };
                    head.placements.insert(disk(index).into(), placement);
                }
            })
        };
        let found = with(["vault", "vault"]);
        assert_eq!(codes(&found), [Code::PoolName], "{found:#?}");
        assert_eq!(found[0].what, "the disks of pool tank contain pool vault");
        assert!(found[0].mend.contains("[pools.vault]"), "{}", found[0]);
        for fine in [["tank", "tank"], ["", ""], ["vault", "tank"]] {
            assert!(with(fine).is_empty(), "{fine:?}");
        }
    }

    #[test]
    fn mirror_on_one_of_two_shelves_is_found() {
        let found = placed(["A", "B", "A", "A", "B", "A"], 2, 1);
        assert_eq!(codes(&found), [Code::ShelfShared], "{found:#?}");
        let what = &found[0].what;
        assert!(
            what.contains("shelf A") && what.contains("20200 (slot 2)") && what.contains("20300"),
            "{what}"
        );
        assert!(
            found[0].mend.contains("pool replace-disk tank"),
            "{}",
            found[0]
        );
        assert!(placed(["A", "B", "A", "B", "B", "A"], 2, 1).is_empty());
        // A side on an unknown shelf may be elsewhere.
        assert!(placed(["A", "B", "A", "", "B", "A"], 2, 1).is_empty());
    }

    #[test]
    fn raidz_with_more_disks_on_a_shelf_than_parity_is_found() {
        let found = placed(["A", "A", "A", "B", "B", "C"], 6, 4);
        assert_eq!(codes(&found), [Code::ShelfShared], "{found:#?}");
        assert!(
            found[0].what.starts_with("3 of the 6 disks") && found[0].what.contains("loss of 2"),
            "{}",
            found[0]
        );
        assert!(placed(["A", "A", "B", "B", "C", "C"], 6, 4).is_empty());
        // Without redundancy each disk is fatal anyway.
        assert!(placed(["A", "A", "A", "B", "B", "C"], 6, 6).is_empty());
    }

    #[test]
    fn pool_on_one_shelf_is_one_hint() {
        let found = placed(["A"; 6], 2, 1);
        assert_eq!(codes(&found), [Code::ShelfSingle], "{found:#?}");
        assert!(placed([""; 6], 2, 1).is_empty());
    }

    /// A mirror survives if one of two disks of a member that is being replaced is on another shelf.
    #[test]
    fn disk_that_replaces_another_one_counts_for_its_member() {
        let with = |shelves: [&'static str; 3]| {
            found(PAIR, |_, head| {
                for (index, shelf) in shelves.into_iter().enumerate() {
                    let placement = DiskPlacement {
                        shelf: Some(shelf.to_owned()),
                        group: Some(DiskGroup {
                            pool: "tank".to_owned(),
                            id: 1,
                            member: index / 2,
                            members: 2,
                            needed: 1,
                        }),
                        ..DiskPlacement::default()
                    };
                    head.placements.insert(disk(index).into(), placement);
                }
            })
        };
        assert!(with(["A", "B", "A"]).is_empty());
        assert_eq!(codes(&with(["A", "A", "A"])), [Code::ShelfSingle]);
    }

    #[test]
    fn heads_in_one_chassis_share_a_shelf() {
        let parsed = crate::parse::parse(LEGS).expect("well formed");
        let place = |shelf: fn(&str) -> &str| {
            found(LEGS, |name, head| {
                let own = &parsed.appliance.heads[&name.parse::<HeadName>().expect("a name")];
                for disk in own.disks.values() {
                    let placement = DiskPlacement {
                        shelf: Some(shelf(name).to_owned()),
                        ..DiskPlacement::default()
                    };
                    head.placements.insert(disk.path.clone(), placement);
                }
            })
        };
        let shared = place(|_| "chassis");
        assert!(
            !shared.is_empty() && codes(&shared).iter().all(|code| *code == Code::ShelfSingle),
            "{shared:#?}"
        );
        assert!(place(|name| if name == "left" { "A" } else { "B" }).is_empty());
    }

    #[test]
    fn disk_with_one_path_next_to_multipath_is_found() {
        let with = |paths: [Option<u32>; 3]| {
            found(PAIR, |name, head| {
                for (index, paths) in paths.into_iter().enumerate().filter(|_| name == "left") {
                    let placement = DiskPlacement {
                        paths,
                        ..DiskPlacement::default()
                    };
                    head.placements.insert(disk(index).into(), placement);
                }
            })
        };
        let some = with([Some(2), Some(1), Some(0)]);
        assert_eq!(codes(&some), [Code::DiskSinglePath], "{some:#?}");
        assert!(
            some[0].what.contains("20100") && some[0].what.contains("20200"),
            "{}",
            some[0]
        );
        for quiet in [[Some(1); 3], [Some(2), Some(4), None], [None; 3]] {
            assert!(with(quiet).is_empty(), "{quiet:?}");
        }
    }

    #[test]
    fn single_link_to_clients_and_bond_with_a_dead_link_are_found() {
        let with = |file: &str, all, working| {
            found(file, |name, head| {
                if name == "left" {
                    let links = InterfaceLinks { all, working };
                    head.links.insert("ens1f0".to_owned(), links);
                }
            })
        };
        // Both networks of the pair have an address of the pool.
        assert!(with(PAIR, 1, 1).is_empty());
        let second = "    { network = \"storage-b\", address = \"10.77.2.100\" },\n";
        let one_network = PAIR.replace(second, "");
        assert_ne!(one_network, PAIR);
        let single = with(&one_network, 1, 1);
        assert_eq!(codes(&single), [Code::LinkSingle], "{single:#?}");
        assert!(
            single[0].what.contains("ens1f0 is a single link"),
            "{}",
            single[0]
        );
        assert!(with(&one_network, 2, 2).is_empty());
        let degraded = with(PAIR, 2, 1);
        assert_eq!(codes(&degraded), [Code::LinkDegraded], "{degraded:#?}");
        assert!(degraded[0].mend.contains("/proc/net/bonding/ens1f0"));
    }
}
