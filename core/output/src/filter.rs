//! Selects the logged events: a level, and levels of single modules. It can be changed at run time.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::log::log;

/// The environment variable with the initial filter.
const VARIABLE: &str = "RUST_LOG";
/// Longest filter, in bytes.
const BYTES_MAX: usize = 1024;
/// Largest number of directives in a filter. Every event is compared with each.
const DIRECTIVES_MAX: usize = 32;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// One JSON document in each line.
    pub json: bool,
    /// Colours, if the standard error is a terminal.
    pub colours: bool,
    /// Without the time, for a reader that adds it.
    pub without_time: bool,
}

/// A filter: `info`, or `info,legs=trace,nfs=debug`.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    text: String,
    targets: Targets,
}

/// Why a text is no filter.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidFilter(String);

impl fmt::Display for InvalidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}. Write a level ({}) or levels of modules, such as `info,legs=trace`",
            self.0,
            LEVELS.join(", ")
        )
    }
}

impl std::error::Error for InvalidFilter {}

impl Default for Filter {
    fn default() -> Self {
        Self {
            text: "info".to_owned(),
            targets: Targets::new().with_default(LevelFilter::INFO),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Filter {
    type Err = InvalidFilter;

    fn from_str(text: &str) -> Result<Self, InvalidFilter> {
        let invalid = |why: String| Err(InvalidFilter(why));
        if text.is_empty() || text.len() > BYTES_MAX {
            return invalid(format!("a filter has 1 to {BYTES_MAX} characters"));
        }
        let directives: Vec<&str> = text.split(',').collect();
        if directives.len() > DIRECTIVES_MAX {
            return invalid(format!(
                "a filter has at most {DIRECTIVES_MAX} parts, not {}",
                directives.len()
            ));
        }
        for directive in directives {
            let (module, level) = match directive.split_once('=') {
                Some((module, level)) => (Some(module), level),
                None => (None, directive),
            };
            if !LEVELS.contains(&level) {
                return invalid(format!("{level:?} is no level"));
            }
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
            let bad = module.filter(|module| module.is_empty() || !module.chars().all(is_name));
            if let Some(bad) = bad {
                return invalid(format!("{bad:?} is no module: crates have _, not -"));
            }
        }
        let text = text.to_owned();
        match text.parse() {
            Ok(targets) => Ok(Self { text, targets }),
            Err(error) => invalid(format!("{error}")),
        }
    }
}

struct Current {
    filter: Filter,
    handle: Handle<Targets, Registry>,
}

static CURRENT: OnceLock<Mutex<Current>> = OnceLock::new();

/// Starts the log of this process on the standard error, with the filter of [`VARIABLE`], or `info`. Called once; later
/// calls have no effect.
pub fn start_log(style: Style) {
    let asked = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let parsed = asked.as_deref().map(Filter::from_str);
    let filter = match &parsed {
        Some(Ok(filter)) => filter.clone(),
        _ => Filter::default(),
    };
    let colours = style.colours && std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(log)
        .with_target(false)
        .with_ansi(colours);
    let started = match (style.json, style.without_time) {
        (true, _) => start(lines.json(), &filter),
        (false, true) => start(lines.without_time(), &filter),
        (false, false) => start(lines, &filter),
    };
    if started {
        if let Some(Err(error)) = parsed {
            tracing::warn!("{VARIABLE} is not obeyed: {error}");
        }
    }
}

fn start(lines: impl Layer<Registry> + Send + Sync, filter: &Filter) -> bool {
    let (targets, handle) = reload::Layer::new(filter.targets.clone());
    let log = tracing_subscriber::registry().with(lines.with_filter(targets));
    let is_first = log.try_init().is_ok();
    if is_first {
        let filter = filter.clone();
        // Nothing else sets it.
        let _ = CURRENT.set(Mutex::new(Current { filter, handle }));
    }
    is_first
}

/// The filter of this process; `None` if its log was not started.
pub fn log_filter() -> Option<Filter> {
    let current = CURRENT.get()?;
    let current = current.lock().unwrap_or_else(PoisonError::into_inner);
    Some(current.filter.clone())
}

/// Changes the filter of this process from the next event on; the one before, or `None` if the log was not started.
pub fn set_log_filter(filter: Filter) -> Option<Filter> {
    let current = CURRENT.get()?;
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    // It fails only if the subscriber is dropped, and that is never dropped.
    let _ = current.handle.reload(filter.targets.clone());
    Some(std::mem::replace(&mut current.filter, filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_level_and_levels_of_modules() {
        for text in [
            "info",
            "off",
            "info,legs=trace",
            "warn,nfs::v4=debug,iscsi=off",
        ] {
            assert_eq!(
                text.parse::<Filter>().map(|f| f.to_string()),
                Ok(text.into())
            );
        }
        for text in [
            "",
            "loud",
            "info,,",
            "legs=",
            "=debug",
            "pool-server=debug",
            "INFO",
        ] {
            let error = text.parse::<Filter>().expect_err(text).to_string();
            assert!(error.contains("info,legs=trace"), "{error}");
        }
        let many = vec!["a=info"; DIRECTIVES_MAX + 1].join(",");
        assert!(many.parse::<Filter>().is_err());
        assert!("a".repeat(BYTES_MAX + 1).parse::<Filter>().is_err());
    }

    /// In a process of its own, like every test here.
    #[test]
    fn log_filter_changes_at_run_time() {
        start_log(Style::default());
        let is_logged = || tracing::enabled!(target: "legs::owner", tracing::Level::TRACE);
        assert!(!is_logged());
        let before = set_log_filter("info,legs=trace".parse().expect("a filter"));
        assert_eq!(before, Some(Filter::default()));
        assert!(is_logged());
        assert!(!tracing::enabled!(target: "nfs", tracing::Level::DEBUG));
        set_log_filter(Filter::default());
        assert!(!is_logged());
        assert_eq!(log_filter(), Some(Filter::default()));
    }
}
