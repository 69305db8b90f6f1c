//! Checks of a configuration. All errors are reported at once.

use std::collections::BTreeSet;

use leg_record::RECORD_BYTES_MAX;

use crate::{Group, Kind, LegsFile, Member, Pool, Redundancy, Role};

/// Disks of one pool, limited by the size of a record.
const DISKS_MAX: usize = 1024;
const _: () = assert!(RECORD_BYTES_MAX > DISKS_MAX * 56, "they fit");

pub(crate) fn findings(file: &LegsFile) -> Vec<String> {
    let mut wrong = Vec::new();
    members(file, &mut wrong);
    let (mut numbers, mut disks, mut paths) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, pool) in &file.pools {
        if !numbers.insert(pool.guid) {
            wrong.push(format!(
                "pools.{name}: the number {} is another pool's, and each has one of its own",
                pool.guid
            ));
        }
        groups(name.as_str(), pool, &mut wrong);
        for leg in pool.groups.iter().flat_map(|group| &group.legs) {
            let at = format!("pools.{name}, disk {}", leg.disk);
            if !disks.insert(leg.disk) {
                wrong.push(format!("{at}: the number is given to two disks"));
            }
            if !paths.insert((&leg.head, &leg.path)) {
                wrong.push(format!(
                    "{at}: {} of head {} is named twice, and a disk is one leg",
                    leg.path.display(),
                    leg.head
                ));
            }
            if !leg.path.is_absolute() {
                wrong.push(format!(
                    "{at}: write the absolute path of {}",
                    leg.path.display()
                ));
            }
            match file.members.get(&leg.head) {
                Some(member) if member.kind == Kind::Head => {}
                Some(_) => wrong.push(format!("{at}: {} is a witness and has no disks", leg.head)),
                None => wrong.push(format!("{at}: there is no member {}", leg.head)),
            }
        }
    }
    wrong
}

fn members(file: &LegsFile, wrong: &mut Vec<String>) {
    match file.members.get(&file.me) {
        None => wrong.push(format!("me: there is no member {}", file.me)),
        Some(member) if member.kind == Kind::Witness => wrong.push(format!(
            "me: {} is a witness, which runs bulkhead-witness and needs no such file",
            file.me
        )),
        Some(_) => {}
    }
    let count = |kind| file.members.values().filter(|one| one.kind == kind).count();
    let counts = (count(Kind::Head), count(Kind::Witness));
    if !matches!(counts, (2, 0 | 1) | (3, 0)) {
        wrong.push(format!(
            "members: {} heads and {} witnesses; required are two heads, two heads and a witness, or three heads",
            counts.0, counts.1
        ));
    }
    let (mut numbers, mut fingerprints, mut places) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, member) in &file.members {
        let at = format!("members.{name}");
        if !numbers.insert(member.number) {
            wrong.push(format!(
                "{at}: the number {} is another member's",
                member.number
            ));
        }
        if !fingerprints.insert(member.fingerprint) {
            wrong.push(format!(
                "{at}: the fingerprint is another member's, and each has a key of its own"
            ));
        }
        addresses(&at, member, wrong);
        for address in member.members.iter().chain(&member.lends) {
            if !places.insert(address) {
                wrong.push(format!("{at}: the address {address} is given twice"));
            }
        }
    }
}

fn addresses(at: &str, member: &Member, wrong: &mut Vec<String>) {
    if member.members.is_empty() {
        wrong.push(format!(
            "{at}: `members` has the addresses it listens on, and is empty"
        ));
    }
    match member.kind {
        Kind::Head if member.lends.is_empty() => {
            wrong.push(format!(
                "{at}: `lends` has the addresses at which its disks are lent, and is empty"
            ));
        }
        Kind::Witness if !member.lends.is_empty() => {
            wrong.push(format!("{at}: a witness lends nothing: leave `lends` out"));
        }
        _ => {}
    }
    let unusable = member.members.iter().chain(&member.lends);
    for address in unusable.filter(|one| one.ip().is_unspecified() || one.port() == 0) {
        wrong.push(format!(
            "{at}: the other members cannot connect to {address}: write the address of a storage network, and a port"
        ));
    }
}

