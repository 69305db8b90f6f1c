//! The stages of a growth: which disks get their weight together.

use std::collections::BTreeMap;

use crate::crush::CrushMap;
use crate::request::Growth;
use crate::{GrowthError, OsdId};

/// How a growth is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// One disk, then the rest of its host, then the remaining disks: the steps of a careful administrator.
    Careful,
    /// All at once.
    Once,
    /// One disk, then the rest of its host, then host by host.
    Hosts,
    /// One disk, then this number of disks at a time.
    Disks(u32),
}

/// Most stages: each needs a run of CRUSH over all placement groups.
pub const STAGES_MAX: usize = 100;

impl std::str::FromStr for Staging {
    type Err = GrowthError;

    fn from_str(text: &str) -> Result<Self, GrowthError> {
        match text {
            "careful" => Ok(Self::Careful),
            "once" => Ok(Self::Once),
            "hosts" => Ok(Self::Hosts),
            count => match count.parse() {
                Ok(count) if count > 0 => Ok(Self::Disks(count)),
                _ => Err(GrowthError::usage(format!(
                    "{text:?} are no stages: write careful, once, hosts, or a number of disks"
                ))),
            },
        }
    }
}

/// A stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Disks that get their weight.
    pub raised: Vec<OsdId>,
    /// Disks that lose it.
    pub removed: Vec<OsdId>,
}

/// Divides a growth. Removals are last, because added disks make room for their data.
///
/// # Errors
///
/// There would be too many stages.
pub fn divide(growth: &Growth, staging: Staging) -> Result<Vec<Stage>, GrowthError> {
    let batches = batches(growth, staging);
    let mut stages: Vec<Stage> = batches
        .into_iter()
        .filter(|raised| !raised.is_empty())
        .map(|raised| Stage {
            raised,
            removed: Vec::new(),
        })
        .collect();
    if !growth.removed.is_empty() {
        let removed = growth.removed.clone();
        match stages.first_mut() {
            Some(only) if staging == Staging::Once => only.removed = removed,
            _ => stages.push(Stage {
                raised: Vec::new(),
                removed,
            }),
        }
    }
    match stages.len() <= STAGES_MAX {
        true => Ok(stages),
        false => {
            let message = format!("{} stages are too many: at most {STAGES_MAX}", stages.len());
            Err(GrowthError::usage(message).advise("use more disks for each: --stages NUMBER"))
        }
    }
}

fn batches(growth: &Growth, staging: Staging) -> Vec<Vec<OsdId>> {
    let all: Vec<OsdId> = growth.added.iter().map(|disk| disk.osd).collect();
    let Some((first, rest)) = growth.added.split_first() else {
        return Vec::new();
    };
    let rest_numbers: Vec<OsdId> = rest.iter().map(|disk| disk.osd).collect();
    let on_first = |is: bool| -> Vec<OsdId> {
        let disks = rest.iter().filter(|disk| (disk.host == first.host) == is);
        disks.map(|disk| disk.osd).collect()
    };
    match staging {
        Staging::Once => vec![all],
        Staging::Careful => vec![vec![first.osd], on_first(true), on_first(false)],
        Staging::Disks(count) => {
            let chunks = rest_numbers.chunks(count.max(1) as usize);
            std::iter::once(vec![first.osd])
                .chain(chunks.map(<[OsdId]>::to_vec))
                .collect()
        }
        Staging::Hosts => {
            let mut by_host: Vec<(&str, Vec<OsdId>)> = Vec::new();
            for disk in rest.iter().filter(|disk| disk.host != first.host) {
                match by_host.iter_mut().find(|(host, _)| *host == disk.host) {
                    Some((_, disks)) => disks.push(disk.osd),
                    None => by_host.push((&disk.host, vec![disk.osd])),
                }
            }
            let hosts = by_host.into_iter().map(|(_, disks)| disks);
            [vec![first.osd], on_first(true)]
                .into_iter()
                .chain(hosts)
                .collect()
        }
    }
}

/// The map after each stage.
///
/// # Errors
///
/// A weight cannot be set.
pub fn maps(
    prepared: &CrushMap,
    growth: &Growth,
    stages: &[Stage],
) -> Result<Vec<CrushMap>, GrowthError> {
    let weights: BTreeMap<OsdId, u64> = growth
        .added
        .iter()
        .map(|disk| (disk.osd, disk.weight()))
        .collect();
    let mut current = prepared.clone();
    let mut maps = Vec::new();
    for stage in stages {
        for osd in &stage.raised {
            current.set_weight(*osd, weights.get(osd).copied().unwrap_or(0))?;
        }
        for osd in &stage.removed {
            current.set_weight(*osd, 0)?;
        }
        maps.push(current.clone());
    }
    Ok(maps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::NewDisk;

    fn growth() -> Growth {
        let disk = |osd: OsdId| NewDisk {
            osd,
            host: format!("h{}", osd / 10),
            size: 1 << 40,
            class: None,
            exists: false,
        };
        Growth {
            hosts: Vec::new(),
            added: (170..200).map(disk).collect(),
            removed: vec![3],
        }
    }

    fn sizes(staging: Staging) -> Vec<usize> {
        let stages = divide(&growth(), staging).expect("few");
        stages.iter().map(|stage| stage.raised.len()).collect()
    }

    #[test]
    fn the_first_stage_is_one_disk_and_the_removal_is_last() {
        assert_eq!(sizes(Staging::Careful), [1, 9, 20, 0]);
        assert_eq!(sizes(Staging::Hosts), [1, 9, 10, 10, 0]);
        assert_eq!(sizes(Staging::Disks(14)), [1, 14, 14, 1, 0]);
        assert_eq!(sizes(Staging::Once), [30]);
        let stages = divide(&growth(), Staging::Careful).expect("few");
        assert_eq!(stages[3].removed, [3]);
    }

    #[test]
    fn stages_have_a_limit() {
        let mut growth = growth();
        growth.added = (0..300)
            .map(|osd| NewDisk {
                osd,
                ..growth.added[0].clone()
            })
            .collect();
        assert!(divide(&growth, Staging::Disks(1)).is_err());
        assert!(divide(&growth, Staging::Disks(5)).is_ok());
    }

    #[test]
    fn texts_of_stages_are_read() {
        assert_eq!("12".parse(), Ok(Staging::Disks(12)));
        assert_eq!("hosts".parse(), Ok(Staging::Hosts));
        for wrong in ["0", "-1", "", "racks"] {
            assert!(wrong.parse::<Staging>().is_err(), "{wrong}");
        }
    }
}
