//! Output of Ceph's tools, also invalid: each parser of a planned growth accepts or refuses it.

#![no_main]

use growth::crush::CrushMap;
use growth::osdmap::{OsdMap, Pool};
use growth::placement::{MapDump, SeedRange, Seeds};
use growth::progress::{SavedPlan, parse_samples};
use growth::request::{Addition, Removal};
use growth::stored::{Stored, disks_from_osd_df};
use libfuzzer_sys::fuzz_target;

const POOL: &str = r#"{"epoch": 1, "fsid": "f", "osds": [], "pools": [{"pool": 1, "pool_name": "rbd", "type": 1, "size": 3,
    "crush_rule": 0, "pg_num": 4, "pg_placement_num": 4, "flags_names": "hashpspool"}]}"#;

fn lines(pool: &Pool, text: &str) {
    let _ = MapDump::parse(pool, text);
    let mut seeds = Seeds::new(pool);
    let range = SeedRange { first: 0, last: 3 };
    if seeds.read(range, text).is_ok() {
        assert!(seeds.into_placement().is_ok(), "all inputs were read");
    }
}

fuzz_target!(|data: &[u8]| {
    let map = OsdMap::parse(POOL.as_bytes()).expect("a map");
    let _ = OsdMap::parse(data);
    let _ = Stored::from_pg_dump(&map, data);
    let _ = disks_from_osd_df(data);
    let _ = SavedPlan::parse(data);
    if let Ok(crush) = CrushMap::parse(data) {
        let _ = crush.to_text();
        let _ = crush.domains("host");
        for osd in crush.disks().into_keys() {
            let _ = crush.clone().set_weight(osd, 1 << 16);
        }
    }
    let text = String::from_utf8_lossy(data);
    let _ = parse_samples(&text);
    let _ = text.parse::<Addition>();
    let _ = text.parse::<Removal>();
    lines(&map.pools[&1], &text);
});
