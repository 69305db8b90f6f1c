//! MOUNT version 3 (RFC 1813, appendix I): a path in, a handle out. Nothing is kept of who has mounted what.

use file_system::{FileError, Identity, Kind};

use super::{Answered, At, Call, Failed, NAME_BYTES_MAX, Status};
use crate::exports::NameOwner;
use crate::rpc::{AUTH_NONE, Credential, NULL};
use crate::sharenfs::Security;
use crate::xdr::{Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_005;

const MNT: u32 = 1;
const DUMP: u32 = 2;
const UMNT: u32 = 3;
const UMNTALL: u32 = 4;
/// The highest procedure.
pub(super) const EXPORT: u32 = 5;

/// Directories of a path.
const DEPTH_MAX: usize = 256;

impl Call<'_> {
    pub(super) fn mount(
        &mut self,
        number: u32,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Answered {
        match number {
            MNT => {
                let path = reader.opaque(NAME_BYTES_MAX)?;
                self.give_first_handle(path, out)
            }
            // Nobody is listed.
            DUMP => {
                out.boolean(false);
                Ok(())
            }
            UMNT => {
                reader.opaque(NAME_BYTES_MAX)?;
                Ok(())
            }
            EXPORT => {
                self.list_exports(out);
                Ok(())
            }
            NULL | UMNTALL => Ok(()),
            _ => Err(Failed::Malformed),
        }
    }

    fn give_first_handle(&mut self, path: &[u8], out: &mut Writer) -> Answered {
        let start = out.len();
        match self.walk(path) {
            Ok(found) => {
                out.u32(Status::OK.0);
                out.opaque(&self.exports.sign(found.place));
                let ways = self.exports.securities(found.place, &self.caller.from);
                let mut flavors: Vec<u32> = ways.iter().map(|way| way.flavor()).collect();
                if ways.contains(&Security::System) {
                    flavors.push(AUTH_NONE);
                }
                out.u32(flavors.len() as u32);
                flavors.into_iter().for_each(|flavor| out.u32(flavor));
                Ok(())
            }
            Err(Failed::With(status)) => {
                out.truncate(start);
                out.u32(status.0);
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// The directory that a path leads to. The names of file systems lead on for each client that may use them. Within a file system the
    /// caller looks the names up as for any other call, so that it mounts and learns nothing that it could not reach from the root. Where
    /// calls have to be secured better than this one is, it comes to what anybody comes to.
    fn walk(&mut self, path: &[u8]) -> Answered<At> {
        let root = self.exports.root(&self.caller.from);
        let mut at = self.enter(root)?;
        let parts = path.split(|byte| *byte == b'/');
        for (depth, name) in parts.filter(|part| !part.is_empty()).enumerate() {
            if depth >= DEPTH_MAX || matches!(name, b"." | b"..") {
                return Err(Status::INVAL.into());
            }
            let export = self.exports.export(at.place.export);
            let leads_on = matches!(self.owner(&at, name), NameOwner::FileSystem(_));
            at.who = if leads_on {
                Identity {
                    uid: 0,
                    gid: 0,
                    groups: Vec::new(),
                }
            } else if export.takes(self.caller.from.security) {
                export.identity(self.caller.credential)
            } else {
                // Linux mounts by numbers, also where the share does not take them.
                export.identity(&Credential::Nobody)
            };
            at = match self.find(&at, name) {
                // It may be one of those that are not open yet. There is no word for that here.
                Err(Failed::With(Status::NOENT)) if !self.exports.is_complete() => {
                    return Err(Status::SERVERFAULT.into());
                }
                found => found?,
            };
        }
        // A client must not learn of directories between that lead to nothing of its.
        match at.files.attributes(at.node()) {
            Ok(attributes) if attributes.kind == Kind::Directory => Ok(at),
            Ok(_) => Err(Status::NOTDIR.into()),
            Err(FileError::Gone) => Err(Failed::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// What the client may use. The groups of each, which may, are not told.
    fn list_exports(&self, out: &mut Writer) {
        let shared = self.exports.shared().iter();
        for export in shared.filter(|export| export.access(&self.caller.from).is_some()) {
            out.boolean(true);
            out.opaque(format!("/{}", export.name).as_bytes());
            out.boolean(false);
        }
        out.boolean(false);
    }
}
