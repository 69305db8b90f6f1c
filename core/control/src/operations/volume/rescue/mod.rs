//! Rescues: a second view of a volume, concurrently with its clients. `volume rescue` is a command of several requests.

use crate::operations::noun;

noun! {
    /// Requests about rescues.
    RescueRequest, "volume.rescue";
    wire_only { begin::Begin, end::End }
    bare_wire_only { list::List }
}
