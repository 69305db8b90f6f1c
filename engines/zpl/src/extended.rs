//! Extended attributes. New ones are stored among the attributes of their object. Those that a kernel has stored in a
//! directory (`xattr=dir`) are read there, and move when they are set.

use file_system::{Changed, Done, FileError, Identity, Kind, Node, Receipt, SetExtended};

use crate::attribute_list::{LIST_BYTES_MAX, VALUE_BYTES_MAX, decode, encode};
use crate::changes::{changed, logged, logged_with};
use crate::convert::{attributes_of, failure, now_after};
use crate::file_system::Zpl;
use crate::freeing::without_name;
use crate::objects::{Has, ObjectError, Objects, Step, Stored, Text};
use crate::records::{Record, append_receipt};

/// Only user attributes are exposed to protocols.
const PREFIX: &[u8] = b"user.";
/// Bytes of a name, including the prefix (`XATTR_NAME_MAX` of Linux).
const NAME_BYTES_MAX: usize = 255;
/// Bytes of a value in a file of its own (`XATTR_SIZE_MAX` of Linux).
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The location of an attribute.
enum Location {
    List(Vec<u8>),
    File { name: Vec<u8>, object: u64 },
}

/// Prefixes of attributes that are not user attributes, on the systems that have them. As in the kernel, none of these
/// is treated as a user attribute that another system has written without a prefix.
const OTHER_PREFIXES: [&[u8]; 5] = [PREFIX, b"system.", b"security.", b"trusted.", b"freebsd:"];

/// The names under which an attribute may be stored: with the prefix, and without it by other systems.
fn names_of(full: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bare = &full[PREFIX.len()..];
    let is_of_a_user = !OTHER_PREFIXES.iter().any(|other| bare.starts_with(other));
    std::iter::once(full).chain(is_of_a_user.then_some(bare))
}

fn with_prefix(name: &[u8]) -> Done<Vec<u8>> {
    if name.is_empty() || name.contains(&0) {
        return Err(FileError::BadName);
    }
    if name.len() + PREFIX.len() > NAME_BYTES_MAX {
        return Err(FileError::NameTooLong);
    }
    Ok([PREFIX, name].concat())
}

impl<O: Objects> Zpl<O> {
    /// The stored list; empty if there is none.
    fn attribute_list(&self, object: u64) -> Done<Vec<u8>> {
        match self.objects.text(object, Text::Extended, LIST_BYTES_MAX) {
            Ok(list) => Ok(list),
            Err(ObjectError::Missing) => Ok(encode(&[])),
            Err(error) => Err(failure(error)),
        }
    }

    /// The location of an attribute, and the list. Its name has the prefix, except for one of another system.
    fn find_extended(
        &self,
        object: u64,
        stored: &Stored,
        list: &[u8],
        full: &[u8],
    ) -> Done<Option<Location>> {
        let known = decode(list).ok_or(FileError::Io)?;
        for name in names_of(full) {
            if let Some((_, value)) = known.iter().find(|(known, _)| *known == name) {
                return Ok(Some(Location::List(value.to_vec())));
            }
        }
        if !stored.has.has(Has::EXTENDED) || stored.extended == 0 || stored.extended == object {
            return Ok(None);
        }
        for name in names_of(full) {
            // A name that is invalid in a directory cannot be found there.
            if name.contains(&b'/') {
                continue;
            }
            if let Some(found) = self.entry(stored.extended, name)? {
                let (name, object) = (name.to_vec(), found);
                return Ok(Some(Location::File { name, object }));
            }
        }
        Ok(None)
    }

    /// As [`FileSystem::extended`](file_system::FileSystem::extended).
    pub(crate) fn read_extended(&self, who: &Identity, node: Node, name: &[u8]) -> Done<Vec<u8>> {
        let full = with_prefix(name)?;
        let _reading = self.locks.read(node.object);
        let stored = self.live(node)?;
        if !self.may(node.object, &stored, who)?.read_extended {
            return Err(FileError::Access);
        }
        let list = self.attribute_list(node.object)?;
        match self.find_extended(node.object, &stored, &list, &full)? {
            None => Err(FileError::NoExtended),
            Some(Location::List(value)) => Ok(value),
            Some(Location::File { object, .. }) => {
                let size = self.objects.stored(object).map_err(failure)?.size;
                if size > FILE_BYTES_MAX {
                    return Err(FileError::TooLarge);
                }
                let mut value = vec![0; size as usize];
                self.objects.read(object, 0, &mut value).map_err(failure)?;
                Ok(value)
            }
        }
    }

