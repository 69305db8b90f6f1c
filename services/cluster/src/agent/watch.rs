//! Watches a pool's server between Pacemaker's monitors: detects its exit at once, and a missing response after the
//! response time of one monitor. Reports the failure to Pacemaker, which decides. The watch itself decides and stops
//! nothing; without it the next monitor detects the same.

use std::path::Path;
use std::time::{Duration, Instant};

use takeover::budget::WATCH_INTERVAL;
use takeover::timeline::Step;
use units::PoolName;

use super::fences::Fences;
use super::{AgentEnvironment, PoolBackend, STATUS_REQUESTS, ServerProcess, monitor_time_limit};
use crate::process::Invocation;

/// A request that is this late was sent by a head that stalled, and proves nothing about the server.
const LATE: Duration = Duration::from_millis(100);
/// Time limit for the report to Pacemaker.
const REPORT_TIME_LIMIT: Duration = Duration::from_secs(10);

/// The process that watches the server of `pool`, from its record in `run_dir`.
pub(super) fn watcher(run_dir: &Path, pool: &PoolName) -> ServerProcess {
    ServerProcess::noted_in(run_dir.join(format!("{pool}.watch.json")))
}

/// Starts the watch of the server, if there is none.
pub(super) fn ensure(pool: &PoolName, around: &AgentEnvironment<'_>) {
    let mut watcher = watcher(&around.run_dir, pool);
    if watcher.is_alive().unwrap_or(true) {
        return;
    }
    let Some(command) = around.program.watch_command(pool) else {
        return;
    };
    if let Err(error) = watcher.start(command, &[]) {
        tracing::warn!(%pool, %error, "the server is not watched between monitors");
    }
}

/// The observed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The server's process is gone.
    Ended,
    /// It is alive and does not respond.
    Silent,
    /// There is nothing to watch.
    Nothing,
}

/// Watches until a failure is detected, and reports it to Pacemaker.
pub(super) fn watch(pool: &PoolName, around: &AgentEnvironment<'_>) -> Result<(), String> {
    let variable = |name: &str| {
        (around.environment)(name).ok_or_else(|| format!("the environment has no {name}"))
    };
    let resource = variable("OCF_RESOURCE_INSTANCE")?;
    let head = variable("OCF_RESKEY_CRM_meta_on_node")?;
    let patience = monitor_time_limit(around.program.monitor_limit(pool));
    let process = ServerProcess::new(&around.run_dir, pool);
    let mut fences = Fences::default();
    let beside = || fences.look(pool, around.program, around.cluster);
    let seen = poll_server(pool, around.program, &process, patience, beside)?;
    if seen == Seen::Nothing {
        return Ok(());
    }
    around.program.took(&resource, Step::Detected);
    tracing::warn!(%pool, ?seen, "the server failed; reporting it to Pacemaker");
    let words = ["--fail", "--resource", &resource, "--node", &head];
    let report = Invocation::new("crm_resource", &words).within(REPORT_TIME_LIMIT);
    let told = around.machine.run(&report).map_err(|e| e.to_string())?;
    match told.code {
        0 => Ok(()),
        _ => Err(told.complaint()),
    }
}

fn poll_server(
    pool: &PoolName,
    program: &dyn PoolBackend,
    process: &ServerProcess,
    patience: Duration,
    mut beside: impl FnMut(),
) -> Result<Seen, String> {
    if !process.is_alive()? {
        return Ok(Seen::Nothing);
    }
    let mut unanswered = 0;
    loop {
        // A missing response is followed by another request at once.
        let pause = match unanswered {
            0 => WATCH_INTERVAL,
            _ => Duration::ZERO,
        };
        let due = Instant::now() + pause;
        if process.await_end(due)? {
            return Ok(Seen::Ended);
        }
        let was_late = due.elapsed() > LATE;
        let answered = program.status(pool, patience / STATUS_REQUESTS).is_some();
        unanswered = match answered || was_late {
            true => 0,
            false => unanswered + 1,
        };
        if unanswered == 0 {
            beside();
        }
        if unanswered >= STATUS_REQUESTS {
            return Ok(match process.is_alive()? {
                true => Seen::Silent,
                false => Seen::Ended,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::sync::atomic::{AtomicU32, Ordering};

    use takeover::{Grant, Label, Server};

    use super::super::Remains;
    use super::*;

    /// Responds to a number of requests.
    struct Program(AtomicU32);

    impl PoolBackend for Program {
        fn status(&self, _: &PoolName, _: Duration) -> Option<Server> {
            let take = |left: u32| left.checked_sub(1);
            let left = self
                .0
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
            left.is_ok().then_some(Server::Serving)
        }
        fn request_export(&self, _: &PoolName, _: Duration) -> Result<(), String> {
            unreachable!("a watch stops nothing")
        }
        fn disks(&self, _: &PoolName) -> Result<Vec<PathBuf>, String> {
            unreachable!("a watch touches no disk")
        }
        fn await_release(&self, _: &PoolName, _: Remains<'_>) -> Result<(), String> {
            unreachable!("a watch touches no disk")
        }
        fn read_label(&self, _: &PoolName) -> Result<Label, String> {
            unreachable!("a watch touches no disk")
        }
        fn server_command(&self, _: &Grant) -> Result<Command, String> {
            unreachable!("a watch starts nothing")
        }
        fn validate(&self, _: &PoolName) -> Result<(), String> {
            unreachable!("a watch needs no file")
        }
    }

    fn seen(folder: &Path, answers: u32) -> Seen {
        let pool = "tank".parse().expect("a name");
        let process = ServerProcess::new(folder, &pool);
        let program = Program(AtomicU32::new(answers));
        poll_server(&pool, &program, &process, Duration::from_millis(1), || ())
            .expect("the state is determined")
    }

    #[test]
    fn hang_and_exit_are_detected_without_side_effects() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(seen(folder.path(), 0), Seen::Nothing);
        let pool = "tank".parse().expect("a name");
        let mut process = ServerProcess::new(folder.path(), &pool);
        let mut command = Command::new("sleep");
        command.arg("1000");
        process.start(command, &[]).expect("started");
        assert_eq!(seen(folder.path(), 3), Seen::Silent);
        assert!(process.is_alive().expect("known"), "a watch stops nothing");
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| seen(folder.path(), u32::MAX));
            process
                .kill(Instant::now() + Duration::from_secs(30))
                .expect("killed");
            // The watch may have started when there was no process any more.
            let found = watch.join().expect("no panic");
            assert!(matches!(found, Seen::Ended | Seen::Nothing), "{found:?}");
        });
    }
}
