//! The entries in the omap of a shelf's object, and their form in memory. The format is in `docs/formats/shelf.md`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;
/// Entries of a shelf, at most.
pub(crate) const ENTRIES_MAX: usize = 1 << 20;
/// Bytes of all entries, at most.
pub(crate) const BYTES_MAX: usize = 256 << 20;

/// Key of the shelf's identity.
pub(crate) const SHELF: &str = "shelf";
/// Key of the owner, which guards each change.
pub(crate) const OWNER: &str = "owner";
/// Key of the note for the next owner.
pub(crate) const NOTE: &str = "note";

/// A random number that identifies a shelf, a volume, a snapshot or an image: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Number(pub(crate) u64);

impl Number {
    /// A new one. It is unique, because the system's generator is of cryptographic quality.
    pub(crate) fn random() -> std::io::Result<Self> {
        use std::io::Read as _;
        let mut bytes = [0; 8];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        // Zero is "none" to some callers.
        Ok(Self(u64::from_le_bytes(bytes).max(1)))
    }

    /// The name of the image or RBD snapshot with this number.
    pub(crate) fn name(self) -> String {
        format!("bulkhead.{:016x}", self.0)
    }

    /// The number in the name of an image or RBD snapshot.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::parse(name.strip_prefix("bulkhead.")?)
    }

    fn parse(digits: &str) -> Option<Self> {
        let is_plain = digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let number = is_plain.then(|| u64::from_str_radix(digits, 16).ok())?;
        number.map(Self)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.to_string()
    }
}

impl TryFrom<String> for Number {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not 16 hexadecimal digits")
    }
}

/// The identity of a shelf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) guid: Number,
    pub(crate) name: String,
}

/// How the last owner left a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Active,
    Exported,
    Destroyed,
}

/// The last owner of a shelf.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) state: State,
    pub(crate) host_id: u32,
    pub(crate) host_name: String,
    /// The address of its client, for the blocklist.
    pub(crate) client: String,
    /// Number of claims so far: no two values of this entry are equal.
    pub(crate) claims: u64,
}

impl Owner {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        json(self)
    }
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) guid: Number,
    /// The image with its contents.
    pub(crate) image: Number,
    pub(crate) size: u64,
    pub(crate) block: u64,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
    /// The snapshot that it is a clone of.
    pub(crate) origin: Option<Number>,
    /// Bytes reserved for it.
    pub(crate) reserved: u64,
}

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) guid: Number,
    /// The image that has it, which is an older one of the volume after a rollback.
    pub(crate) image: Number,
    pub(crate) size: u64,
    pub(crate) txg: u64,
    pub(crate) time_s: u64,
    pub(crate) holds: BTreeMap<String, u64>,
}

/// All entries of a shelf.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) identity: Identity,
    pub(crate) owner: Owner,
    pub(crate) note: Option<String>,
    /// By name.
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// By volume and tag.
    pub(crate) snapshots: BTreeMap<(Number, String), Snapshot>,
    /// Of the shelf, of volumes and of snapshots.
    pub(crate) properties: BTreeMap<Number, BTreeMap<String, String>>,
    /// Images to remove, when no snapshot needs them any more.
    pub(crate) images_discarded: BTreeSet<Number>,
    /// Snapshots to remove, each with its image.
    pub(crate) snapshots_discarded: BTreeSet<(Number, Number)>,
    /// Number of the newest change.
    pub(crate) txg: u64,
}

/// An entry that cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("entry {key} of the shelf is damaged")]
pub(crate) struct Damaged {
    pub(crate) key: String,
}

pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("records have text keys only")
}

fn parse<'a, T: Deserialize<'a>>(key: &str, value: &'a [u8]) -> Result<T, Damaged> {
    serde_json::from_slice(value).map_err(|_| damaged(key))
}

fn damaged(key: &str) -> Damaged {
    Damaged {
        key: key.to_owned(),
    }
}

pub(crate) fn volume_key(name: &str) -> String {
    format!("volume/{name}")
}

pub(crate) fn snapshot_key(volume: Number, tag: &str) -> String {
    format!("snapshot/{volume}/{tag}")
}

pub(crate) fn property_key(of: Number, name: &str) -> String {
    format!("property/{of}/{name}")
}

pub(crate) fn discarded_image_key(image: Number) -> String {
    format!("discarded/{image}")
}

pub(crate) fn discarded_snapshot_key(image: Number, snapshot: Number) -> String {
    format!("discarded/{image}/{snapshot}")
}

/// A change of several entries, which is stored completely or not at all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub(crate) set: Vec<(String, Vec<u8>)>,
    pub(crate) remove: Vec<String>,
}

impl Edits {
    pub(crate) fn set(&mut self, key: String, value: Vec<u8>) -> &mut Self {
        self.set.push((key, value));
        self
    }

