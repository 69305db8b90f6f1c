//! Renders values of properties for people. JSON contains the engine's numbers.

use control::calendar;
use control::owners::OwnerProperty;

use control::words::bytes;

/// The engine's value for "no limit", and for "unknown".
const NONE: u64 = u64::MAX;

/// Properties that are numbers of bytes.
const SIZES: [&str; 28] = [
    "allocated",
    "available",
    "bclonesaved",
    "bcloneused",
    "checkpoint",
    "dedup_table_size",
    "expandsize",
    "free",
    "freeing",
    "leaked",
    "logicalreferenced",
    "logicalused",
    "maxblocksize",
    "maxdnodesize",
    "referenced",
    "size",
    "special_small_blocks",
    "unique",
    "used",
    "usedbychildren",
    "usedbydataset",
    "usedbyrefreservation",
    "usedbysnapshots",
    "volblocksize",
    "volsize",
    "recordsize",
    "written",
    "dedup_table_quota",
];
/// Bytes as well; 0 means none.
const LIMITS: [&str; 4] = ["quota", "refquota", "reservation", "refreservation"];

/// Renders the `value` of `name`.
pub fn readable(name: &str, value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else {
        return match value {
            "" => "-".to_owned(),
            text => text.to_owned(),
        };
    };
    if let Some(property) = OwnerProperty::parse(name) {
        return match property {
            _ if property.is_quota && number == 0 => "none".to_owned(),
            _ if property.of_objects => number.to_string(),
            _ => bytes(number),
        };
    }
    match name {
        _ if number == NONE => "none".to_owned(),
        _ if LIMITS.contains(&name) && number == 0 => "none".to_owned(),
        _ if SIZES.contains(&name) || LIMITS.contains(&name) => bytes(number),
        _ if name.ends_with("ratio") => format!("{}.{:02}x", number / 100, number % 100),
        "capacity" | "fragmentation" => format!("{number}%"),
        "creation" | "snapshots_changed" | "keystatus_changed" if number > 0 => {
            calendar::utc(number)
        }
        "type" => word(number, &["-", "snapshot", "filesystem", "volume"]),
        "health" => {
            let states = [
                "UNKNOWN", "CLOSED", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED",
                "ONLINE",
            ];
            word(number, &states)
        }
        _ => value.to_owned(),
    }
}

fn word(number: u64, words: &[&str]) -> String {
    let word = usize::try_from(number).ok().and_then(|at| words.get(at));
    word.map_or_else(|| number.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_numbers_become_sizes_ratios_and_dates() {
        for (name, value, expected) in [
            ("used", "57344", "56K"),
            ("volsize", "67108864", "64M"),
            ("compressratio", "245", "2.45x"),
            ("dedupratio", "100", "1.00x"),
            ("quota", "0", "none"),
            ("refreservation", "1073741824", "1G"),
            ("snapshot_limit", "18446744073709551615", "none"),
            ("type", "3", "volume"),
            ("health", "7", "ONLINE"),
            ("health", "70", "70"),
            ("fragmentation", "23", "23%"),
            ("creation", "0", "0"),
            ("guid", "9086080311704067895", "9086080311704067895"),
            ("compression", "zstd-3", "zstd-3"),
            ("comment", "", "-"),
            ("copies", "1", "1"),
            ("my:used", "57344", "57344"),
            ("userused@1000", "57344", "56K"),
            ("userquota@1000", "0", "none"),
            ("groupobjquota@100", "57344", "57344"),
            ("projectobjused@7", "0", "0"),
        ] {
            assert_eq!(readable(name, value), expected, "{name}");
        }
        assert!(readable("creation", "1795254429").starts_with("2026-11-2"));
    }
}
