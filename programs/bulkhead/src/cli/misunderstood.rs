//! Words that are no command, told to a script: `--json` promises one document for every failure.

use std::ffi::OsString;

use clap::error::ErrorKind;
use control::Failure;

/// The failure to print as JSON; `None` if people are to read it, or if help was asked for.
pub fn misunderstood(
    error: &clap::Error,
    words: impl IntoIterator<Item = OsString>,
) -> Option<Failure> {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    let mut own = words.into_iter().take_while(|word| word != "--");
    let is_help = matches!(
        error.kind(),
        DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion
    );
    if is_help || !own.any(|word| word == "--json") {
        return None;
    }
    let text = error.render().to_string();
    // The usage follows, which is for people.
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty());
    let said = lines.collect::<Vec<_>>().join(" ");
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    Some(Failure::usage(said).advise("`--help` explains every noun and verb"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn told(words: &str) -> Option<Failure> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).expect_err("no command");
        misunderstood(&error, words)
    }

    #[test]
    fn what_is_wrong_with_the_words_is_a_failure_for_scripts() {
        let failure = told("bulkhead --json volume create tank/v --size foo").expect("told");
        assert_eq!(failure.kind.exit_code(), 2);
        assert!(failure.message.contains("is not a size"), "{failure:?}");
        assert!(!failure.message.contains('\n'), "{failure:?}");
        let failure = told("bulkhead volume create tank/v --json").expect("told");
        assert!(failure.message.contains("--size"), "{failure:?}");
        assert!(!failure.message.contains("Usage"), "{failure:?}");
    }

    #[test]
    fn people_and_help_get_text() {
        assert!(told("bulkhead volume create tank/v").is_none());
        assert!(told("bulkhead volume create --json --help").is_none());
        assert!(told("bulkhead nonsense -- --json").is_none());
    }
}
