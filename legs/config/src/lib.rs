//! `legs.toml`: the members that store the records of legs, the lender of each disk, and their certificates. One file
//! on each head, the same but for `me` and its key. `docs/formats/legs-config.md` describes it. Only [`read`] touches a
//! file.

#![forbid(unsafe_code)]

mod check;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use certificates::Fingerprint;
use leg_record::{Config, DiskId, LegGroup, MemberId, Membership};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::PoolName;

/// Default path of the file.
pub const DEFAULT_PATH: &str = "/etc/bulkhead/legs.toml";
/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LegsFile {
    /// The name of this head among the members.
    pub me: String,
    /// Its certificate, PEM.
    pub certificate: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
    /// The members, by name.
    pub members: BTreeMap<String, Member>,
    /// The pools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<PoolName, Pool>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its number, which never changes.
    pub number: u64,
    /// Its kind.
    pub kind: Kind,
    /// The addresses it listens on, one for each storage network.
    pub members: Vec<SocketAddr>,
    /// Heads: the addresses at which their disks are lent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lends: Vec<SocketAddr>,
    /// Fingerprint of its certificate.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub fingerprint: Fingerprint,
}

/// The kind of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It has disks, and serves pools.
    Head,
    /// It only stores records.
    Witness,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The number of the pool's record. It differs from ZFS's number of the pool.
    pub guid: u64,
    /// Its top-level devices.
    pub groups: Vec<Group>,
}

/// A group of disks: a top-level device of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// How many of them are needed to read all data: 1 of a mirror, all but the parity of a raidz.
    pub needed: usize,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Role::is_data")]
    pub role: Role,
    /// The disks.
    pub legs: Vec<Leg>,
}

/// The purpose of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It stores data.
    #[default]
    Data,
    /// It stores the intent log.
    Log,
}

impl Role {
    fn is_data(&self) -> bool {
        *self == Self::Data
    }
}

/// The redundancy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// One disk.
    None,
    /// Each disk has all data.
    Mirror,
    /// As a raidz: so many disks may be missing.
    Parity(u8),
}

/// Most disks of a raidz that may be missing.
const PARITY_MAX: usize = 3;

impl Group {
    /// Its redundancy. `None`: no group of these disks needs so many.
    pub fn redundancy(&self) -> Option<Redundancy> {
        let parity = self.legs.len().checked_sub(self.needed)?;
        match (self.needed, parity) {
            (1, 0) => Some(Redundancy::None),
            (1, _) => Some(Redundancy::Mirror),
            (2.., 1..=PARITY_MAX) => Some(Redundancy::Parity(parity as u8)),
            _ => None,
        }
    }

    /// The head with the most legs, and the number of legs that its loss leaves. `None` for a group without legs.
    pub fn least_left(&self) -> Option<(&str, usize)> {
        let left = |head: &str| self.legs.iter().filter(|leg| leg.head != head).count();
        let heads = self.legs.iter().map(|leg| leg.head.as_str());
        heads
            .map(|head| (head, left(head)))
            .min_by_key(|(_, left)| *left)
    }
}

