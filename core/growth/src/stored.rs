//! The stored bytes: of each placement group, and of each disk.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::osdmap::{OsdMap, PgId};
use crate::{GrowthError, OSD_ID_MAX, OsdId};

/// Bytes of clients in each placement group of each pool, by number.
pub type GroupBytes = BTreeMap<i64, Vec<u64>>;

/// Size and use of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DiskUse {
    /// Bytes that it holds at most.
    pub size: u64,
    /// Used bytes, with metadata.
    pub used: u64,
    /// Used bytes of objects.
    pub data: u64,
}

/// The stored bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// By placement group.
    pub groups: GroupBytes,
    /// By disk; empty if it is unknown.
    pub disks: BTreeMap<OsdId, DiskUse>,
}

#[derive(Deserialize)]
struct RawSum {
    num_bytes: i64,
    #[serde(default)]
    num_omap_bytes: i64,
}

#[derive(Deserialize)]
struct RawPg {
    pgid: String,
    stat_sum: RawSum,
}

#[derive(Deserialize)]
struct RawOsdStat {
    osd: i64,
    kb: u64,
    kb_used: u64,
    #[serde(default)]
    kb_used_data: Option<u64>,
}

#[derive(Deserialize)]
struct RawPgMap {
    pg_stats: Vec<RawPg>,
    #[serde(default)]
    osd_stats: Vec<RawOsdStat>,
}

/// Releases from 14 on print the tables inside of `pg_map`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawPgDump {
    Inside { pg_map: RawPgMap },
    Bare(RawPgMap),
}

impl Stored {
    /// Parses the output of `ceph pg dump --format json`.
    ///
    /// # Errors
    ///
    /// It is no such document, or groups of `map` are missing in it.
    pub fn from_pg_dump(map: &OsdMap, json: &[u8]) -> Result<Self, GrowthError> {
        let dump: RawPgDump = serde_json::from_slice(json).map_err(|error| {
            let message = format!("the dump of the placement groups is not valid: {error}");
            let advice = "write it with `ceph pg dump --format json`";
            GrowthError::output(message).advise(advice)
        })?;
        let (RawPgDump::Inside { pg_map: dump } | RawPgDump::Bare(dump)) = dump;
        let mut groups: GroupBytes = map
            .pools
            .values()
            .map(|pool| (pool.id, vec![u64::MAX; pool.pgs as usize]))
            .collect();
        for pg in &dump.pg_stats {
            let id: PgId = pg.pgid.parse()?;
            // A pool that was created or split after the map is none of its groups.
            let slot = groups
                .get_mut(&id.pool)
                .and_then(|pool| pool.get_mut(id.number as usize));
            if let Some(slot) = slot {
                let sum = pg
                    .stat_sum
                    .num_bytes
                    .saturating_add(pg.stat_sum.num_omap_bytes);
                *slot = u64::try_from(sum).unwrap_or(0);
            }
        }
        for (pool, groups) in &groups {
            let missing = groups.iter().filter(|&&bytes| bytes == u64::MAX).count();
            if missing > 0 {
                let message = format!(
                    "the dump of the placement groups has none of {missing} groups of pool {}",
                    map.pools[pool].name
                );
                let advice =
                    "write the dump and the map one after the other, from the same cluster";
                return Err(GrowthError::output(message).advise(advice));
            }
        }
        let disks = disks_of(&dump.osd_stats)?;
        Ok(Self { groups, disks })
    }

