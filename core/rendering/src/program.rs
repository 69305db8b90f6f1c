//! The name of this program in messages, and in the commands that they advise. Messages are written for `bulkhead`.

use std::borrow::Cow;
use std::sync::OnceLock;

const DEFAULT: &str = "bulkhead";

static NAME: OnceLock<&'static str> = OnceLock::new();

/// Sets the name. A program with another name than `bulkhead` calls it before it prints. Later calls have no effect.
pub fn name_program(name: &'static str) {
    let _ = NAME.set(name);
}

/// The name.
pub(crate) fn name() -> &'static str {
    NAME.get().copied().unwrap_or(DEFAULT)
}

/// The text with that name in each quoted command.
pub(crate) fn with_own_commands(text: &str) -> Cow<'_, str> {
    renamed(text, name())
}

fn renamed<'a>(text: &'a str, name: &str) -> Cow<'a, str> {
    let (old, new) = (format!("`{DEFAULT} "), format!("`{name} "));
    match name == DEFAULT || !text.contains(&old) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.replace(&old, &new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_commands_have_the_name_of_the_program() {
        let text = "created pool bulkhead: `bulkhead volume create tank/NAME` is next";
        let other = "created pool bulkhead: `bulkhead-ceph volume create tank/NAME` is next";
        assert_eq!(renamed(text, "bulkhead-ceph"), other);
        assert_eq!(renamed(text, DEFAULT), text);
        assert_eq!(renamed("no command", "bulkhead-ceph"), "no command");
    }
}
