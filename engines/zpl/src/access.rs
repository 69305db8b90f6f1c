//! Access decisions for objects that have an access control list of their own. They follow ZFS in the Linux kernel
//! (`zfs_zaccess` and related functions). An object with a trivial list is judged by its mode.

use file_system::acl::right;
use file_system::{Attributes, Done, FileError, Identity, Kind, Permissions, SetAttributes};
use file_system::{SetTime, rights};

use crate::acl::Rights;

const SET_USER_ID: u32 = 0o4000;

/// The access to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Names are looked up. The right to remove a name also depends on the object that it names.
    LookUp,
    /// A name is added for an object of a type.
    Enter(Kind),
}

/// The range in which a requester may change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Everywhere.
    All,
    /// At its end; `repeats`: earlier bytes may be included if they are unchanged.
    Behind {
        /// Whether that is allowed.
        repeats: bool,
    },
}

/// An object as seen by a requester.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    pub attributes: Attributes,
    /// The requester's rights by its list; `None` where the mode decides.
    rights: Option<Rights>,
}

impl Judged {
    /// By the mode alone.
    pub(crate) const fn by_mode(attributes: Attributes) -> Self {
        Self {
            attributes,
            rights: None,
        }
    }

    /// By its list.
    pub(crate) const fn by_list(attributes: Attributes, rights: Rights) -> Self {
        Self {
            attributes,
            rights: Some(rights),
        }
    }

    fn owns(&self, who: &Identity) -> bool {
        who.uid == 0 || who.uid == self.attributes.uid
    }

    /// The rights of `who`.
    pub(crate) fn permissions(&self, who: &Identity) -> Permissions {
        match self.rights {
            Some(rights) => rights.permissions(),
            None => rights::permitted(&self.attributes, who),
        }
    }

    /// Whether `who` may use a directory this way.
    pub(crate) fn check_use(&self, who: &Identity, what: Use) -> Done {
        if self.attributes.kind != Kind::Directory {
            return Err(FileError::NotDirectory);
        }
        let may = self.permissions(who);
        let enters = match what {
            Use::LookUp => true,
            Use::Enter(Kind::Directory) => may.append,
            Use::Enter(_) => may.write,
        };
        match may.execute && enters {
            true => Ok(()),
            false => Err(FileError::Access),
        }
    }

    /// Whether `who` may remove the name of `object` from this directory. The object's own list is evaluated first.
    pub(crate) fn check_removal(&self, object: &Self, who: &Identity) -> Done {
        match object.rights {
            Some(rights) if rights.refuses(right::DELETE) => return Err(FileError::Access),
            Some(rights) if rights.may(right::DELETE) => return Ok(()),
            _ => {}
        }
        if !self.permissions(who).remove {
            return Err(FileError::Access);
        }
        rights::check_sticky(&self.attributes, &object.attributes, who)
    }

    /// Whether `who` may move it to another directory: moving a directory changes its `..`.
    pub(crate) fn check_moved(&self, who: &Identity) -> Done {
        rights::check_moved(self.attributes.kind, self.permissions(who))
    }

    /// Whether `who` may read its list.
    pub(crate) fn check_list_read(&self, who: &Identity) -> Done {
        let may = self.rights.is_none_or(|rights| rights.may(right::READ_ACL));
        match may || self.owns(who) {
            true => Ok(()),
            false => Err(FileError::Access),
        }
    }

    /// Whether `who` may set its list.
    pub(crate) fn check_list_set(&self, who: &Identity) -> Done {
        let may = self
            .rights
            .is_some_and(|rights| rights.may(right::WRITE_ACL));
        match may || self.owns(who) {
            true => Ok(()),
            false => Err(FileError::NotPermitted),
        }
    }

    /// Whether `who` may change attributes as requested: see [`rights::check_set`].
    pub(crate) fn check_set(&self, who: &Identity, changes: &SetAttributes) -> Done {
        let Some(rights) = self.rights else {
            return rights::check_set(&self.attributes, who, changes);
        };
        let is_owner = self.owns(who);
        if let Some(mode) = changes.mode {
            // Only the owner can allow other users to execute a file as its owner.
            let may = rights.may(right::WRITE_ACL) && mode & SET_USER_ID == 0;
            if !is_owner && !may {
                return Err(FileError::NotPermitted);
            }
        }
        if changes.uid.or(changes.gid).is_some() && !self.may_own(rights, who, changes) {
            return Err(FileError::NotPermitted);
        }
        if changes.accessed.or(changes.modified).is_some()
            && !is_owner
            && !rights.may(right::WRITE_ATTRIBUTES)
        {
            let only_now = |time: Option<SetTime>| time.is_none_or(|time| time == SetTime::Now);
            if !only_now(changes.accessed) || !only_now(changes.modified) {
                return Err(FileError::NotPermitted);
            }
            if !rights.may(right::WRITE) {
                return Err(FileError::Access);
            }
        }
        match changes.size.is_none() || is_owner || rights.may(right::WRITE) {
            true => Ok(()),
            false => Err(FileError::Access),
        }
    }

    /// Whether `who` may set owner and group as requested: the list can allow the requester to become the owner, and an
    /// owner may choose a group that it is in.
    fn may_own(&self, rights: Rights, who: &Identity, changes: &SetAttributes) -> bool {
        let is_own = changes.uid.is_none_or(|uid| uid == who.uid)
            && changes.gid.is_none_or(|gid| who.is_in(gid));
        let (uid, gid) = (self.attributes.uid, self.attributes.gid);
        let stays = changes.uid.is_none_or(|new| new == uid)
            && changes.gid.is_none_or(|new| new == gid || who.is_in(new));
        (is_own && rights.may(right::WRITE_OWNER)) || (stays && self.owns(who))
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
