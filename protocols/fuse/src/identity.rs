//! Who asks.

use std::fs;

use file_system::{Done, FileError, Identity};
use fuser::Request;

/// Root, for what the kernel has decided already.
pub(crate) const ROOT: Identity = Identity {
    uid: 0,
    gid: 0,
    groups: Vec::new(),
};

/// Who asks. The kernel tells the user and the group; the further groups are known of the process only. Whoever has none that can be
/// seen, in other namespaces of processes, is refused: an access control list may deny a group something.
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

/// The further groups of a process, or thread.
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
    fn groups_are_those_of_the_process() {
        let mut own: Vec<u32> = rustix::process::getgroups()
            .expect("groups")
            .into_iter()
            .map(|group| group.as_raw())
            .collect();
        let mut told = groups_of(std::process::id()).expect("this process is seen");
        own.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, own);
        assert_eq!(groups_of(0), None, "nobody");
    }
}
