//! Computes the connection limits from the limits of the system. The storage engine aborts the process when it cannot
//! create a thread, so its share is reserved first.

use std::path::Path;

use rustix::process::{Resource, geteuid, getrlimit, setrlimit};
use serving::ConnectionLimits;

/// Threads that the engine may need: a base, and some per processor.
const ENGINE_THREADS: u64 = 256;
const ENGINE_THREADS_PER_PROCESSOR: u64 = 16;
/// Other threads of this process besides workers and connections: listeners, flushes, the control socket.
const OTHER_THREADS: u64 = 128;
/// Descriptors for disks, the control socket, files.
const OTHER_DESCRIPTORS: u64 = 1024;
/// The socket and the waker of a connection.
const DESCRIPTORS_PER_CONNECTION: u64 = 2;
/// Number of protocol servers, each with its own connections.
const SERVERS: u64 = 2;
/// The minimum in all cases: with fewer connections no client could be served.
const SLOTS_MIN: u64 = 8;

/// The limits of this process; `None` where there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Threads that can still be created.
    pub threads: Option<u64>,
    /// Descriptors.
    pub descriptors: Option<u64>,
    /// Processors.
    pub processors: u64,
}

/// Raises the descriptor limit to the allowed maximum, and returns the connection limits.
pub fn connection_limits(workers: usize) -> ConnectionLimits {
    let headroom = Headroom {
        threads: threads_left(),
        descriptors: raise_descriptors(),
        processors: std::thread::available_parallelism().map_or(1, |many| many.get() as u64),
    };
    let limits = headroom.limits(workers as u64);
    let wanted = ConnectionLimits::default();
    if limits.total_max < wanted.total_max || limits.strangers_max < wanted.strangers_max {
        tracing::warn!(
            threads = headroom.threads,
            descriptors = headroom.descriptors,
            connections = limits.total_max,
            before_login = limits.strangers_max,
            "fewer connections are taken for each protocol than usual ({} and {}), so that the pool has \
             the threads and descriptors that it needs: raise TasksMax= and LimitNOFILE= of the \
             service, or `ulimit -u` and `ulimit -n`",
            wanted.total_max,
            wanted.strangers_max,
        );
    }
    limits
}

impl Headroom {
    /// The limits of one server.
    fn limits(self, workers: u64) -> ConnectionLimits {
        let wanted = ConnectionLimits::default();
        let engine = ENGINE_THREADS + ENGINE_THREADS_PER_PROCESSOR * self.processors;
        let reserved = engine + OTHER_THREADS + SERVERS * workers;
        let threads = self.threads.map(|threads| threads.saturating_sub(reserved));
        let descriptors = self.descriptors.map(|descriptors| {
            descriptors.saturating_sub(OTHER_DESCRIPTORS) / DESCRIPTORS_PER_CONNECTION
        });
        let places = [threads, descriptors].into_iter().flatten().min();
        let places = places.map_or(usize::MAX as u64, |places| places / SERVERS);
        let places = usize::try_from(places.max(SLOTS_MIN)).unwrap_or(usize::MAX);
        if places >= wanted.threads_max() {
            return wanted;
        }
        // The usual ratio: a third of the threads for connections before login, which may use two each.
        let strangers_max = (places / 6).clamp(1, wanted.strangers_max);
        let total_max = (places - 2 * strangers_max).min(wanted.total_max);
        ConnectionLimits {
            total_max,
            per_network_max: wanted.per_network_max.min(total_max),
            strangers_max,
            strangers_per_network_max: strangers_max.div_ceil(2),
        }
    }
}

/// Raises the descriptor limit to its maximum and returns it.
fn raise_descriptors() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let before = limit.current;
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "cannot raise the descriptor limit");
            return before;
        }
    }
    limit.current
}

/// Threads that this process can still create: the minimum over all limits.
fn threads_left() -> Option<u64> {
    let of_user = match geteuid().is_root() {
        // The kernel does not apply the limit to root.
        true => None,
        false => getrlimit(Resource::Nproc).current,
    };
    let of_user = of_user.map(|limit| limit.saturating_sub(threads_of_user()));
    [of_user, threads_left_in_groups()]
        .into_iter()
        .flatten()
        .min()
}

/// Threads of this user, in all visible processes.
fn threads_of_user() -> u64 {
    let uid = rustix::process::getuid().as_raw();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let statuses = processes.filter_map(|entry| {
        let path = entry.ok()?.path().join("status");
        std::fs::read_to_string(path).ok()
    });
    statuses
        .filter_map(|status| threads_if_of(&status, uid))
        .sum()
}

fn threads_if_of(status: &str, uid: u32) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let own: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
    (own == uid).then(|| field("Threads:")?.trim().parse().ok())?
}

/// The smallest remainder over the control groups of this process, up to the root.
fn threads_left_in_groups() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = Path::new("/sys/fs/cgroup");
    let group = root.join(own.trim_start_matches('/'));
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(root));
    let number = |group: &Path, file: &str| -> Option<u64> {
        std::fs::read_to_string(group.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    // "max" is no number.
    let left = groups.filter_map(|group| {
        let limit = number(group, "pids.max")?;
        Some(limit.saturating_sub(number(group, "pids.current").unwrap_or(0)))
    });
    left.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE: Headroom = Headroom {
        threads: Some(16_384),
        descriptors: Some(65_536),
        processors: 64,
    };

    #[test]
    fn packaged_unit_limits_suffice_for_all_connections() {
        assert!(
            include_str!("../../../packaging/systemd/bulkhead-pool@.service")
                .contains("\nTasksMax=16384\nLimitNOFILE=65536\n")
        );
        let limits = AMPLE.limits(512);
        let wanted = ConnectionLimits::default();
        assert_eq!(limits.total_max, wanted.total_max);
        assert_eq!(limits.strangers_max, wanted.strangers_max);
        let unlimited = Headroom {
            threads: None,
            descriptors: None,
            ..AMPLE
        };
        assert_eq!(unlimited.limits(16).total_max, wanted.total_max);
    }

    #[test]
    fn connection_limit_is_what_the_engine_leaves() {
        for threads in [0, 230, 700, 1000, 4000, 9000] {
            for descriptors in [1024, 4096, 65_536] {
                let headroom = Headroom {
                    threads: Some(threads),
                    descriptors: Some(descriptors),
                    processors: 2,
                };
                let limits = headroom.limits(16);
                let used = SERVERS * limits.threads_max() as u64;
                let engine = ENGINE_THREADS + 2 * ENGINE_THREADS_PER_PROCESSOR;
                let least = SERVERS * SLOTS_MIN;
                assert!(
                    used <= least || used + engine <= threads,
                    "{headroom:?} {limits:?}"
                );
                assert!(
                    used <= least
                        || used * DESCRIPTORS_PER_CONNECTION + OTHER_DESCRIPTORS <= descriptors,
                    "{headroom:?} {limits:?}"
                );
                assert!(
                    limits.total_max > 0 && limits.strangers_max > 0,
                    "{limits:?}"
                );
            }
        }
    }

    #[test]
    fn threads_of_a_user_are_read_from_proc_status() {
        let status = "Name:\tx\nUid:\t7\t7\t7\t7\nThreads:\t12\n";
        assert_eq!(threads_if_of(status, 7), Some(12));
        assert_eq!(threads_if_of(status, 8), None);
    }
}
