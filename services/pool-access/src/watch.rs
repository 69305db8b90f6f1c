//! Commands that repeat a request: until they are interrupted, which is their usual end and no failure, or for a number
//! of times.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crate::common::Common;
use crate::managed;
use crate::sockets;
use control::operations::Polling;
use control::operations::PoolSelector;
use control::{Answer, Failure, FailureKind, Request};
use output::signals;
use rendering::Printer;
use units::PoolName;

use crate::pools::{self, OtherHeads};
use crate::query_process::{QUERY_WAIT_MAX, QueryProcess};

/// Repeats `request` at the interval `again`, and prints the responses.
pub fn run(
    common: &Common,
    heads: &dyn OtherHeads,
    pool: &PoolSelector,
    request: &Request,
    again: Polling,
    out: Printer,
) -> Result<(), Failure> {
    let pools = pools::pools_of(pool, request);
    let interrupted = signals::catch().map_err(Failure::of("wait for signals"))?;
    let mut before: Vec<Answer> = Vec::new();
    let (mut asked, mut next) = (0, Instant::now());
    let mut was_served = false;
    let progress = &mut |text: &str| out.progress(text);
    loop {
        let answers = match ask(common, heads, pool, request, &mut was_served, progress) {
            Ok(answers) => answers,
            // The process for this query was interrupted with it.
            Err(_) if interrupted.try_recv().is_ok() => return Ok(()),
            // A later failure is reported as a restart of the server.
            Err(failure) if !before.is_empty() && may_pass(&failure) => {
                progress(&format!("no answer: {}", failure.message));
                Vec::new()
            }
            Err(failure) => return Err(failure),
        };
        if !answers.is_empty() {
            let text = rendering::next_sample(&before, &answers, pools, common.json);
            if !out.is_read(&text)? {
                return Ok(());
            }
            before = answers;
        }
        asked += 1;
        if again.count.is_some_and(|count| asked >= count) {
            return Ok(());
        }
        next = (next + again.interval).max(Instant::now());
        let pause = next.saturating_duration_since(Instant::now());
        match interrupted.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn ask(
    common: &Common,
    heads: &dyn OtherHeads,
    pool: &PoolSelector,
    request: &Request,
    was_served: &mut bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Answer>, Failure> {
    match serving(common, pool)? {
        Serving::Somebody => *was_served = true,
        // Opening the pool here would block the server that restarts.
        Serving::Nobody(pool) if *was_served => return Err(crate::no_server(&pool)),
        Serving::Nobody(pool) => {
            let look = QueryProcess::begin(common, &pool, request)?;
            return Ok(vec![look.answer(Instant::now() + QUERY_WAIT_MAX)?]);
        }
        Serving::Unclear => {}
    }
    let asked = pools::ask(common, heads, pool, request.clone(), progress)?;
    match asked.failure {
        None => Ok(asked.answers),
        // Like for a single request: a script must not mistake a part for the whole.
        Some(failure) if common.json || asked.answers.is_empty() => Err(failure),
        Some(failure) => {
            progress(&failure.message);
            Ok(asked.answers)
        }
    }
}

/// The process that holds the pool.
enum Serving {
    /// A server.
    Somebody,
    /// There is no server. A process opens at most one pool, so each refresh needs a new process.
    Nobody(PoolName),
    /// There are several pools, or none, or the cluster manages it. A request without a name handles that.
    Unclear,
}

fn serving(common: &Common, pool: &PoolSelector) -> Result<Serving, Failure> {
    let Ok(pool) = crate::named(common, pool) else {
        return Ok(Serving::Unclear);
    };
    Ok(match sockets::is_served(common, &pool)? {
        true => Serving::Somebody,
        false if managed::disks(&pool).is_some() && !common.maintenance => Serving::Unclear,
        false => Serving::Nobody(pool),
    })
}

fn may_pass(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::Unreachable | FailureKind::Unavailable | FailureKind::Busy
    )
}
