//! What a person requests.

/// A request about one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegRequest {
    /// It is in order again: take it back at once.
    TakeBack,
    /// It has another history, of which nothing is wanted: overwrite it.
    Discard,
    /// The leg of that name joins its group.
    Attach {
        /// What it is called.
        new: String,
        /// Also if it carries something.
        overwrite: bool,
    },
    /// Another disk is in its place.
    Replace {
        /// What the leg is called then; none means that the same path holds a new disk.
        new: Option<String>,
        /// Also if the new one carries something.
        overwrite: bool,
    },
}

/// A request about the members that remember which legs of a pool hold everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRequest<'a> {
    /// The witness of that name, or none.
    Witness(Option<&'a str>),
    /// A third head of that name.
    Head(&'a str),
}
