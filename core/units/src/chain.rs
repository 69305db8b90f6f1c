//! Formats an error with its chain of causes in one line.

use std::error::Error;

/// The text of `error` and of its sources, joined by colons.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
