//! What the service manager is told (sd_notify), and the readiness descriptor of `--ready-fd`.
//! Without a service manager nothing happens.

use std::io::Write;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// Talks to the service manager.
pub struct Notifier {
    watchdog: Option<Duration>,
    last_sign: Instant,
    last_status: String,
}

impl Notifier {
    /// Reads what the manager wants from the environment.
    pub fn from_environment() -> Self {
        let variable = |name| std::env::var(name).ok();
        let (wait_us, pid) = (variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"));
        let wait = watchdog_wait(wait_us.as_deref(), pid.as_deref(), std::process::id());
        Self {
            // Half of what the manager waits for leaves room for a slow machine.
            watchdog: wait.map(|wait| wait / 2),
            last_sign: Instant::now(),
            last_status: String::new(),
        }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(false, states) {
            tracing::debug!(%error, "the service manager was not reached");
        }
    }

    /// The server listens.
    pub fn ready(&mut self, status: &str) {
        self.last_status = status.to_owned();
        self.send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// What the server is doing, if it changed.
    pub fn status(&mut self, status: &str) {
        if self.last_status != status {
            self.last_status = status.to_owned();
            self.send(&[NotifyState::Status(status)]);
        }
    }

    /// The server ends; it needs up to `wait` for that.
    pub fn stopping(&mut self, status: &str, wait: Duration) {
        let extend =
            NotifyState::ExtendTimeoutUsec(wait.as_micros().min(u128::from(u32::MAX)) as u32);
        self.send(&[NotifyState::Stopping, NotifyState::Status(status), extend]);
    }

    /// A sign of life, if one is due.
    pub fn alive(&mut self) {
        let Some(interval) = self.watchdog else {
            return;
        };
        if self.last_sign.elapsed() >= interval.min(Duration::from_secs(1)) {
            self.last_sign = Instant::now();
            self.send(&[NotifyState::Watchdog]);
        }
    }
}

/// How long the manager waits for a sign of life, by the variables of sd_watchdog_enabled(3): a
/// manager need not say whom it means.
fn watchdog_wait(wait_us: Option<&str>, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(own_pid));
    let wait_us = wait_us?.parse().ok().filter(|wait_us| *wait_us > 0);
    wait_us.filter(|_| is_meant).map(Duration::from_micros)
}

/// Said when the server answers.
pub const READY: &str = "READY";

/// Writes a line to the descriptor that `--ready-fd` names. It goes by its path in /proc, which
/// needs no unsafe adoption of a number. Whoever wanted to hear it may be gone: an agent that was killed
/// while it waited, and then the next one finds a pool that is served.
pub fn say(fd: i32, line: &str) -> std::io::Result<()> {
    let path = format!("/proc/self/fd/{fd}");
    let mut file = std::fs::File::options().write(true).open(path)?;
    match file.write_all(format!("{line}\n").as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_are_for_the_process_that_is_meant() {
        let wait = Some(Duration::from_secs(3));
        for (wait_us, pid, expected) in [
            (Some("3000000"), Some("7"), wait),
            (Some("3000000"), None, wait),
            (Some("3000000"), Some("8"), None),
            (Some("3000000"), Some("x"), None),
            (Some("0"), None, None),
            (Some("soon"), None, None),
            (None, Some("7"), None),
        ] {
            assert_eq!(
                watchdog_wait(wait_us, pid, 7),
                expected,
                "{wait_us:?} {pid:?}"
            );
        }
    }
}
