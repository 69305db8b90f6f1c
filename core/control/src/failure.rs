//! Failures of requests: a kind that scripts match on (it is also the exit code), a sentence for
//! people, and a remedy.

use std::fmt;

pub use units::chain;

/// Kinds of failure. The numbers are the exit codes of the command line and are stable.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The operation failed (exit code 1).
    Failed,
    /// The input is invalid: a forbidden name, a size that is not a multiple (2).
    Usage,
    /// A named thing does not exist (3).
    NotFound,
    /// A thing of that name or number exists already, or the request contradicts it (4).
    Exists,
    /// It is in use by another process, another pool, another head, or a session (5).
    Busy,
    /// Data or ownership is at stake: repeat it with the confirmation that the message names (6).
    NeedsConfirmation,
    /// No server responds where one was expected, or the connection broke (7).
    Unreachable,
    /// The pool is not available: devices are missing or it is suspended (8).
    Unavailable,
    /// The pool or a quota is full (9).
    NoSpace,
    /// The caller has no permission: not root, or not the socket's owner (10).
    Denied,
    /// The pool's engine has no such capability (11).
    Unsupported,
}

impl FailureKind {
    /// Every kind, in the order of the exit codes.
    pub const ALL: [Self; 11] = [
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Exists,
        Self::Busy,
        Self::NeedsConfirmation,
        Self::Unreachable,
        Self::Unavailable,
        Self::NoSpace,
        Self::Denied,
        Self::Unsupported,
    ];

    /// The exit code of the command line.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Exists => 4,
            Self::Busy => 5,
            Self::NeedsConfirmation => 6,
            Self::Unreachable => 7,
            Self::Unavailable => 8,
            Self::NoSpace => 9,
            Self::Denied => 10,
            Self::Unsupported => 11,
        }
    }

    /// Returns the meaning of the exit code, in a line of the manual.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Failed => "it was tried and failed",
            Self::Usage => "the input is wrong: an option, a name, a size",
            Self::NotFound => "a named pool, volume, snapshot, target or device does not exist",
            Self::Exists => "it exists already, or the request contradicts the existing state",
            Self::Busy => "it is in use by another process, pool, head or session",
            Self::NeedsConfirmation => {
                "data or ownership is at stake: the message names the option that confirms it"
            }
            Self::Unreachable => "no server responds, or the connection to it broke",
            Self::Unavailable => {
                "the pool cannot serve now: devices are missing, or it is suspended"
            }
            Self::NoSpace => "the pool or a quota is full",
            Self::Denied => "not allowed: run it as root, or as the owner of the control socket",
            Self::Unsupported => "the engine that keeps the pool cannot do that",
        }
    }
}

/// A failed request as it is sent and printed.
#[derive(
    Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Failure {
    /// The kind that scripts match on.
    pub kind: FailureKind,
    /// The failed step, outermost first, causes joined by `: `.
    pub message: String,
    /// The remedy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Failure {
    /// A failure without advice.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            advice: None,
        }
    }

    /// The same with `advice`.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The same in other words.
    #[must_use]
    pub fn map_text(mut self, words: impl Fn(&str) -> String) -> Self {
        self.message = words(&self.message);
        self.advice = self.advice.as_deref().map(words);
        self
    }

    /// An invalid input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// A missing `what`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotFound, message)
    }

    /// Adds the remedy to a failure for lack of rights, unless the user has all of them, or another remedy is known.
    #[must_use]
    pub fn for_user(self, is_root: bool) -> Self {
        const SIGNS: [&str; 2] = ["Permission denied", "Operation not permitted"];
        let is_denied = SIGNS.iter().any(|sign| self.message.contains(sign));
        if is_root || !is_denied || self.advice.is_some() {
            return self;
        }
        let kind = match self.kind {
            FailureKind::Failed => FailureKind::Denied,
            kind => kind,
        };
        Self { kind, ..self }.advise("run the command as root, such as with `sudo`")
    }

    /// Returns a function that wraps the failure of a step: `.map_err(Failure::of("open the
    /// pool"))`.
    pub fn of<E: fmt::Display>(step: impl fmt::Display) -> impl Fn(E) -> Self {
        let step = step.to_string();
        move |error| Self::new(FailureKind::Failed, format!("{step}: {error}"))
    }

    /// Formats `error` and all its causes as one line of `kind`.
    pub fn from_chain(kind: FailureKind, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(kind, chain(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documentation_lists_every_exit_code() {
        let read = |path: &str| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
            std::fs::read_to_string(format!("{root}{path}")).expect("a document")
        };
        let (control, guide) = (read("formats/control.md"), read("guide/command-line.md"));
        for kind in FailureKind::ALL {
            let word = serde_json::to_string(&kind)
                .expect("JSON")
                .replace('"', "`");
            let (code, meaning) = (kind.exit_code(), kind.meaning());
            assert!(
                control.contains(&format!("| {word} | {code} | {meaning} |")),
                "{word}"
            );
            assert!(guide.contains(&format!("| {code} | {meaning} |")), "{code}");
        }
    }

    #[test]
    fn missing_rights_have_a_remedy_and_their_own_exit_code() {
        let denied = || Failure::of("open /dev/sda")("Permission denied (os error 13)");
        let shown = denied().for_user(false);
        assert_eq!(shown.kind, FailureKind::Denied);
        assert!(shown.advice.is_some_and(|advice| advice.contains("`sudo`")));
        assert_eq!(denied().for_user(true), denied());
        let known = denied().advise("add it to the group");
        assert_eq!(known.clone().for_user(false), known);
        let other = Failure::of("open /dev/sda")("No such file");
        assert_eq!(other.clone().for_user(false), other);
    }

    #[test]
    fn exit_codes_are_distinct_and_dense() {
        let codes: Vec<u8> = FailureKind::ALL.iter().map(|k| k.exit_code()).collect();
        assert_eq!(codes, (1..=11).collect::<Vec<u8>>());
    }
}
