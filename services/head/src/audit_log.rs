//! `bulkhead audit`: the changes on this head, from every way in.

use api::audit::Entry;
use api::audit_search::{FileError, Wanted, find};
use clap::Args;
use control::operations::duration_s;
use control::{Failure, FailureKind, calendar};
use pool_access::common::Common;
use rendering::{Printer, Table, harmless};

use crate::args::HeadPaths;

const EXAMPLES: &str = "Examples:
  bulkhead audit
  bulkhead audit --since 24h --user anna
  bulkhead audit --object tank/vms
  bulkhead audit --object 'tank/*@auto-*' --limit 1000 --json

The log contains changes by commands, with a server or without one, and by the API and the console; also logins and
refusals. It is that of this head: the other heads have logs of their own.";

/// `audit`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AuditCommand {
    /// Only show entries that are at most so old, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = duration_s)]
    pub since: Option<u64>,
    /// Only show entries of this user; * and ? make it a pattern
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only show entries about this object and those below it, or about the objects of a pattern with * and ?
    #[arg(long, value_name = "PATTERN")]
    pub object: Option<String>,
    /// Show at most so many entries, the newest ones
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 200)]
    pub limit: usize,
    /// Directory of the log.
    #[command(flatten)]
    pub place: HeadPaths,
}

/// Performs `bulkhead audit`.
pub fn audit(command: &AuditCommand, common: &Common, out: Printer) -> Result<(), Failure> {
    let AuditCommand {
        since,
        user,
        object,
        limit,
        place,
    } = command;
    let commands = pool_access::audit::path(common);
    let wanted = Wanted {
        since_ms: since.map(|seconds| api::now_ms().saturating_sub(seconds.saturating_mul(1000))),
        user: user.clone(),
        object: object.clone(),
    };
    let files = api::audit::files(&place.head_dir, &commands);
    let entries = find(&files, &wanted, *limit).map_err(|error| unreadable(&error))?;
    out.either(&entries, || render(&entries))
}

fn unreadable(error: &FileError) -> Failure {
    match error.cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Failure::from_chain(FailureKind::Denied, error).advise("run the command as root")
        }
        _ => Failure::from_chain(FailureKind::Failed, error),
    }
}

fn render(entries: &[Entry]) -> String {
    if entries.is_empty() {
        return "no entry\n".to_owned();
    }
    let mut table = Table::new(&["TIME (UTC)", "USER", "OUTCOME", "ACTION", "OBJECT"]);
    for entry in entries {
        let outcome = match entry.count {
            Some(more) => format!("{}, {more} more", entry.outcome),
            None => entry.outcome.clone(),
        };
        table.row([
            calendar::utc(entry.at_ms / 1000),
            harmless(&entry.who),
            outcome,
            harmless(&entry.what),
            harmless(&entry.subject()),
        ]);
    }
    table.render()
}
