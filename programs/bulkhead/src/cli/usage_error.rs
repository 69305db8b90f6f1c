//! Reports invalid command lines to scripts: `--json` promises one document for every failure.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use control::Failure;

/// Returns the failure to print as JSON; `None` if the output is for people, or if help was
/// requested.
pub fn usage_error(
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

/// Removes tips without use here: no user intends to pass an option as a value.
pub fn without_misleading_tips(mut error: clap::Error) -> clap::Error {
    let is_odd = |tip: &clap::builder::StyledStr| tip.to_string().contains("as a value");
    let tips = error.get(ContextKind::Suggested).cloned();
    if let Some(ContextValue::StyledStrs(tips)) = tips {
        let kept: Vec<_> = tips.into_iter().filter(|tip| !is_odd(tip)).collect();
        match kept.is_empty() {
            true => error.remove(ContextKind::Suggested),
            false => error.insert(ContextKind::Suggested, ContextValue::StyledStrs(kept)),
        };
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn usage_failure(words: &str) -> Option<Failure> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let error = Cli::try_parse_from(&words).expect_err("no command");
        usage_error(&error, words)
    }

    #[test]
    fn usage_error_is_a_json_failure_for_scripts() {
        let failure = usage_failure("bulkhead --json volume create tank/v --size foo")
            .expect("usage_failure");
        assert_eq!(failure.kind.exit_code(), 2);
        assert!(failure.message.contains("is not a size"), "{failure:?}");
        assert!(!failure.message.contains('\n'), "{failure:?}");
        let failure = usage_failure("bulkhead volume create tank/v --json").expect("usage_failure");
        assert!(failure.message.contains("--size"), "{failure:?}");
        assert!(!failure.message.contains("Usage"), "{failure:?}");
    }

    #[test]
    fn usage_error_omits_double_dash_tip() {
        for words in [
            "bulkhead pool create tank a --fast",
            "bulkhead status --pol tank",
        ] {
            let error = Cli::try_parse_from(words.split(' ')).expect_err("no command");
            let text = without_misleading_tips(error).render().to_string();
            assert!(!text.contains("as a value"), "{text}");
            assert!(text.contains("unexpected argument"), "{text}");
        }
        let error = Cli::try_parse_from(["bulkhead", "status", "--pol", "tank"]);
        let text = without_misleading_tips(error.expect_err("no command"))
            .render()
            .to_string();
        assert!(text.contains("--pool"), "{text}");
    }

    #[test]
    fn usage_errors_on_terminals_and_help_are_text() {
        assert!(usage_failure("bulkhead volume create tank/v").is_none());
        assert!(usage_failure("bulkhead volume create --json --help").is_none());
        assert!(usage_failure("bulkhead nonsense -- --json").is_none());
    }
}
