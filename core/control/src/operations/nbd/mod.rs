//! NBD exports.

use super::noun;

noun! {
    /// Requests about NBD exports.
    NbdRequest, NbdCommand, "nbd";
    verbs { export::Export, unexport::Unexport, list::List }
    bare {}
    nouns {}
}
