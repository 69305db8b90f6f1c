//! Removes names: removal and renaming, and the handling of objects without a name.

use file_system::{Changed, Done, FileError, Identity, Kind, Node, Receipt, Removable, Renamed};

use crate::access::Use;
use crate::changes::{changed, logged, logged_with, with_entries};
use crate::convert::{attributes_of, entry_type, failure, flag, now_after};
use crate::file_system::Zpl;
use crate::objects::{Has, ObjectError, Objects, Step, Stored};
use crate::records::Record;

/// More directories than any path has.
const DEPTH_MAX: usize = 1 << 16;

/// An object that loses a name.
struct Losing {
    object: u64,
    stored: Stored,
    kind: Kind,
    is_directory: bool,
}

/// The names of a rename, whether it is logged, and the requester.
struct Names<'a> {
    from: (Node, &'a [u8]),
    to: (Node, &'a [u8]),
    is_noted: bool,
    receipt: Option<&'a Receipt>,
}

impl Losing {
    /// Its new state: without a name, or with one name less.
    fn after(&self) -> Stored {
        Stored {
            links: match self.is_directory {
                true => 0,
                false => self.stored.links.saturating_sub(1),
            },
            ctime: now_after(self.stored.ctime),
            has: Has::LINKS.with(Has::CTIME),
            ..Stored::default()
        }
    }

    /// The steps that remove the name.
    fn steps(&self) -> (bool, Vec<Step<'static>>) {
        let after = self.after();
        let mut steps = vec![Step::Set {
            object: self.object,
            stored: after,
            acl: None,
        }];
        let is_last = after.links == 0;
        if is_last {
            steps.push(Step::Unlink {
                object: self.object,
            });
        }
        (is_last, steps)
    }
}

impl<O: Objects> Zpl<O> {
    /// The object of a name, if `who` may remove the name. The names are locked.
    fn losing(
        &self,
        who: &Identity,
        (directory, parent): (u64, &Stored),
        object: u64,
    ) -> Done<Losing> {
        let stored = self.objects.stored(object).map_err(|error| match error {
            // A name without an object.
            ObjectError::Missing => FileError::Io,
            error => failure(error),
        })?;
        let attributes = attributes_of(&stored)?;
        let judged = self.judged(object, &stored, who)?;
        self.judged(directory, parent, who)?
            .check_removal(&judged, who)?;
        // A requester with append-only rights cannot remove names.
        self.check_flags(parent, flag::APPEND_ONLY)?;
        self.check_kept(&stored)?;
        self.check_flags(&stored, flag::NO_UNLINK)?;
        Ok(Losing {
            object,
            stored,
            kind: attributes.kind,
            is_directory: attributes.kind == Kind::Directory,
        })
    }

    /// The object of a name that `who` requests to remove. A requester without that right must not detect whether it
    /// exists.
    fn named(&self, who: &Identity, directory: Node, name: &[u8]) -> Done<u64> {
        let parent = self.directory(who, directory, Use::LookUp)?;
        match self.entry(directory.object, name)? {
            Some(object) => Ok(object),
            None if self.may(directory.object, &parent, who)?.remove => Err(FileError::NotFound),
            None => Err(FileError::Access),
        }
    }

    fn check_empty(&self, directory: u64) -> Done {
        match self.objects.count(directory).map_err(failure)? {
            0 => Ok(()),
            _ => Err(FileError::NotEmpty),
        }
    }

    /// As [`FileSystem::remove`](file_system::FileSystem::remove).
    pub(crate) fn remove_name(
        &self,
        who: &Identity,
        directory: Node,
        (name, what): (&[u8], Removable),
        receipt: Option<&Receipt>,
    ) -> Done<Changed> {
        self.check_name(name)?;
        let (told, gone) = {
            let _names = self.lock_names();
            let object = self.named(who, directory, name)?;
            let _changing = self.locks.change(&[directory.object, object]);
            let parent = self.directory(who, directory, Use::LookUp)?;
            self.check_entries(&parent)?;
            let losing = self.losing(who, (directory.object, &parent), object)?;
            match (losing.is_directory, what) {
                (true, Removable::NoDirectory) => return Err(FileError::IsDirectory),
                (true, _) => self.check_empty(object)?,
                (false, Removable::Directory) => return Err(FileError::NotDirectory),
                (false, _) => {}
            }
            self.unlink((directory.object, &parent), name, &losing, receipt)?
        };
        if let Some(object) = gone {
            self.purge_and_log(object);
        }
        Ok(told)
    }

    /// Removes a name. Returns the objects to be freed afterwards.
    fn unlink(
        &self,
        (directory, parent): (u64, &Stored),
        name: &[u8],
        losing: &Losing,
        receipt: Option<&Receipt>,
    ) -> Done<(Changed, Option<u64>)> {
        let set = with_entries(parent, -1, -i64::from(losing.is_directory));
        let (is_last, rest) = losing.steps();
        let mut steps = vec![
            Step::Leave { directory, name },
            Step::Set {
                object: directory,
                stored: set,
                acl: None,
            },
        ];
        steps.extend(rest);
        let record = Record::Remove {
            directory,
            name,
            is_directory: losing.is_directory,
        };
        steps.push(logged_with(&record, false, receipt));
        self.change_once(steps, true, receipt)?;
        Ok((changed(parent, &set)?, is_last.then_some(losing.object)))
    }

    /// Whether `directory` is `ancestor` or a descendant of it.
    fn is_within(&self, mut directory: u64, ancestor: u64) -> Done<bool> {
        for _ in 0..DEPTH_MAX {
            if directory == ancestor {
                return Ok(true);
            }
            let parent = self.objects.stored(directory).map_err(failure)?.parent;
            if parent == directory {
                return Ok(false);
            }
            directory = parent;
        }
        Err(FileError::Io)
    }

    /// As [`FileSystem::rename`](file_system::FileSystem::rename).
    pub(crate) fn rename_object(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        receipt: Option<&Receipt>,
    ) -> Done<Renamed> {
        self.check_name(from.1)?;
        self.check_name(to.1)?;
        self.rename_names(
            who,
            &Names {
                from,
                to,
                is_noted: true,
                receipt,
            },
        )
    }

    /// Renames during the replay of a record that needs further changes: only the last change notes the record as
    /// replayed.
    pub(crate) fn rename_unnoted(
        &self,
        who: &Identity,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
    ) -> Done {
        let names = Names {
            from,
            to,
            is_noted: false,
            receipt: None,
        };
        self.rename_names(who, &names).map(drop)
    }

    fn rename_names(&self, who: &Identity, names: &Names<'_>) -> Done<Renamed> {
        let (renamed, gone) = {
            let _names = self.lock_names();
            self.rename_locked(who, names)?
        };
        if let Some(object) = gone {
            self.purge_and_log(object);
        }
        Ok(renamed)
    }

    fn rename_locked(&self, who: &Identity, names: &Names<'_>) -> Done<(Renamed, Option<u64>)> {
        let (from, to) = (names.from, names.to);
        let moving = self.named(who, from.0, from.1)?;
        self.directory(who, to.0, Use::LookUp)?;
        let target = self.entry(to.0.object, to.1)?;
        let objects = [from.0.object, to.0.object, moving, target.unwrap_or(moving)];
        let _changing = self.locks.change(&objects);
        let parents = (
            self.directory(who, from.0, Use::LookUp)?,
            self.directory(who, to.0, Use::LookUp)?,
        );
        self.check_entries(&parents.0)?;
        let mover = self.losing(who, (from.0.object, &parents.0), moving)?;
        self.judged(to.0.object, &parents.1, who)?
            .check_use(who, Use::Enter(mover.kind))?;
        self.check_entries(&parents.1)?;
        if target == Some(moving) {
            let same = |stored| changed(stored, &Stored::default());
            let (from, to) = (same(&parents.0)?, same(&parents.1)?);
            return Ok((Renamed { from, to }, None));
        }
        if from.0 != to.0 {
            self.judged(moving, &mover.stored, who)?.check_moved(who)?;
            self.check_project(&parents.1, &mover.stored)?;
        }
        if mover.is_directory && self.is_within(to.0.object, moving)? {
            return Err(FileError::Invalid);
        }
        let replaced = match target {
            Some(target) => Some(self.replaced(who, (to.0.object, &parents.1), &mover, target)?),
            None => None,
        };
        self.rename_all(names, &parents, &mover, replaced.as_ref())
    }

    /// The object that the rename replaces, if the requester may replace it.
    fn replaced(
        &self,
        who: &Identity,
        directory: (u64, &Stored),
        mover: &Losing,
        target: u64,
    ) -> Done<Losing> {
        let replaced = self.losing(who, directory, target)?;
        if replaced.is_directory != mover.is_directory {
            return Err(FileError::Exists);
        }
        if replaced.is_directory {
            self.check_empty(target)?;
        }
        Ok(replaced)
    }

    /// Applies a checked rename.
    fn rename_all(
        &self,
        names: &Names<'_>,
        parents: &(Stored, Stored),
        mover: &Losing,
        replaced: Option<&Losing>,
    ) -> Done<(Renamed, Option<u64>)> {
        let (from, to) = (names.from, names.to);
        let moved = i64::from(mover.is_directory);
        let gone = replaced.map_or(0, |losing| i64::from(losing.is_directory));
        let entries = 1 - i64::from(replaced.is_some());
        let is_same = from.0.object == to.0.object;
        let set_to = match is_same {
            true => with_entries(&parents.1, entries - 1, -gone),
            false => with_entries(&parents.1, entries, moved - gone),
        };
        let set_from = match is_same {
            true => set_to,
            false => with_entries(&parents.0, -1, -moved),
        };
        let mut steps = vec![
            Step::Enter {
                directory: to.0.object,
                name: to.1,
                value: entry_type(mover.stored.mode) | mover.object,
                is_new: false,
                replaces: replaced.is_some(),
            },
            Step::Leave {
                directory: from.0.object,
                name: from.1,
            },
            Step::Set {
                object: mover.object,
                stored: Stored {
                    parent: to.0.object,
                    ctime: now_after(mover.stored.ctime),
                    has: Has::PARENT.with(Has::CTIME),
                    ..Stored::default()
                },
                acl: None,
            },
            Step::Set {
                object: to.0.object,
                stored: set_to,
                acl: None,
            },
        ];
        if !is_same {
            steps.push(Step::Set {
                object: from.0.object,
                stored: set_from,
                acl: None,
            });
        }
        let mut freed = None;
        if let Some(losing) = replaced {
            let (is_last, rest) = losing.steps();
            steps.extend(rest);
            freed = is_last.then_some(losing.object);
        }
        if names.is_noted {
            let record = Record::Rename {
                from: (from.0.object, from.1),
                to: (to.0.object, to.1),
            };
            steps.push(logged_with(&record, false, names.receipt));
        }
        self.change_once(steps, false, names.receipt)?;
        let renamed = Renamed {
            from: changed(&parents.0, &set_from)?,
            to: changed(&parents.1, &set_to)?,
        };
        Ok((renamed, freed))
    }

    /// Exchanges two names. Only a log requests it.
    pub(crate) fn exchange(&self, from: (Node, &[u8]), to: (Node, &[u8])) -> Done {
        let _names = self.lock_names();
        let find = |(directory, name): (Node, &[u8])| {
            let object = self.entry(directory.object, name)?;
            object.ok_or(FileError::NotFound)
        };
        let (first, second) = (find(from)?, find(to)?);
        let _changing = self
            .locks
            .change(&[from.0.object, to.0.object, first, second]);
        let stored = |object| self.objects.stored(object).map_err(failure);
        let (parents, moved) = (
            (stored(from.0.object)?, stored(to.0.object)?),
            (stored(first)?, stored(second)?),
        );
        let directories = |stored: &Stored| {
            let kind = attributes_of(stored)?.kind;
            Ok::<_, FileError>(i64::from(kind == Kind::Directory))
        };
        let more = directories(&moved.1)? - directories(&moved.0)?;
        let enter = |(directory, name): (Node, _), object, stored: &Stored| Step::Enter {
            directory: directory.object,
            name,
            value: entry_type(stored.mode) | object,
            is_new: false,
            replaces: true,
        };
        let set = |object, stored| Step::Set {
            object,
            stored,
            acl: None,
        };
        let placed = |directory: Node, stored: &Stored| Stored {
            parent: directory.object,
            ctime: now_after(stored.ctime),
            has: Has::PARENT.with(Has::CTIME),
            ..Stored::default()
        };
        let is_same = from.0.object == to.0.object;
        let mut steps = vec![
            enter(from, second, &moved.1),
            enter(to, first, &moved.0),
            set(second, placed(from.0, &moved.1)),
            set(first, placed(to.0, &moved.0)),
        ];
        let more = if is_same { 0 } else { more };
        steps.push(set(from.0.object, with_entries(&parents.0, 0, more)));
        if !is_same {
            steps.push(set(to.0.object, with_entries(&parents.1, 0, -more)));
        }
        let (from, to) = ((from.0.object, from.1), (to.0.object, to.1));
        steps.push(logged(&Record::Exchange { from, to }));
        self.objects.change(&steps, false).map_err(failure)?;
        Ok(())
    }
}
