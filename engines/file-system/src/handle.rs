//! Names of objects that outlive restarts and takeovers, as a protocol hands them to its clients.

/// A file system, or a snapshot of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId {
    /// The dataset's `fsid_guid`, which stays with it when its pool moves. A snapshot is known to clients by that of what it was taken of.
    pub guid: u64,
    /// Of a snapshot the number of its object set, else 0.
    pub snapshot: u64,
}

impl FileSystemId {
    /// That of the file system itself, also of one of its snapshots.
    #[must_use]
    pub const fn whole(self) -> Self {
        Self {
            snapshot: 0,
            ..self
        }
    }
}

/// A file, directory or other object. The generation tells an object from a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Its number in the file system.
    pub object: u64,
    /// Changes when the number is used again.
    pub generation: u64,
}

/// An object among those of all file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    /// Its file system.
    pub file_system: FileSystemId,
    /// The object there.
    pub node: Node,
}

/// Bytes that are no handle of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes are no file handle of this server")]
pub struct BadHandle {
    /// How many there were.
    pub length: usize,
}

/// The form of handles.
const FORM: u8 = 1;

impl Handle {
    /// Bytes of a handle. NFS 3 allows 64 (RFC 1813, 2.4), NFS 4 128.
    pub const BYTES: usize = 36;

    /// The form for clients: its number, three zeros, then identity, snapshot, object and generation, big-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let numbers = [
            self.file_system.guid,
            self.file_system.snapshot,
            self.node.object,
            self.node.generation,
        ];
        let mut bytes = [0; Self::BYTES];
        bytes[0] = FORM;
        for (place, number) in bytes[4..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadHandle> {
        let bad = BadHandle {
            length: bytes.len(),
        };
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| bad)?;
        if bytes[..4] != [FORM, 0, 0, 0] {
            return Err(bad);
        }
        let number = |index: usize| {
            let at = 4 + 8 * index;
            let number: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(number)
        };
        Ok(Self {
            file_system: FileSystemId {
                guid: number(0),
                snapshot: number(1),
            },
            node: Node {
                object: number(2),
                generation: number(3),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: Handle = Handle {
        file_system: FileSystemId {
            guid: 0x0102_0304_0506_0708,
            snapshot: 5,
        },
        node: Node {
            object: 34,
            generation: 0xfedc,
        },
    };

    #[test]
    fn a_handle_has_the_documented_bytes() {
        let expected = b"\x01\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x22\0\0\0\0\0\0\xfe\xdc";
        assert_eq!(&HANDLE.to_bytes(), expected);
        assert_eq!(Handle::from_bytes(expected), Ok(HANDLE));
    }

    #[test]
    fn bytes_of_another_form_or_length_are_no_handle() {
        let mut bytes = HANDLE.to_bytes().to_vec();
        for length in 0..bytes.len() {
            let bad = Err(BadHandle { length });
            assert_eq!(Handle::from_bytes(&bytes[..length]), bad);
        }
        for place in 0..4 {
            bytes[place] ^= 2;
            assert!(Handle::from_bytes(&bytes).is_err(), "byte {place}");
            bytes[place] ^= 2;
        }
        bytes.push(0);
        assert_eq!(Handle::from_bytes(&bytes), Err(BadHandle { length: 37 }));
    }
}
