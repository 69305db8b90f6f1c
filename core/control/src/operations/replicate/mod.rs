//! Replication of volumes to other appliances.

use super::noun;

noun! {
    /// Requests about replication.
    ReplicateRequest, ReplicateCommand, "replicate";
    verbs {
        accept::Accept, revoke::Revoke, set::Set, remove::Remove, promote::Promote, run::Run
    }
    bare { identity::Identity, rotate_key::RotateKey, list::List }
    nouns {}
}
