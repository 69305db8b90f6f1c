//! MOUNT version 3 (RFC 1813, appendix I): converts a path to a filehandle. Mounts are not
//! recorded.

use file_system::{FileError, Identity, Kind};

use super::{At, Call, Failed, NAME_BYTES_MAX, Replied, Status};
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

/// Components of a path.
const DEPTH_MAX: usize = 256;

impl Call<'_> {
    pub(super) fn mount(
        &mut self,
        number: u32,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Replied {
        match number {
            MNT => {
                let path = reader.opaque(NAME_BYTES_MAX)?;
                self.write_root_handle(path, out)
            }
            // Mounts are not listed.
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

    fn write_root_handle(&mut self, path: &[u8], out: &mut Writer) -> Replied {
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

    /// Resolves a path. Names of file systems are resolved for each client that may use them.
    /// Within a file system the caller's permissions apply as in any other call, so that it mounts
    /// and discovers nothing that it could not reach from the root. If the call's security is too
    /// weak, the caller is treated as the anonymous user.
    fn walk(&mut self, path: &[u8]) -> Replied<At> {
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
                // Linux mounts with AUTH_SYS even if the share does not accept it.
                export.identity(&Credential::Nobody)
            };
            at = match self.find(&at, name) {
                // It may be a file system that is not open yet. MOUNT has no status for that.
                Err(Failed::With(Status::NOENT)) if !self.exports.is_complete() => {
                    return Err(Status::SERVERFAULT.into());
                }
                found => found?,
            };
        }
        // The client must not discover directories that lead to none of its file systems.
        match at.files.attributes(at.node()) {
            Ok(attributes) if attributes.kind == Kind::Directory => Ok(at),
            Ok(_) => Err(Status::NOTDIR.into()),
            Err(FileError::Gone) => Err(Failed::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the file systems that the client may use, without their groups of hosts.
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
