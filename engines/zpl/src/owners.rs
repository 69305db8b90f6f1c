//! The users, groups and projects of a file system, with their space and quotas.

use file_system::owners::Selected;
use file_system::{Done, FileError, Measure, Owner, OwnerKind, OwnerSpace, Owners};

use crate::convert::failure;
use crate::file_system::Zpl;
use crate::objects::{ObjectError, Objects};
use crate::quotas::{counts_of, key, objects_key, optional};

/// Entries that are read in one call. Between two calls the file system can be closed.
const PAGE: u32 = 1000;
/// Entries of a list that are read.
const ENTRIES_MAX: u64 = 1 << 22;

/// The number in a key, if it is one as [`key`] writes it: a list on disk may contain anything.
fn number(name: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(name).ok()?;
    let id = u64::from_str_radix(text, 16).ok()?;
    (key(id) == text).then_some(id)
}

impl<O: Objects> Zpl<O> {
    fn check_counted(&self, kind: OwnerKind) -> Done {
        let counted = self.objects.counted();
        match counted.bytes && (kind != OwnerKind::Project || counted.projects) {
            true => Ok(()),
            false => Err(FileError::Unsupported),
        }
    }

    /// Visits the numbers and values in a list, with pauses.
    fn visit_owners(
        &self,
        list: u64,
        may_continue: &dyn Fn() -> bool,
        mut visit: impl FnMut(u64, u64) -> Result<(), ObjectError>,
    ) -> Done {
        let (mut cursor, mut count) = (0, 0);
        loop {
            let (mut rest, mut failed) = (PAGE, None);
            let is_end = self.objects.list(list, cursor, &mut |entry| {
                cursor = entry.cursor;
                rest -= 1;
                if let Some(id) = number(entry.name) {
                    failed = visit(id, entry.value).err();
                }
                rest > 0 && failed.is_none()
            });
            if let Some(error) = failed {
                return Err(failure(error));
            }
            match is_end {
                // There is no list before the first entry.
                Ok(true) | Err(ObjectError::Missing) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(failure(error)),
            }
            count += u64::from(PAGE);
            if count >= ENTRIES_MAX {
                return Err(FileError::TooLarge);
            }
            if !may_continue() {
                return Err(FileError::Gone);
            }
        }
    }

    fn is_counted(&self, kind: OwnerKind, id: u64) -> Result<bool, ObjectError> {
        let found = self.objects.look_up(counts_of(kind), key(id).as_bytes());
        Ok(optional(found)?.is_some())
    }

    /// The space and quotas of an owner with that many bytes.
    fn complete(&self, kind: OwnerKind, id: u64, bytes: u64) -> Result<OwnerSpace, ObjectError> {
        let limit = |measure| self.quotas.limit(&self.objects, (kind, id), measure);
        let objects = match self.objects.counted().objects {
            true => {
                let key = objects_key(id);
                let found = self.objects.look_up(counts_of(kind), key.as_bytes());
                Some(optional(found)?.unwrap_or(0))
            }
            false => None,
        };
        Ok(OwnerSpace {
            id,
            bytes,
            bytes_max: limit(Measure::Bytes)?,
            objects,
            objects_max: limit(Measure::Objects)?,
        })
    }

    pub(crate) fn list_owners(
        &self,
        kind: OwnerKind,
        may_continue: &dyn Fn() -> bool,
    ) -> Done<Owners> {
        self.check_counted(kind)?;
        let mut selected = Selected::default();
        self.visit_owners(counts_of(kind), may_continue, |id, bytes| {
            selected.add(id, bytes);
            Ok(())
        })?;
        let by_bytes = self.quotas.list(kind, Measure::Bytes);
        let by_objects = self.quotas.list(kind, Measure::Objects);
        // Owners with a quota and no files. One that is in both lists is added once.
        for (list, earlier) in [(by_bytes, None), (by_objects, by_bytes)] {
            let Some(list) = list else { continue };
            self.visit_owners(list, may_continue, |id, _| {
                let is_listed = match earlier {
                    Some(earlier) => {
                        let found = self.objects.look_up(earlier, key(id).as_bytes());
                        optional(found)?.is_some()
                    }
                    None => false,
                };
                if !is_listed && !self.is_counted(kind, id)? {
                    selected.add(id, 0);
                }
                Ok(())
            })?;
        }
        let owners = selected.complete(|id, bytes| self.complete(kind, id, bytes));
        owners.map_err(failure)
    }

    pub(crate) fn one_owner(&self, owner: Owner) -> Done<OwnerSpace> {
        let Owner { kind, id } = owner;
        self.check_counted(kind)?;
        let bytes = self.objects.look_up(counts_of(kind), key(id).as_bytes());
        let bytes = optional(bytes).map_err(failure)?;
        self.complete(kind, id, bytes.unwrap_or(0)).map_err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_as_zfs_writes_them_are_owners() {
        for (name, id) in [
            (&b"0"[..], Some(0)),
            (b"3e8", Some(1000)),
            (b"1000003e8", Some((1 << 32) + 1000)),
            (b"ffffffffffffffff", Some(u64::MAX)),
            (b"obj-3e8", None),
            (b"3E8", None),
            (b"03e8", None),
            (b"+3e8", None),
            (b"", None),
            (b"10000000000000000", None),
            (b"\xff", None),
        ] {
            assert_eq!(number(name), id, "{name:?}");
        }
    }
}
