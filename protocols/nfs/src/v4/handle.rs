//! File handles: identity of the file system, object, generation. They are the same on every head.

use super::numbers::Status;
use crate::file_system::Node;

/// The form of handles.
const VERSION: u8 = 1;
/// Bytes of a handle.
pub const HANDLE_BYTES: usize = 28;
/// Bytes of a handle that the protocol allows.
pub const HANDLE_BYTES_MAX: usize = 128;

/// The handle of a node.
pub fn encode(file_system: u64, node: Node) -> [u8; HANDLE_BYTES] {
    let mut handle = [0; HANDLE_BYTES];
    handle[0] = VERSION;
    handle[4..12].copy_from_slice(&file_system.to_be_bytes());
    handle[12..20].copy_from_slice(&node.object.to_be_bytes());
    handle[20..].copy_from_slice(&node.generation.to_be_bytes());
    handle
}

/// The file system and node of a handle.
pub fn decode(handle: &[u8]) -> Result<(u64, Node), Status> {
    let word = |at: usize| {
        let bytes = handle
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_be_bytes).ok_or(Status::BADHANDLE)
    };
    if handle.len() != HANDLE_BYTES || handle[..4] != [VERSION, 0, 0, 0] {
        return Err(Status::BADHANDLE);
    }
    let node = Node {
        object: word(12)?,
        generation: word(20)?,
    };
    Ok((word(4)?, node))
}
