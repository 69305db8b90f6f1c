//! Access decisions from the permission bits of an object. File systems without ACLs use these functions, so that all
//! decide alike.

use crate::{Attributes, Done, FileError, Identity, Kind, Permissions, SetAttributes, SetTime};

/// Names of directories with the sticky bit can be removed only by the owner.
const STICKY: u32 = 0o1000;

/// The rights that the permission bits of an object grant `who`. Root has every right, except to execute an object
/// without any execute bit.
pub fn permitted(attributes: &Attributes, who: &Identity) -> Permissions {
    if who.uid == 0 {
        let runs = attributes.kind == Kind::Directory || attributes.mode & 0o111 != 0;
        return Permissions::of_mode(true, true, runs);
    }
    let shift = if who.uid == attributes.uid {
        6
    } else if who.is_in(attributes.gid) {
        3
    } else {
        0
    };
    let bits = attributes.mode >> shift;
    Permissions::of_mode(bits & 4 != 0, bits & 2 != 0, bits & 1 != 0)
}

/// Whether `who` may change the attributes as requested. Truncation by the owner is allowed whatever the mode: a client
/// that has the file open for writing may do it, and the server cannot see that.
pub fn check_set(attributes: &Attributes, who: &Identity, changes: &SetAttributes) -> Done {
    let may = permitted(attributes, who);
    let is_owner = who.uid == 0 || who.uid == attributes.uid;
    let gives_away = changes.uid.is_some_and(|uid| uid != attributes.uid);
    let foreign_group = changes
        .gid
        .is_some_and(|gid| gid != attributes.gid && !who.is_in(gid));
    let only_now = |time: Option<SetTime>| time.is_none_or(|time| time == SetTime::Now);
    let times = changes.accessed.or(changes.modified);
    let is_foreign_time = times.is_some() && !is_owner;
    let is_now = only_now(changes.accessed) && only_now(changes.modified);
    if (changes.mode.or(changes.uid).or(changes.gid).is_some() && !is_owner)
        || ((gives_away || foreign_group) && who.uid != 0)
        || (is_foreign_time && !is_now)
    {
        return Err(FileError::NotPermitted);
    }
    if (is_foreign_time || (changes.size.is_some() && !is_owner)) && !may.write {
        return Err(FileError::Access);
    }
    Ok(())
}

/// The mode of a file after a change of its contents: set-ID bits do not apply to the new contents.
pub const fn without_set_id(mode: u32) -> u32 {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID: u32 = 0o2000;
    const GROUP_EXECUTES: u32 = 0o010;
    match mode & GROUP_EXECUTES {
        0 => mode & !SET_USER_ID,
        _ => mode & !(SET_USER_ID | SET_GROUP_ID),
    }
}

/// The mode after a change by `who`: set-user-id and set-group-id are cleared by changes of the owner and of the size,
/// and set-group-id if `who` is not in the group.
pub fn mode_after(attributes: &Attributes, who: &Identity, changes: &SetAttributes) -> u32 {
    let mut mode = changes.mode.unwrap_or(attributes.mode);
    let gid = changes.gid.unwrap_or(attributes.gid);
    if changes.size.is_some() && changes.mode.is_none() {
        mode = without_set_id(mode);
    }
    let is_foreign_group = who.uid != 0 && !who.is_in(gid);
    if changes.mode.is_some() && is_foreign_group {
        mode &= !0o2000;
    }
    if attributes.kind == Kind::Directory {
        return mode;
    }
    let is_given = changes.mode.is_none() && changes.uid.or(changes.gid).is_some();
    if who.uid == 0 {
        // Like `chown` by root in Linux, locally and through a server.
        return if is_given { without_set_id(mode) } else { mode };
    }
    if is_given {
        mode &= !0o6000;
    }
    mode
}

/// Whether `who` may look names up in a directory, and change them if `writes`.
pub fn check_directory(directory: &Attributes, who: &Identity, writes: bool) -> Done {
    if directory.kind != Kind::Directory {
        return Err(FileError::NotDirectory);
    }
    let may = permitted(directory, who);
    if !may.execute || (writes && !may.write) {
        return Err(FileError::Access);
    }
    Ok(())
}

/// The sticky bit: only the owner of the object or of the directory may remove the name.
pub fn check_sticky(directory: &Attributes, object: &Attributes, who: &Identity) -> Done {
    let is_owner = who.uid == 0 || who.uid == directory.uid || who.uid == object.uid;
    if directory.mode & STICKY != 0 && !is_owner {
        return Err(FileError::NotPermitted);
    }
    Ok(())
}

/// Whether an object may be moved to another directory by a requester with these permissions: moving a directory
/// changes its `..`.
pub fn check_moved(kind: Kind, may: Permissions) -> Done {
    match kind == Kind::Directory && !may.write {
        true => Err(FileError::Access),
        false => Ok(()),
    }
}

/// Whether the bytes are a valid name.
pub fn check_name(name: &[u8], bytes_max: usize) -> Done {
    if name.len() > bytes_max {
        return Err(FileError::NameTooLong);
    }
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
        return Err(FileError::BadName);
    }
    Ok(())
}
