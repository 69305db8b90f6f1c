//! Rescues: a second look at a volume, beside its clients. `volume rescue` is a command of several requests.

use crate::operations::noun;

noun! {
    /// Requests about rescues.
    RescueRequest, "volume.rescue";
    wire_only { begin::Begin, end::End }
    bare_wire_only { list::List }
}
