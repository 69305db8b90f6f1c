//! Tests with lines that the tools of release 16.2.15 printed.

use std::collections::BTreeSet;

use super::*;
use crate::osdmap::{OsdState, Ratios};

fn pool(width: usize, pgs: u32) -> Pool {
    Pool {
        id: 1,
        name: "rbd".to_owned(),
        width,
        rule: 0,
        pgs,
        placed_pgs: pgs,
        is_hashed: true,
        data_shards: None,
    }
}

const DUMP: &str = "pool 1 pg_num 2
1.0 raw ([89,65,44], p89) up ([89,65,44], p89) acting ([89,65,44], p89)
1.1 raw ([67,39,147], p67) up ([67,147], p67) acting ([67,147], p67)
#osd\tcount\tfirst\tprimary\tc wt\twt
osd.0\t203\t63\t63\t1\t1
";

#[test]
fn the_dump_of_a_map_is_read() {
    let dump = MapDump::parse(&pool(3, 2), DUMP).expect("a dump");
    assert_eq!(dump.raw.of(1), [Some(67), Some(39), Some(147)]);
    assert_eq!(dump.up.of(1), [Some(67), Some(147), None]);
}

#[test]
fn incomplete_or_strange_dumps_are_refused() {
    assert!(
        MapDump::parse(&pool(3, 3), DUMP).is_err(),
        "a group is missing"
    );
    assert!(
        MapDump::parse(&pool(3, 1), DUMP).is_err(),
        "a group too many"
    );
    assert!(
        MapDump::parse(&pool(2, 2), DUMP).is_err(),
        "more copies than the pool has"
    );
    for (right, wrong) in [
        ("[67,39,147]", "[67,x,147]"),
        ("1.1 raw", "1.0 raw"),
        (" up (", " down ("),
    ] {
        let text = DUMP.replace(right, wrong);
        assert!(MapDump::parse(&pool(3, 2), &text).is_err(), "{wrong}");
    }
}

const MAPPINGS: &str = "CRUSH rule 0 x 0 [1,0,2147483647]\nCRUSH rule 0 x 1 [1,2147483647,2]\n";
const RANGE: SeedRange = SeedRange { first: 0, last: 1 };

#[test]
fn mappings_are_read() {
    let pool = pool(3, 2);
    let mut seeds = Seeds::new(&pool);
    seeds.read(RANGE, MAPPINGS).expect("read");
    let placement = seeds.into_placement().expect("complete");
    assert_eq!(placement.of(0), [Some(1), Some(0), None]);
    assert_eq!(placement.of(1), [Some(1), None, Some(2)]);
    assert_eq!(placement.of(2), []);
}

#[test]
fn mappings_of_other_inputs_are_refused() {
    let pool = pool(3, 2);
    let mut seeds = Seeds::new(&pool);
    let half = SeedRange { first: 0, last: 0 };
    assert!(seeds.read(half, MAPPINGS).is_err(), "one too many");
    let only = MAPPINGS.lines().next().unwrap_or_default();
    assert!(seeds.read(RANGE, only).is_err(), "one is missing");
    assert!(
        seeds
            .read(RANGE, &MAPPINGS.replace("x 1", "x one"))
            .is_err()
    );
    assert!(Seeds::new(&pool).into_placement().is_err());
}

#[test]
fn pools_without_the_hash_are_shifted_by_their_number() {
    let mut pool = pool(3, 2);
    pool.is_hashed = false;
    let words = Seeds::arguments(&pool, RANGE).join(" ");
    assert!(words.ends_with("--min-x 1 --max-x 2"), "{words}");
    let mut seeds = Seeds::new(&pool);
    let shifted = MAPPINGS.replace("x 1", "x 2").replace("x 0", "x 1");
    seeds.read(RANGE, &shifted).expect("read");
    assert_eq!(seeds.of(1), Some(&[1, NO_DISK, 2][..]));
}

fn exceptions(upmaps: &Upmaps) -> Exceptions<'_> {
    Exceptions {
        upmaps,
        out: BTreeSet::from([9]),
        domains: BTreeMap::from([(1, (0..10).map(|osd| (osd, i64::from(osd / 2))).collect())]),
    }
}

fn upmapped(pairs: &[(OsdId, OsdId)]) -> Vec<Option<OsdId>> {
    let pg = PgId { pool: 1, number: 0 };
    let upmaps = Upmaps {
        whole: BTreeMap::new(),
        items: BTreeMap::from([(pg, pairs.to_vec())]),
    };
    let mut placement = PoolPlacement::new(&pool(3, 1));
    placement.set(0, &[0, 2, 4]);
    exceptions(&upmaps).apply(1, &mut placement);
    placement.of(0).to_vec()
}

#[test]
fn upmaps_replace_disks() {
    assert_eq!(upmapped(&[(2, 6)]), [Some(0), Some(6), Some(4)]);
    assert_eq!(
        upmapped(&[(7, 6)]),
        [Some(0), Some(2), Some(4)],
        "not a disk of the group"
    );
    assert_eq!(
        upmapped(&[(2, 4)]),
        [Some(0), Some(2), Some(4)],
        "has a copy already"
    );
    assert_eq!(upmapped(&[(2, 9)]), [Some(0), Some(2), Some(4)], "is out");
    assert_eq!(
        upmapped(&[(2, 5)]),
        [Some(0), Some(2), Some(4)],
        "two copies on one host"
    );
}

#[test]
fn whole_upmaps_replace_all_disks_unless_one_is_out() {
    let placed = |disks: &[OsdId]| {
        let pg = PgId { pool: 1, number: 0 };
        let upmaps = Upmaps {
            whole: BTreeMap::from([(pg, disks.to_vec())]),
            items: BTreeMap::new(),
        };
        let mut placement = PoolPlacement::new(&pool(3, 1));
        placement.set(0, &[0, 2, 4]);
        exceptions(&upmaps).apply(1, &mut placement);
        placement.of(0).to_vec()
    };
    assert_eq!(placed(&[1, 3, 5]), [Some(1), Some(3), Some(5)]);
    assert_eq!(placed(&[1, 3, 9]), [Some(0), Some(2), Some(4)]);
}

#[test]
fn a_model_that_differs_from_the_tool_is_refused() {
    let pool = pool(3, 2);
    let dump = MapDump::parse(&pool, DUMP).expect("a dump");
    let up = OsdState {
        is_up: true,
        reweight: 1 << 16,
    };
    let down = OsdState { is_up: false, ..up };
    let mut map = OsdMap {
        epoch: 1,
        fsid: String::new(),
        pools: BTreeMap::new(),
        osds: [89, 65, 44, 67, 147].map(|osd| (osd, up)).into(),
        upmaps: Upmaps::default(),
        pgs_in_motion: 0,
        ratios: Ratios {
            nearfull: 0.85,
            backfillfull: 0.9,
            full: 0.95,
        },
    };
    map.osds.insert(39, down);
    let seeds = Seeds::new(&pool);
    verify(&map, &pool, &dump, &seeds, &dump.raw).expect("a disk that is down is left out by Ceph");
    map.osds.insert(39, up);
    assert!(verify(&map, &pool, &dump, &seeds, &dump.raw).is_err());
    let mut seeds = Seeds::new(&pool);
    let only = SeedRange { first: 0, last: 0 };
    seeds
        .read(only, "CRUSH rule 0 x 0 [89,44,65]")
        .expect("read");
    map.osds.insert(39, down);
    assert!(verify(&map, &pool, &dump, &seeds, &dump.raw).is_err());
}
