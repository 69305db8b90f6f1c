//! Files by which a pool server with two heads and no witness, and the agent that sees fences on its host, communicate.
//! The server may not ask the cluster itself: it has no rights for that.
//!
//! * `POOL.fence-wanted`: the fence of the other head would be a vote. A number that identifies the request, the name of the head, and `missed`
//!   if it sends no messages.
//! * `POOL.fence-confirmed`: the number of the request. The head was not fenced when the request was first seen, and
//!   was later.
//!
//! The request exists already while messages of the head arrive, because the head may be fenced before its silence is
//! detected. A new request replaces it when a new process of the head sends a message: so every message of the head
//! precedes a fence that confirms the request.
//!
//! Both are only valid for one process: a request of an earlier one has another number.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024;

/// A request for a fence that would be a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FenceRequest {
    /// Identifies this request.
    pub number: u64,
    /// Name of the head to be fenced.
    pub head: String,
    /// The head sends no messages.
    pub is_missed: bool,
}

fn path(folder: &Path, pool: u64, what: &str) -> PathBuf {
    folder.join(format!("{pool}.fence-{what}"))
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    File::create(&new)?.write_all(text.as_bytes())?;
    std::fs::rename(&new, path)
}

fn get(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Writes a request.
///
/// # Errors
///
/// An I/O error. The agent does not receive the request then.
pub fn request_fence(folder: &Path, pool: u64, request: &FenceRequest) -> io::Result<()> {
    let missed = if request.is_missed { " missed" } else { "" };
    let text = format!("{:016x} {}{missed}\n", request.number, request.head);
    put(&path(folder, pool, "wanted"), &text)
}

/// Returns the pending request.
pub fn requested_fence(folder: &Path, pool: u64) -> Option<FenceRequest> {
    let text = get(&path(folder, pool, "wanted"))?;
    let (number, rest) = text.trim_end().split_once(' ')?;
    let (head, is_missed) = match rest.strip_suffix(" missed") {
        Some(head) => (head, true),
        None => (rest, false),
    };
    Some(FenceRequest {
        number: u64::from_str_radix(number, 16).ok()?,
        head: head.to_owned(),
        is_missed,
    })
}

/// Marks the request of that number as fulfilled.
///
/// # Errors
///
/// An I/O error.
pub fn confirm_fence(folder: &Path, pool: u64, number: u64) -> io::Result<()> {
    tracing::debug!(pool, number, "a requested fence is confirmed");
    put(
        &path(folder, pool, "confirmed"),
        &format!("{number:016x}\n"),
    )
}

/// Whether the request of that number is fulfilled.
pub fn is_fence_confirmed(folder: &Path, pool: u64, number: u64) -> bool {
    let text = get(&path(folder, pool, "confirmed"));
    text.is_some_and(|text| text.trim_end() == format!("{number:016x}"))
}

/// Removes the request.
///
/// # Errors
///
/// An I/O error. A number that remains does not match any other request.
pub fn discard_fence_request(folder: &Path, pool: u64) -> io::Result<()> {
    for what in ["wanted", "confirmed"] {
        match std::fs::remove_file(path(folder, pool, what)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirmation_applies_to_one_request() {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path();
        assert_eq!(requested_fence(place, 7), None);
        for is_missed in [false, true] {
            let request = FenceRequest {
                number: 5,
                head: "left".to_owned(),
                is_missed,
            };
            request_fence(place, 7, &request).expect("noted");
            assert_eq!(requested_fence(place, 7), Some(request));
        }
        assert!(!is_fence_confirmed(place, 7, 5));
        confirm_fence(place, 7, 5).expect("said");
        assert!(is_fence_confirmed(place, 7, 5));
        assert!(!is_fence_confirmed(place, 7, 6) && !is_fence_confirmed(place, 8, 5));
        discard_fence_request(place, 7).expect("forgotten");
        discard_fence_request(place, 7).expect("nothing to do");
        assert_eq!(requested_fence(place, 7), None);
        assert!(!is_fence_confirmed(place, 7, 5));
        std::fs::write(place.join("7.fence-wanted"), "no number").expect("damaged");
        assert_eq!(requested_fence(place, 7), None);
    }
}
