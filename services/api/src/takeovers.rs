//! The last takeover of a pool with its steps: merged from the logs of all heads, once a server has imported the pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::response::Response;
use control::answer::Status;
use serde::Deserialize;
use takeover::timeline::{Step as Mark, TimedStep, account};

use crate::Api;
use crate::backend::Backend;
use crate::peer::Peers;
use crate::view::{HeadView, Step, Takeover};

/// Interval between two reads of the logs while steps may still appear.
const READ_INTERVAL: Duration = Duration::from_secs(3);
/// Time after which no step of a takeover appears any more, in milliseconds.
const COMPLETE_AFTER_MS: u64 = 60_000;

/// The known takeovers, by pool.
#[derive(Default)]
pub(crate) struct Takeovers(BTreeMap<String, KnownTakeover>);

struct KnownTakeover {
    /// The time at which the server imported the pool, in its own report.
    imported_ms: u64,
    found: Option<Takeover>,
    read_at: Instant,
    is_settled: bool,
}

/// The sources of logs.
pub(crate) struct LogSources<'a> {
    pub backend: &'a dyn Backend,
    pub peers: Option<&'a Peers>,
    pub heads: &'a [HeadView],
}

impl LogSources<'_> {
    /// The steps of `pool` from all responding heads.
    fn reported(&self, pool: &str) -> Vec<TimedStep> {
        let mut reported = self.backend.takeover_steps(pool);
        let others = self
            .heads
            .iter()
            .filter(|head| !head.here && head.state == "online");
        for head in others {
            let theirs = self
                .peers
                .and_then(|peers| peers.takeover_steps(&head.name, pool));
            reported.extend(theirs.unwrap_or_default());
        }
        reported
    }
}

impl Takeovers {
    /// Completes `taken`, which is from the pool's events, by the logs.
    pub fn explained(
        &mut self,
        taken: Takeover,
        status: Option<&Arc<Status>>,
        places: &LogSources<'_>,
        now_ms: u64,
    ) -> Takeover {
        let known = self.0.get(&taken.pool);
        let known = known.filter(|known| known.imported_ms == taken.at_ms);
        let is_due =
            |known: &KnownTakeover| !known.is_settled && known.read_at.elapsed() >= READ_INTERVAL;
        if known.is_none_or(is_due) {
            let found = account(places.reported(&taken.pool), &taken.to, taken.at_ms);
            let found = found.map(|account| Takeover {
                kind: account.kind.name().to_owned(),
                from: account.from,
                at_ms: account.began_ms,
                duration_ms: Some(account.duration_ms),
                steps: account
                    .steps
                    .iter()
                    .map(|(step, after_ms)| Step {
                        name: step.name().to_owned(),
                        after_ms: *after_ms,
                    })
                    .collect(),
                ..taken.clone()
            });
            let known = KnownTakeover {
                imported_ms: taken.at_ms,
                found,
                read_at: Instant::now(),
                is_settled: now_ms.saturating_sub(taken.at_ms) > COMPLETE_AFTER_MS,
            };
            self.0.insert(taken.pool.clone(), known);
        }
        let known = self
            .0
            .get(&taken.pool)
            .and_then(|known| known.found.clone());
        match known {
            Some(known) => with_first_io(known, status),
            None => taken,
        }
    }
}

/// The server counts from its own start to its first read: the time at which it listened aligns both reports.
fn with_first_io(mut takeover: Takeover, status: Option<&Arc<Status>>) -> Takeover {
    let server = status.and_then(|status| status.server.as_ref());
    let times =
        server.and_then(|server| Some((server.listening_after_ms?, server.first_read_after_ms?)));
    let listened = takeover
        .steps
        .iter()
        .find(|step| step.name == Mark::Listening.name());
    let (Some((listening_ms, read_ms)), Some(listened)) = (times, listened) else {
        return takeover;
    };
    let after_ms = listened.after_ms + read_ms.saturating_sub(listening_ms);
    takeover.steps.push(Step {
        name: Mark::FirstIo.name().to_owned(),
        after_ms,
    });
    takeover.steps.sort_by_key(|step| step.after_ms);
    takeover
}

/// The pool in another head's query.
#[derive(Deserialize)]
pub(crate) struct About {
    pool: String,
}

/// Returns the steps in this head's logs to another head.
pub(crate) async fn steps(State(api): State<Arc<Api>>, Query(about): Query<About>) -> Response {
    let backend = Arc::clone(&api.backend);
    crate::peer::respond(move || backend.takeover_steps(&about.pool)).await
}

#[cfg(test)]
mod tests {
    use control::answer::ServerStatus;

    use super::*;

    #[test]
    fn first_read_is_dated_by_listen_time() {
        let step = |name: &str, after_ms| Step {
            name: name.to_owned(),
            after_ms,
        };
        let takeover = Takeover {
            steps: vec![step("listening", 630), step("all addresses", 750)],
            ..Takeover::default()
        };
        let status = Status {
            server: Some(ServerStatus {
                listening_after_ms: Some(200),
                first_read_after_ms: Some(290),
                ..ServerStatus::default()
            }),
            ..Status::default()
        };
        let reported = with_first_io(takeover.clone(), Some(&Arc::new(status)));
        assert_eq!(reported.steps[1], step("first I/O", 720));
        assert_eq!(with_first_io(takeover.clone(), None), takeover);
    }
}