/// A disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    /// The number of the disk in the record.
    pub disk: u64,
    /// The head that has the disk.
    pub head: String,
    /// Its path on that head.
    pub path: PathBuf,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("read {}", .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// It is too long.
    #[error("{} has more than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// It is not a valid file.
    #[error(transparent)]
    Form(#[from] toml::de::Error),
    /// Its content is inconsistent.
    #[error("{}", .0.join("; "))]
    Wrong(Vec<String>),
}

fn as_text<S: Serializer>(fingerprint: &Fingerprint, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(fingerprint)
}

fn from_text<'de, D: Deserializer<'de>>(text: D) -> Result<Fingerprint, D::Error> {
    let text = String::deserialize(text)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Reads and checks the file at `path`.
///
/// # Errors
///
/// It cannot be read, or its content is invalid.
pub fn read(path: &Path) -> Result<LegsFile, ConfigError> {
    parse(&text(path)?)
}

/// Reads the text of the file at `path`.
///
/// # Errors
///
/// It cannot be read, or is too long.
pub fn text(path: &Path) -> Result<String, ConfigError> {
    let failed = |error| ConfigError::Read(path.to_owned(), error);
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(ConfigError::TooLong(path.to_owned()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Parses and checks a configuration.
///
/// # Errors
///
/// As [`read`]. All errors are reported at once.
pub fn parse(text: &str) -> Result<LegsFile, ConfigError> {
    let file: LegsFile = toml::from_str(text)?;
    let wrong = check::findings(&file);
    match wrong.is_empty() {
        true => Ok(file),
        false => Err(ConfigError::Wrong(wrong)),
    }
}

/// The line of `text` that names the disk at `path`, counted from 1.
pub fn line_of(text: &str, path: &Path) -> Option<usize> {
    let quoted = [
        format!("\"{}\"", path.display()),
        format!("'{}'", path.display()),
    ];
    let has_it = |line: &str| {
        let line = line.trim_start();
        !line.starts_with('#') && quoted.iter().any(|one| line.contains(one))
    };
    let found = text.lines().position(has_it)?;
    Some(found + 1)
}

impl LegsFile {
    /// As text that [`parse`] accepts.
    ///
    /// # Panics
    ///
    /// A path is no UTF-8.
    pub fn render(&self) -> String {
        toml::to_string(self).expect("all values can be written as TOML")
    }

    /// This head.
    pub fn me(&self) -> MemberId {
        self.number(&self.me)
    }

    /// Its entry.
    pub fn own(&self) -> &Member {
        &self.members[&self.me]
    }

    fn number(&self, name: &str) -> MemberId {
        MemberId(self.members[name].number)
    }

    /// The name of a member.
    pub fn name(&self, member: MemberId) -> String {
        let mut members = self.members.iter();
        let found = members.find(|(_, one)| one.number == member.0);
        found.map_or_else(|| format!("member {}", member.0), |(name, _)| name.clone())
    }

    /// The entry of a member.
    pub fn member(&self, member: MemberId) -> Option<&Member> {
        self.members.values().find(|one| one.number == member.0)
    }

    /// The members, as a type of the protocol.
    pub fn membership(&self) -> Membership {
        let of = |kind| {
            let members = self.members.values();
            let mut numbers: Vec<_> = members
                .filter(|one| one.kind == kind)
                .map(|one| MemberId(one.number))
                .collect();
            numbers.sort_unstable();
            numbers
        };
        match (&of(Kind::Head)[..], &of(Kind::Witness)[..]) {
            ([a, b], []) => Membership::TwoHeads([*a, *b]),
            ([a, b], [witness]) => Membership::TwoHeadsAndWitness {
                heads: [*a, *b],
                witness: *witness,
            },
            ([a, b, c], []) => Membership::ThreeHeads([*a, *b, *c]),
            // The check rejects all other cases.
            _ => Membership::OneHead(self.me()),
        }
    }

    /// The head that lends a disk, and the disk.
    pub fn leg(&self, disk: DiskId) -> Option<(MemberId, &Leg)> {
        let groups = self.pools.values().flat_map(|pool| &pool.groups);
        let leg = groups
            .flat_map(|group| &group.legs)
            .find(|leg| leg.disk == disk.0)?;
        Some((self.number(&leg.head), leg))
    }

    /// Name of a disk: its head and its path there.
    pub fn disk_name(&self, disk: DiskId) -> String {
        match self.leg(disk) {
            Some((_, leg)) => format!("{}:{}", leg.head, leg.path.display()),
            None => format!("disk {}", disk.0),
        }
    }

    /// The arguments of `pool add` for a group, after the name of the pool.
    pub fn words_to_add(&self, group: &Group) -> Vec<String> {
        let role = match group.role {
            Role::Data => None,
            Role::Log => Some("log".to_owned()),
        };
        let kind = match group.redundancy() {
            Some(Redundancy::Mirror) => Some("mirror".to_owned()),
            Some(Redundancy::Parity(parity)) => Some(format!("raidz{parity}")),
            Some(Redundancy::None) | None => None,
        };
        let legs = group.legs.iter();
        let legs = legs.map(|leg| self.disk_name(DiskId(leg.disk)));
        role.into_iter().chain(kind).chain(legs).collect()
    }

    /// The disks of this head.
    pub fn own_legs(&self) -> impl Iterator<Item = &Leg> {
        let groups = self.pools.values().flat_map(|pool| &pool.groups);
        let legs = groups.flat_map(|group| &group.legs);
        legs.filter(|leg| leg.head == self.me)
    }

    /// Digest of the data that must be equal on each head for a pool: its name and number, groups and disks, and the
    /// members without their addresses, which may differ between heads. `None` for a pool that the file does not name.
    pub fn digest(&self, guid: u64) -> Option<[u8; 32]> {
        let mut pools = self.pools.iter();
        let (name, pool) = pools.find(|(_, pool)| pool.guid == guid)?;
        let mut text = format!("{name} {guid}\n");
        let mut add = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        for group in &pool.groups {
            match group.role {
                Role::Data => add(format!("group {}", group.needed)),
                Role::Log => add(format!("log {}", group.needed)),
            }
            let mut legs: Vec<_> = group.legs.iter().collect();
            legs.sort_by_key(|leg| leg.disk);
            for leg in legs {
                let head = self.members.get(&leg.head).map_or(0, |head| head.number);
                add(format!("leg {} {head} {:?}", leg.disk, leg.path));
            }
        }
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(_, member)| member.number);
        for (name, member) in members {
            let (kind, fingerprint) = (member.kind, member.fingerprint);
            add(format!("{kind:?} {name} {} {fingerprint}", member.number));
        }
        Some(certificates::sha256(text.as_bytes()))
    }

    /// Whether this differs from `known` in a pool only by a head of that name, its additional legs, and a witness.
    pub fn adds_to(&self, known: &Self, pool: &PoolName, head: &str) -> bool {
        let groups = |file: &Self| file.pools.get(pool).map(|pool| pool.groups.clone());
        let (Some(before), Some(after)) = (groups(known), groups(self)) else {
            return false;
        };
        let mut both = before.iter().zip(&after);
        let is_kept = both.all(|(before, after)| {
            let mut legs = before.legs.iter();
            legs.all(|leg| after.legs.contains(leg))
        });
        is_kept && known.without(pool, head) == self.without(pool, head)
    }

    /// Whether this differs from `known` in a pool only by additional groups, in any order. Other pools do not
    /// count.
    pub fn adds_groups_to(&self, known: &Self, pool: &PoolName) -> bool {
        let (Some(before), Some(after)) = (known.pools.get(pool), self.pools.get(pool)) else {
            return false;
        };
        let is_grown = before.groups.len() < after.groups.len();
        is_grown
            && before
                .groups
                .iter()
                .all(|group| after.groups.contains(group))
            && before.guid == after.guid
            && (&self.me, &self.members) == (&known.me, &known.members)
    }

    /// The part for a pool that is independent of that head.
    fn without(&self, pool: &PoolName, head: &str) -> Self {
        let mut file = self.clone();
        file.me.clear();
        file.members
            .retain(|name, one| name != head && one.kind == Kind::Head);
        // Two heads alone listen in more networks.
        file.members
            .values_mut()
            .for_each(|one| one.members.clear());
        file.pools.retain(|name, _| name == pool);
        let groups = file.pools.values_mut().flat_map(|pool| &mut pool.groups);
        groups.for_each(|group| group.legs.retain(|leg| leg.head != head));
        file
    }

    /// This head's configuration of a pool.
    pub fn config(&self, pool: &PoolName) -> Option<Config> {
        let found = self.pools.get(pool)?;
        let group = |group: &Group| {
            let legs = group.legs.iter();
            LegGroup {
                lenders: legs
                    .map(|leg| (DiskId(leg.disk), self.number(&leg.head)))
                    .collect(),
                needed: group.needed,
            }
        };
        Some(Config {
            me: self.me(),
            pool: found.guid,
            membership: self.membership(),
            groups: found.groups.iter().map(group).collect(),
        })
    }
}