    pub(crate) fn remove(&mut self, key: String) -> &mut Self {
        self.remove.push(key);
        self
    }

    pub(crate) fn discard_image(&mut self, image: Number) -> &mut Self {
        self.set(discarded_image_key(image), b"{}".to_vec())
    }

    pub(crate) fn discard_snapshot(&mut self, image: Number, snapshot: Number) -> &mut Self {
        self.set(discarded_snapshot_key(image, snapshot), b"{}".to_vec())
    }
}

impl Records {
    /// Reads the entries of a shelf.
    pub(crate) fn load(entries: &BTreeMap<String, Vec<u8>>) -> Result<Self, Damaged> {
        let entry = |key: &str| entries.get(key).ok_or_else(|| damaged(key));
        let identity: Identity = parse(SHELF, entry(SHELF)?)?;
        if identity.format != FORMAT {
            return Err(damaged(SHELF));
        }
        let mut records = Self {
            identity,
            owner: parse(OWNER, entry(OWNER)?)?,
            note: None,
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            properties: BTreeMap::new(),
            images_discarded: BTreeSet::new(),
            snapshots_discarded: BTreeSet::new(),
            txg: 0,
        };
        for (key, value) in entries {
            records.apply(key, Some(value))?;
        }
        Ok(records)
    }

