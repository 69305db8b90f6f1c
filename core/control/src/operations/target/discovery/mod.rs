//! The authentication of initiators for discovery of targets.

use super::ChapOptions;
use crate::operations::noun;

noun! {
    /// Requests about discovery.
    DiscoveryRequest, DiscoveryCommand, "target.discovery";
    verbs { chap_set::ChapSet as "set", mutual_set::MutualSet as "mutual", chap_clear::ChapClear as "clear" }
    bare { show::Show }
    nouns {}
}
