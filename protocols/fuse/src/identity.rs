//! The identity of the calling process.

use std::fs;

use file_system::{Done, FileError, Identity};
use fuser::Request;

/// Root, for operations that the kernel has already authorized.
pub(crate) const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// Returns the identity of the caller. The kernel passes user and group; supplementary groups must
/// be read from the process. A caller with unreadable groups, in another PID namespace, is refused,
/// because an access control list may deny access to a group.
pub(crate) fn of(request: &Request) -> Done<Identity> {
    let groups = match request.uid() {
        0 => Vec::new(),
        _ => groups_of(request.pid()).ok_or(FileError::Access)?,
    };
    Ok(Identity {
        uid: request.uid(),
        gid: request.gid(),
        groups,
    })
}

/// Returns the supplementary groups of a process or thread.
fn groups_of(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let groups = line?.split_whitespace().map(str::parse);
    groups.collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_process() {
        let mut own: Vec<u32> = rustix::process::getgroups()
            .expect("groups")
            .into_iter()
            .map(|group| group.as_raw())
            .collect();
        let mut stored = groups_of(std::process::id()).expect("this process is seen");
        own.sort_unstable();
        stored.sort_unstable();
        assert_eq!(stored, own);
        assert_eq!(groups_of(0), None, "nobody");
    }
}
