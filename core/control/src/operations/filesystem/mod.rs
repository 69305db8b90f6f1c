//! File systems: files and directories in a pool.

use super::noun;

noun! {
    /// Requests about file systems.
    FilesystemRequest, FilesystemCommand, "filesystem";
    verbs {
        create::Create, show::Show, destroy::Destroy, rename::Rename, rollback::Rollback, promote::Promote,
        get::Get, set::Set, inherit::Inherit, check::Check,
        userspace::Userspace, open_files::OpenFiles, expire_client::ExpireClient, list::List,
    }
    bare {}
    nouns {}
}