    /// Changes one entry; without a value it is removed.
    pub(crate) fn apply(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Damaged> {
        let (kind, rest) = key.split_once('/').unwrap_or((key, ""));
        match (kind, value) {
            (SHELF, Some(value)) => self.identity = parse(key, value)?,
            (OWNER, Some(value)) => self.owner = parse(key, value)?,
            (NOTE, value) => {
                self.note = value.map(|text| String::from_utf8_lossy(text).into_owned())
            }
            ("volume", value) => {
                let volume = value.map(|value| parse::<Volume>(key, value)).transpose()?;
                self.txg = self.txg.max(volume.as_ref().map_or(0, |volume| volume.txg));
                change(&mut self.volumes, rest.to_owned(), volume);
            }
            ("snapshot", value) => {
                let snapshot = value
                    .map(|value| parse::<Snapshot>(key, value))
                    .transpose()?;
                self.txg = self.txg.max(snapshot.as_ref().map_or(0, |one| one.txg));
                let (volume, tag) = numbered(key, rest)?;
                change(&mut self.snapshots, (volume, tag.to_owned()), snapshot);
            }
            ("property", value) => self.apply_property(key, rest, value)?,
            ("discarded", value) => {
                let (image, snapshot) = rest.split_once('/').unwrap_or((rest, ""));
                let image = Number::parse(image).ok_or_else(|| damaged(key))?;
                match (snapshot, value) {
                    ("", Some(_)) => drop(self.images_discarded.insert(image)),
                    ("", None) => drop(self.images_discarded.remove(&image)),
                    (snapshot, value) => {
                        let snapshot = Number::parse(snapshot).ok_or_else(|| damaged(key))?;
                        let both = (image, snapshot);
                        match value {
                            Some(_) => self.snapshots_discarded.insert(both),
                            None => self.snapshots_discarded.remove(&both),
                        };
                    }
                }
            }
            _ => return Err(damaged(key)),
        }
        Ok(())
    }

    fn apply_property(
        &mut self,
        key: &str,
        rest: &str,
        value: Option<&[u8]>,
    ) -> Result<(), Damaged> {
        let (of, name) = numbered(key, rest)?;
        let Some(value) = value else {
            if let Some(own) = self.properties.get_mut(&of) {
                own.remove(name);
                if own.is_empty() {
                    self.properties.remove(&of);
                }
            }
            return Ok(());
        };
        let value = std::str::from_utf8(value).map_err(|_| damaged(key))?;
        let own = self.properties.entry(of).or_default();
        own.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The snapshots of a volume, oldest first.
    pub(crate) fn snapshots_of(&self, volume: Number) -> Vec<(&str, &Snapshot)> {
        let from = (volume, String::new());
        let own = self
            .snapshots
            .range(from..)
            .take_while(|((of, _), _)| *of == volume);
        let mut own: Vec<_> = own.map(|((_, tag), one)| (tag.as_str(), one)).collect();
        own.sort_by_key(|(_, one)| one.txg);
        own
    }

    /// The snapshot `tag` of a volume.
    pub(crate) fn snapshot(&self, volume: Number, tag: &str) -> Option<&Snapshot> {
        self.snapshots.get(&(volume, tag.to_owned()))
    }

    /// The full name of the snapshot of that number, without the shelf's.
    pub(crate) fn snapshot_name(&self, guid: Number) -> Option<String> {
        let ((volume, tag), _) = self.snapshots.iter().find(|(_, one)| one.guid == guid)?;
        let (name, _) = self.volumes.iter().find(|(_, one)| one.guid == *volume)?;
        Some(format!("{name}@{tag}"))
    }

    /// Whether a volume is a clone of that snapshot.
    pub(crate) fn has_clones(&self, snapshot: Number) -> bool {
        self.volumes
            .values()
            .any(|one| one.origin == Some(snapshot))
    }

    /// Removes the properties of an object.
    pub(crate) fn remove_properties(&self, of: Number, edits: &mut Edits) {
        let own = self.properties.get(&of).into_iter().flatten();
        for (name, _) in own {
            edits.remove(property_key(of, name));
        }
    }
}

fn change<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// `NUMBER/NAME`.
fn numbered<'a>(key: &str, rest: &'a str) -> Result<(Number, &'a str), Damaged> {
    let (number, name) = rest.split_once('/').ok_or_else(|| damaged(key))?;
    let number = Number::parse(number).ok_or_else(|| damaged(key))?;
    Ok((number, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> BTreeMap<String, Vec<u8>> {
        // The bytes of docs/formats/shelf.md.
        let literal = [
            (
                "shelf",
                r#"{"format":1,"guid":"00000000000000aa","name":"tank"}"#,
            ),
            (
                "owner",
                r#"{"state":"active","host_id":7,"host_name":"a","client":"10.0.0.1:0/17","claims":3}"#,
            ),
            ("note", "seen"),
            (
                "volume/v",
                r#"{"guid":"00000000000000b1","image":"00000000000000c1","size":8388608,"block":16384,"txg":4,"time_s":1,"origin":null,"reserved":0}"#,
            ),
            (
                "snapshot/00000000000000b1/s",
                r#"{"guid":"00000000000000d1","image":"00000000000000c0","size":8388608,"txg":6,"time_s":2,"holds":{"keep":3}}"#,
            ),
            ("property/00000000000000b1/bulkhead:a", "x"),
            ("discarded/00000000000000c0", "{}"),
            ("discarded/00000000000000c0/00000000000000d0", "{}"),
        ];
        let owned = literal.map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        owned.into()
    }

    #[test]
    fn documented_entries_are_read() {
        let records = Records::load(&entries()).expect("valid");
        assert_eq!(records.txg, 6);
        assert_eq!(records.owner.client, "10.0.0.1:0/17");
        assert_eq!(records.note.as_deref(), Some("seen"));
        assert_eq!(records.volumes["v"].image, Number(0xc1));
        let snapshot = records.snapshot(Number(0xb1), "s").expect("there");
        assert_eq!((snapshot.image, snapshot.holds["keep"]), (Number(0xc0), 3));
        assert_eq!(records.properties[&Number(0xb1)]["bulkhead:a"], "x");
        assert!(records.images_discarded.contains(&Number(0xc0)));
        assert!(
            records
                .snapshots_discarded
                .contains(&(Number(0xc0), Number(0xd0)))
        );
        assert_eq!(records.snapshot_name(Number(0xd1)).as_deref(), Some("v@s"));
    }

    #[test]
    fn stored_bytes_of_each_record_are_the_documented_ones() {
        let (all, records) = (entries(), Records::load(&entries()).expect("valid"));
        assert_eq!(json(&records.identity), all["shelf"]);
        assert_eq!(records.owner.bytes(), all["owner"]);
        assert_eq!(json(&records.volumes["v"]), all["volume/v"]);
        let snapshot = records.snapshot(Number(0xb1), "s").expect("there");
        assert_eq!(json(snapshot), all["snapshot/00000000000000b1/s"]);
    }

    #[test]
    fn damaged_or_unknown_entry_is_refused_by_its_key() {
        for (key, value) in [
            ("volume/w", "{}"),
            ("volume/w", "\u{0}"),
            ("snapshot/b1/s", "{}"),
            ("property/00000000000000b1", "x"),
            ("discarded/zz", "{}"),
            (
                "shelf",
                r#"{"format":2,"guid":"00000000000000aa","name":"tank"}"#,
            ),
            ("unheard-of", ""),
        ] {
            let mut all = entries();
            all.insert(key.to_owned(), value.as_bytes().to_vec());
            assert_eq!(Records::load(&all).unwrap_err().key, key);
        }
        let mut all = entries();
        all.remove("owner");
        assert_eq!(Records::load(&all).unwrap_err().key, "owner");
    }

    #[test]
    fn removed_entries_leave_no_trace() {
        let mut records = Records::load(&entries()).expect("valid");
        for key in entries().keys().filter(|key| key.contains('/')) {
            records.apply(key, None).expect("removed");
        }
        assert!(records.volumes.is_empty() && records.snapshots.is_empty());
        assert!(records.properties.is_empty());
        assert!(records.images_discarded.is_empty() && records.snapshots_discarded.is_empty());
    }
}