    /// The bytes of each pool, evenly over its groups.
    ///
    /// # Errors
    ///
    /// There is no such pool.
    pub fn evenly(map: &OsdMap, pools: &[(String, u64)]) -> Result<Self, GrowthError> {
        let mut stored = Self::default();
        for pool in map.pools.values() {
            stored.groups.insert(pool.id, vec![0; pool.pgs as usize]);
        }
        for (name, bytes) in pools {
            let pool = map.pools.values().find(|pool| pool.name == *name);
            let pool = pool.ok_or_else(|| {
                let names = map.pools.values().map(|pool| pool.name.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                GrowthError::not_found(format!("the map has no pool {name}"))
                    .advise(format!("its pools: {names}"))
            })?;
            let each = bytes / u64::from(pool.pgs);
            stored.groups.insert(pool.id, vec![each; pool.pgs as usize]);
        }
        Ok(stored)
    }
}

fn disks_of(stats: &[RawOsdStat]) -> Result<BTreeMap<OsdId, DiskUse>, GrowthError> {
    let mut disks = BTreeMap::new();
    for stat in stats {
        let osd = OsdId::try_from(stat.osd)
            .ok()
            .filter(|&id| id <= OSD_ID_MAX);
        let osd =
            osd.ok_or_else(|| GrowthError::output(format!("{} is no number of an OSD", stat.osd)))?;
        let bytes = |kib: u64| kib.saturating_mul(1024);
        let disk = DiskUse {
            size: bytes(stat.kb),
            used: bytes(stat.kb_used),
            data: bytes(stat.kb_used_data.unwrap_or(stat.kb_used)),
        };
        disks.insert(osd, disk);
    }
    Ok(disks)
}

#[derive(Deserialize)]
struct RawNode {
    id: i64,
    kb: u64,
    kb_used: u64,
    #[serde(default)]
    kb_used_data: Option<u64>,
}

#[derive(Deserialize)]
struct RawOsdDf {
    nodes: Vec<RawNode>,
}

/// Parses the output of `ceph osd df --format json`.
///
/// # Errors
///
/// It is no such document.
pub fn disks_from_osd_df(json: &[u8]) -> Result<BTreeMap<OsdId, DiskUse>, GrowthError> {
    let df: RawOsdDf = serde_json::from_slice(json).map_err(|error| {
        GrowthError::output(format!("the output of `ceph osd df` is not valid: {error}"))
    })?;
    let stats: Vec<RawOsdStat> = df
        .nodes
        .into_iter()
        .filter(|node| node.id >= 0)
        .map(|node| RawOsdStat {
            osd: node.id,
            kb: node.kb,
            kb_used: node.kb_used,
            kb_used_data: node.kb_used_data,
        })
        .collect();
    disks_of(&stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> OsdMap {
        let text = r#"{"epoch": 1, "fsid": "f", "osds": [], "pools": [{"pool": 1, "pool_name": "rbd", "type": 1, "size": 2,
            "crush_rule": 0, "pg_num": 2, "pg_placement_num": 2, "flags_names": "hashpspool"}]}"#;
        OsdMap::parse(text.as_bytes()).expect("a map")
    }

    const DUMP: &str = r#"{"pg_ready": true, "pg_map": {
        "pg_stats": [{"pgid": "1.0", "stat_sum": {"num_bytes": 100, "num_omap_bytes": 5}},
                     {"pgid": "1.1", "stat_sum": {"num_bytes": -3}}, {"pgid": "7.0", "stat_sum": {"num_bytes": 9}}],
        "osd_stats": [{"osd": 4, "kb": 1000, "kb_used": 20, "kb_used_data": 10}]}}"#;

    #[test]
    fn groups_and_disks_are_read_from_a_dump() {
        let stored = Stored::from_pg_dump(&map(), DUMP.as_bytes()).expect("a dump");
        assert_eq!(stored.groups, BTreeMap::from([(1, vec![105, 0])]));
        let disk = stored.disks[&4];
        assert_eq!(
            (disk.size, disk.used, disk.data),
            (1_024_000, 20_480, 10_240)
        );
    }

    #[test]
    fn incomplete_or_strange_dumps_are_refused() {
        for (right, wrong, reason) in [
            ("\"1.1\"", "\"2.1\"", "none of 1 groups"),
            ("\"1.1\"", "\"x\"", "no placement group"),
            ("\"osd\": 4", "\"osd\": -4", "no number"),
            ("pg_stats", "pg_states", "not valid"),
        ] {
            let text = DUMP.replace(right, wrong);
            let error = Stored::from_pg_dump(&map(), text.as_bytes()).expect_err(reason);
            assert!(error.message.contains(reason), "{error}");
        }
    }

    #[test]
    fn bytes_of_a_pool_are_spread_evenly() {
        let even = |name: &str| Stored::evenly(&map(), &[(name.to_owned(), 1000)]);
        assert_eq!(even("rbd").expect("a pool").groups[&1], [500, 500]);
        let error = even("vms").expect_err("no such pool");
        assert_eq!(error.advice.as_deref(), Some("its pools: rbd"));
    }

    #[test]
    fn the_use_of_disks_is_read() {
        let json = br#"{"nodes": [{"id": 0, "kb": 100, "kb_used": 7, "type": "osd"}], "stray": [], "summary": {}}"#;
        let disks = disks_from_osd_df(json).expect("disks");
        assert_eq!(disks[&0].data, 7 * 1024);
        assert!(disks_from_osd_df(b"[]").is_err());
    }
}
