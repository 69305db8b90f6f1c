//! Requests that survive a restart of the server: a client of a long operation or of
//! events reconnects, up to a time-out.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::Common;
use control::answer::{DeviceView, Done, Event};
use control::operations::PoolSelector;
use control::operations::pool::events::Events;
use control::request::{PoolRequest, Request, ServerRequest};
use control::{Answer, Failure, FailureKind};
use rendering::Printer;
use units::PoolName;

/// Longest time that a server is waited for.
const SERVER_WAIT: Duration = Duration::from_secs(120);
/// Pause between two attempts to reach it.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(250);
/// Pause between two questions for new events.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of printed events that are stored: more than a server sends.
const PRINTED_MAX: usize = 2000;

/// Sends the request. If the server exits before it responds, sends the request to its successor.
/// For idempotent requests.
pub fn ask(
    common: &Common,
    pool: &PoolName,
    request: PoolRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let named = PoolSelector::Pool(pool.clone());
    let request = Request::Pool(request);
    let mut answer = crate::ask(common, &named, request.clone(), progress);
    while let Err(failure) = &answer {
        let may_be_gone = matches!(
            failure.kind,
            FailureKind::Unreachable | FailureKind::Unavailable
        );
        if !may_be_gone || is_alive(common, pool) {
            return answer;
        }
        progress("the server ended: waiting for it, or for its successor here");
        if !is_served_again(common, pool) {
            let failure = failure.clone();
            return Err(failure.advise("run the same command again when the pool is served"));
        }
        answer = crate::ask(common, &named, request.clone(), progress);
    }
    match (answer, request) {
        (Ok(Answer::Done(done)), Request::Pool(PoolRequest::ReplaceDisk(_))) => {
            Ok(Answer::Done(with_change_of_file(common, pool, done)))
        }
        (answer, _) => answer,
    }
}

/// Adds the line of the appliance file that a replaced disk requires. The server may not read that file.
fn with_change_of_file(common: &Common, pool: &PoolName, mut done: Done) -> Done {
    let status = Request::Pool(PoolRequest::Status);
    let Ok(Answer::Pool(status)) = crate::ask_server(common, pool, status) else {
        return done;
    };
    let mut devices = Vec::new();
    add_paths(&status.devices, &mut devices);
    if let Some(change) = crate::managed::outdated_disks(pool, &devices) {
        done.message += &format!(
            "\nThe appliance file names another disk. {change}; then run `bulkhead appliance apply --ssh`"
        );
    }
    done
}

/// The disks of these groups; a name without a path is that of a group.
fn add_paths(devices: &[DeviceView], paths: &mut Vec<PathBuf>) {
    for device in devices {
        if device.members.is_empty() && device.name.starts_with('/') {
            paths.push(PathBuf::from(&device.name));
        }
        add_paths(&device.members, paths);
    }
}

fn is_alive(common: &Common, pool: &PoolName) -> bool {
    let ping = Request::Server(ServerRequest::Ping);
    crate::ask_server(common, pool, ping).is_ok()
}

fn is_served_again(common: &Common, pool: &PoolName) -> bool {
    let deadline = Instant::now() + SERVER_WAIT;
    while Instant::now() < deadline {
        if is_alive(common, pool) {
            return true;
        }
        std::thread::sleep(ATTEMPT_INTERVAL);
    }
    false
}

/// Shows events until interrupted, or until no server of the pool is here for a while.
pub fn follow(common: &Common, pool: &PoolName, out: Printer) -> Result<(), Failure> {
    let mut printed = Printed::default();
    // A server that never existed is not waited for.
    let mut was_served = false;
    loop {
        let request = Request::Pool(Events { after: None }.into());
        match crate::ask_server(common, pool, request) {
            Ok(Answer::Events(events)) => {
                was_served = true;
                for event in events {
                    if printed.is_new(&event) {
                        out.text(&rendering::event_line(&event, common.json))?;
                    }
                }
            }
            Ok(_) => {
                let message = "the server sent an unexpected response";
                return Err(Failure::new(FailureKind::Failed, message));
            }
            Err(failure) => {
                if !was_served || failure.kind != FailureKind::Unreachable {
                    return Err(failure);
                }
                out.progress("the server ended: waiting for it, or for its successor here");
                if !is_served_again(common, pool) {
                    return Err(failure);
                }
            }
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
}

/// The events already printed. A restarted server numbers its events from 1 until it has read the
/// older ones, and one that was killed can reuse a number, so numbers do not identify events.
#[derive(Default)]
struct Printed(VecDeque<Event>);

impl Printed {
    fn is_new(&mut self, event: &Event) -> bool {
        let event = Event {
            number: 0,
            ..event.clone()
        };
        if self.0.contains(&event) {
            return false;
        }
        self.0.push_back(event);
        if self.0.len() > PRINTED_MAX {
            self.0.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_printed_once_regardless_of_number() {
        let event = |number, at_ms| Event {
            number,
            at_ms,
            ..Event::default()
        };
        let mut printed = Printed::default();
        assert!(printed.is_new(&event(1, 5)));
        assert!(!printed.is_new(&event(7, 5)));
        assert!(printed.is_new(&event(1, 6)));
    }
}
