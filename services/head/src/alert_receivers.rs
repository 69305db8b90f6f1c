//! `bulkhead alert`: the receivers of messages about alerts, and tests of them.

use std::process::ExitCode;

use agents::ApplianceFile;
use api::Notifier;
use api::view::{ReceiverTest, ReceiverView, SentMessage};
use clap::{Args, Subcommand};
use control::{Failure, FailureKind, calendar};
use notifications::Service;
use pool_access::common::Common;
use rendering::{Printer, Table, harmless};

/// `alert`
#[derive(Debug, Args)]
pub struct AlertCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: AlertVerb,
    /// The appliance.
    #[command(flatten)]
    pub appliance: ApplianceFile,
}

/// Actions on receivers.
#[derive(Debug, Subcommand)]
pub enum AlertVerb {
    /// Send a test message now, and show whether each receiver accepted it
    #[command(after_help = TEST_EXAMPLES)]
    Test {
        /// The receiver [default: all]
        receiver: Option<String>,
    },
    /// List the receivers, with the last success and the last failure of this head
    #[command(after_help = RECEIVERS_EXAMPLES)]
    Receivers,
    /// Show the last messages that this head has sent, the newest first
    #[command(after_help = HISTORY_EXAMPLES)]
    History {
        /// Show at most so many messages
        #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 20)]
        limit: usize,
    },
}

const TEST_EXAMPLES: &str = "Examples:
  bulkhead alert test
  bulkhead alert test duty

This process sends the message, whether `bulkhead head` runs or not. The exit code is not 0 if a receiver did not
accept it. Run it on each head: another head sends when the first one is gone.";

const RECEIVERS_EXAMPLES: &str = "Examples:
  bulkhead alert receivers
  bulkhead alert receivers --json";

const HISTORY_EXAMPLES: &str = "Examples:
  bulkhead alert history
  bulkhead alert history --limit 3 --json

The history contains the last 100 messages. Test messages of `bulkhead alert test` are not in it.";

/// Performs `bulkhead alert`.
pub fn run(command: &AlertCommand, common: &Common, out: Printer) -> Result<ExitCode, Failure> {
    // A file with a mistake is an error here; a running head continues with its last settings.
    cluster::appliance_file::load(&command.appliance.file)?;
    let service = Service::open(
        engine::host_name(),
        command.appliance.file.clone(),
        &common.settings.state_dir,
    );
    match &command.verb {
        AlertVerb::Test { receiver } => {
            let results = service.test(receiver.as_deref())?;
            out.either(&results, || test_lines(&results))?;
            if results.iter().any(|result| !result.is_delivered) {
                return Ok(ExitCode::from(FailureKind::Failed.exit_code()));
            }
        }
        AlertVerb::Receivers => {
            let receivers = service.receivers();
            out.either(&receivers, || receiver_lines(&receivers))?;
        }
        AlertVerb::History { limit } => {
            let mut messages = service.history();
            messages.truncate(*limit);
            out.either(&messages, || history_lines(&messages))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn test_lines(results: &[ReceiverTest]) -> String {
    let lines = results.iter().map(|result| {
        let outcome = match &result.why {
            None => "accepted the message".to_owned(),
            Some(why) => format!("failed: {}", harmless(why)),
        };
        format!("{}: {outcome}\n", result.receiver)
    });
    lines.collect()
}

fn time(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), |ms| calendar::utc(ms / 1000))
}

fn receiver_lines(receivers: &[ReceiverView]) -> String {
    if receivers.is_empty() {
        return "no receiver: add [alerts.receivers.NAME] to the appliance file\n".to_owned();
    }
    let mut table = Table::new(&["NAME", "KIND", "FROM", "LAST SUCCESS", "LAST FAILURE", "TO"]);
    for one in receivers {
        table.row([
            one.name.clone(),
            one.kind.clone(),
            one.least.clone(),
            time(one.last_success_ms),
            time(one.last_failure_ms),
            harmless(&one.destination),
        ]);
    }
    let failures = receivers.iter().filter_map(|one| {
        let why = one.last_failure.as_ref()?;
        Some(format!("last failure of {}: {}\n", one.name, harmless(why)))
    });
    table.render() + &failures.collect::<String>()
}

fn history_lines(messages: &[SentMessage]) -> String {
    if messages.is_empty() {
        return "no message\n".to_owned();
    }
    let mut table = Table::new(&["TIME (UTC)", "RECEIVER", "SUBJECT"]);
    for one in messages {
        table.row([
            calendar::utc(one.at_ms / 1000),
            one.receiver.clone(),
            harmless(&one.subject),
        ]);
    }
    table.render()
}