    /// As [`FileSystem::extended_names`](file_system::FileSystem::extended_names).
    pub(crate) fn list_extended(&self, who: &Identity, node: Node) -> Done<Vec<Vec<u8>>> {
        let _reading = self.locks.read(node.object);
        let stored = self.live(node)?;
        if !self.may(node.object, &stored, who)?.read_extended {
            return Err(FileError::Access);
        }
        let list = self.attribute_list(node.object)?;
        let known = decode(&list).ok_or(FileError::Io)?;
        let mut names: Vec<Vec<u8>> = known
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(PREFIX).map(<[u8]>::to_vec))
            .collect();
        if stored.has.has(Has::EXTENDED) && stored.extended != 0 {
            let listed = self.objects.list(stored.extended, 0, &mut |entry| {
                names.extend(entry.name.strip_prefix(PREFIX).map(<[u8]>::to_vec));
                true
            });
            listed.map_err(failure)?;
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Like [`FileSystem::set_extended`](file_system::FileSystem::set_extended); without a value it removes the
    /// attribute.
    pub(crate) fn change_extended(
        &self,
        who: &Identity,
        node: Node,
        (name, value): (&[u8], Option<&[u8]>),
        how: SetExtended,
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        let full = with_prefix(name)?;
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            return Err(FileError::TooLarge);
        }
        let (told, freed) = {
            let _names = self.lock_names();
            let _changing = self.locks.change(&[node.object]);
            let stored = self.live(node)?;
            self.check_kept(&stored)?;
            // Linux supports user attributes only on these, and shows none on other objects.
            if !matches!(attributes_of(&stored)?.kind, Kind::File | Kind::Directory) {
                return Err(FileError::NotPermitted);
            }
            if !self.may(node.object, &stored, who)?.write_extended {
                return Err(FileError::Access);
            }
            let list = self.attribute_list(node.object)?;
            let place = self.find_extended(node.object, &stored, &list, &full)?;
            match (how, place.is_some()) {
                (SetExtended::Create, true) => return Err(FileError::Exists),
                (SetExtended::Replace, false) => return Err(FileError::NoExtended),
                _ => {}
            }
            let list = (&list[..], place);
            self.store_extended((node.object, &stored), list, (&full, value), receipt)?
        };
        if let Some(object) = freed {
            self.purge_and_log(object);
        }
        Ok(told)
    }

    /// Changes the list, and removes the attribute from the directory if it was there. Returns the objects to be freed
    /// afterwards.
    fn store_extended(
        &self,
        (object, stored): (u64, &Stored),
        (list, place): (&[u8], Option<Location>),
        (full, value): (&[u8], Option<&[u8]>),
        receipt: Option<&Receipt>,
    ) -> Done<(Changed, Option<u64>)> {
        let set = Stored {
            ctime: now_after(stored.ctime),
            has: Has::CTIME,
            ..Stored::default()
        };
        let record = |name, value| {
            logged(&Record::Extended {
                object,
                name,
                value,
            })
        };
        let mut steps = vec![Step::Set {
            object,
            stored: set,
            acl: None,
        }];
        let mut freed = None;
        if let Some(Location::File { name, object }) = &place {
            let directory = stored.extended;
            let (object, name) = (*object, name.as_slice());
            steps.extend([
                Step::Leave { directory, name },
                without_name(object),
                Step::Unlink { object },
                logged(&Record::Remove {
                    directory,
                    name,
                    is_directory: false,
                }),
            ]);
            freed = Some(object);
        }
        let mut known = decode(list).ok_or(FileError::Io)?;
        let names: Vec<&[u8]> = names_of(full).collect();
        let had: Vec<&[u8]> = known.iter().map(|(name, _)| *name).collect();
        known.retain(|(name, _)| !names.contains(name));
        known.extend(value.map(|value| (full, value)));
        let packed = encode(&known);
        if packed.len() > LIST_BYTES_MAX {
            return Err(FileError::NoSpace);
        }
        if value.is_some() || had.len() != known.len() {
            steps.push(Step::Extend {
                object,
                list: &packed,
            });
        }
        // A replay fails at a record that removes a missing attribute.
        let goes = |name: &&&[u8]| had.contains(*name) && (value.is_none() || **name != full);
        steps.extend(names.iter().filter(goes).map(|name| record(name, b"")));
        let is_empty = value.is_some_and(<[u8]>::is_empty);
        steps.extend(value.filter(|_| !is_empty).map(|value| record(full, value)));
        // A replay of all records of the change stores its receipt. No record contains an empty value.
        if let (Some(Step::Log { body, .. }), Some(receipt), false) =
            (steps.last_mut(), receipt, is_empty)
        {
            append_receipt(body, receipt);
        }
        self.change_once(steps, false, receipt)?;
        // An empty value in a record removes the attribute.
        if is_empty {
            self.objects.settle().map_err(failure)?;
        }
        Ok((changed(stored, &set)?, freed))
    }

    /// Replays a log record of one attribute in the list.
    pub(crate) fn replay_extended(
        &self,
        object: u64,
        (name, value): (&[u8], &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done {
        let _changing = self.locks.change(&[object]);
        let list = self.attribute_list(object)?;
        let mut known = decode(&list).ok_or(FileError::Io)?;
        known.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            known.push((name, value));
        }
        let packed = encode(&known);
        if packed.len() > LIST_BYTES_MAX {
            return Err(FileError::NoSpace);
        }
        let stored = self.objects.stored(object).map_err(failure)?;
        let set = Stored {
            ctime: now_after(stored.ctime),
            has: Has::CTIME,
            ..Stored::default()
        };
        let record = Record::Extended {
            object,
            name,
            value,
        };
        let steps = vec![
            Step::Set {
                object,
                stored: set,
                acl: None,
            },
            Step::Extend {
                object,
                list: &packed,
            },
            logged_with(&record, false, receipt),
        ];
        self.change_once(steps, false, receipt).map(drop)
    }
}
