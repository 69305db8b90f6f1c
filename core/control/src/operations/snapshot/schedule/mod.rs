//! Automatic snapshots of the server. `of` is the name of a volume, of a dataset above volumes, or of the pool.

use crate::operations::noun;

noun! {
    /// Requests about schedules of snapshots.
    ScheduleRequest, ScheduleCommand, "snapshot.schedule";
    verbs { set::Set, remove::Remove }
    bare { list::List }
    nouns {}
}