fn groups(name: &str, pool: &Pool, wrong: &mut Vec<String>) {
    if pool.groups.is_empty() {
        wrong.push(format!("pools.{name}: it has no group of disks"));
    }
    let count: usize = pool.groups.iter().map(|group| group.legs.len()).sum();
    if count > DISKS_MAX {
        wrong.push(format!(
            "pools.{name}: {count} disks, and a record names {DISKS_MAX} at most"
        ));
    }
    for group in &pool.groups {
        if let Some(why) = shape(group) {
            wrong.push(format!("pools.{name}: {why}"));
        }
    }
}

/// Checks that a group is a mirror or has parity, and that the loss of any one head leaves as many legs as are needed.
fn shape(group: &Group) -> Option<String> {
    let count = group.legs.len();
    let Some(redundancy) = group.redundancy() else {
        return Some(format!(
            "a group of {count} disks that needs {}: required is a mirror (needed = 1, of one leg until a second one is attached), or parity: all \
             but one to three disks, and two at least, are needed (raidz1 to raidz3)",
            group.needed
        ));
    };
    if group.role == Role::Log && matches!(redundancy, Redundancy::Parity(_)) {
        return Some("a log is a mirror (needed = 1): ZFS stores it on mirrors only".to_owned());
    }
    if redundancy == Redundancy::None {
        return None;
    }
    let (head, left) = group.least_left()?;
    (left < group.needed).then(|| {
        format!(
            "{} of {count} legs of one group are on the same head, {head}: its loss would leave {left}, and {} are needed. Use more heads, or more \
             parity",
            count - left,
            group.needed
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::{ConfigError, Group, Leg, Redundancy, Role, parse};
    use leg_record::{DiskId, MemberId, Membership};

    fn digits(two: &str) -> String {
        two.repeat(32)
    }

    fn text() -> String {
        format!(
            r#"
me = "a"
certificate = "/etc/bulkhead/legs/cert.pem"
key = "/etc/bulkhead/legs/key.pem"

[members.a]
number = 1
kind = "head"
members = ["10.9.1.1:7071", "10.9.2.1:7071"]
lends = ["10.9.1.1:7072", "10.9.2.1:7072"]
fingerprint = "{}"

[members.b]
number = 2
kind = "head"
members = ["10.9.1.2:7071"]
lends = ["10.9.1.2:7072"]
fingerprint = "{}"

[members.w]
number = 3
kind = "witness"
members = ["10.0.0.5:7071"]
fingerprint = "{}"

[pools.tank]
guid = 123
[[pools.tank.groups]]
needed = 1
legs = [
  {{ disk = 11, head = "a", path = "/dev/disk/by-id/x" }},
  {{ disk = 22, head = "b", path = "/dev/disk/by-id/y" }},
]
"#,
            digits("0a"),
            digits("0b"),
            digits("0c")
        )
    }

    fn wrong(before: &str, after: &str) -> String {
        let changed = text().replacen(before, after, 1);
        assert_ne!(changed, text(), "{before}");
        parse(&changed).expect_err(after).to_string()
    }

    #[test]
    fn file_defines_members_and_lenders() {
        let file = parse(&text()).expect("it is whole");
        assert_eq!(file.me(), MemberId(1));
        let heads = [MemberId(1), MemberId(2)];
        let witness = MemberId(3);
        let membership = Membership::TwoHeadsAndWitness { heads, witness };
        assert_eq!(file.membership(), membership);
        let config = file.config(&"tank".parse().expect("a name"));
        let config = config.expect("a pool");
        assert_eq!(config.pool, 123);
        assert_eq!(config.lender(DiskId(22)), Some(MemberId(2)));
        assert!(config.is_readable(&[DiskId(22)].into()));
        assert_eq!(file.disk_name(DiskId(22)), "b:/dev/disk/by-id/y");
        assert_eq!(
            file.own_legs().map(|leg| leg.disk).collect::<Vec<_>>(),
            [11]
        );
        assert_eq!(parse(&file.render()).expect("as written"), file);
    }

    #[test]
    fn path_error_names_its_line() {
        let text = text();
        let line = |path: &str| crate::line_of(&text, path.as_ref());
        let found = line("/dev/disk/by-id/y").expect("it is there");
        assert!(
            text.lines()
                .nth(found - 1)
                .expect("it has it")
                .contains("disk = 22")
        );
        assert_eq!(line("/dev/disk/by-id"), None);
    }

    #[test]
    fn invalid_value_is_reported_with_its_position() {
        for (before, after, part) in [
            ("me = \"a\"", "me = \"c\"", "me: there is no member c"),
            ("me = \"a\"", "me = \"w\"", "runs bulkhead-witness"),
            ("number = 2", "number = 1", "members.b: the number 1"),
            (&digits("0b"), &digits("0a"), "members.b: the fingerprint"),
            ("10.9.1.2:7072", "10.9.1.2:7071", "is given twice"),
            ("10.9.1.2:7072", "0.0.0.0:7072", "cannot connect"),
            ("disk = 22", "disk = 11", "given to two disks"),
            ("head = \"b\"", "head = \"w\"", "has no disks"),
            ("head = \"b\"", "head = \"d\"", "no member d"),
            ("head = \"b\"", "head = \"a\"", "same head"),
            ("needed = 1", "needed = 2", "a mirror"),
            (
                "needed = 1",
                "needed = 1\nrole = \"cache\"",
                "unknown variant `cache`",
            ),
            ("\"/dev/disk/by-id/y\"", "\"y\"", "absolute path"),
            ("kind = \"witness\"", "kind = \"head\"", "`lends`"),
            ("guid = 123", "gid = 123", "unknown field `gid`"),
            ("fingerprint = \"0", "fingerprint = \"x", "64 hex digits"),
        ] {
            let said = wrong(before, after);
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    /// Legs as heads' letters, and how many are needed.
    fn of_shape(heads: &str, needed: usize) -> Result<Redundancy, String> {
        let leg = |(index, head): (usize, char)| Leg {
            disk: index as u64 + 1,
            head: head.to_string(),
            path: format!("/dev/{index}").into(),
        };
        let legs = heads.chars().enumerate().map(leg).collect();
        let group = Group {
            needed,
            role: Role::Data,
            legs,
        };
        match super::shape(&group) {
            None => Ok(group.redundancy().expect("it has one")),
            Some(why) => Err(why),
        }
    }

    #[test]
    fn any_shape_that_survives_the_loss_of_a_head_is_accepted() {
        let parity = |parity| Ok(Redundancy::Parity(parity));
        for (heads, needed, expected) in [
            ("a", 1, Ok(Redundancy::None)),
            ("ab", 1, Ok(Redundancy::Mirror)),
            ("aab", 1, Ok(Redundancy::Mirror)),
            ("aabb", 1, Ok(Redundancy::Mirror)),
            ("abc", 1, Ok(Redundancy::Mirror)),
            ("abc", 2, parity(1)),
            ("aabbcc", 4, parity(2)),
            ("aabb", 2, parity(2)),
            ("aaabbbccc", 6, parity(3)),
        ] {
            assert_eq!(of_shape(heads, needed), expected, "{heads} {needed}");
        }
        for (heads, needed, part) in [
            (
                "aa",
                1,
                "same head, a: its loss would leave 0, and 1 are needed",
            ),
            ("aabbc", 4, "its loss would leave 3, and 4 are needed"),
            ("aaabbc", 4, "3 of 6 legs"),
            ("aabb", 3, "its loss would leave 2, and 3 are needed"),
            ("aabbccd", 3, "a group of 7 disks that needs 3"),
            ("ab", 2, "a group of 2 disks that needs 2"),
            ("ab", 0, "needs 0"),
        ] {
            let why = of_shape(heads, needed).expect_err(heads);
            assert!(why.contains(part), "{heads} {needed}: {why}");
        }
    }

    #[test]
    fn disks_beyond_record_limit_are_refused() {
        let groups = |count: u64| {
            let group = |n: u64| {
                format!(
                    "[[pools.tank.groups]]\nneeded = 1\nlegs = [{{ disk = {}, head = \"a\", path = \"/dev/a{n}\" }}, \
                     {{ disk = {}, head = \"b\", path = \"/dev/b{n}\" }}]\n",
                    1000 + n,
                    2000 + n
                )
            };
            let more: String = (1..count).map(group).collect();
            parse(&format!("{}\n{more}", text()))
        };
        groups(512).expect("as many");
        let refused = groups(513).expect_err("too many").to_string();
        assert!(refused.contains("1026 disks"), "{refused}");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let text = text().replace("needed = 1", "needed = 3");
        let text = text.replace("number = 3", "number = 2");
        let Err(ConfigError::Wrong(wrong)) = parse(&text) else {
            panic!("it cannot be meant");
        };
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
