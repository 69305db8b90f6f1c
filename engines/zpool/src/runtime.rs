//! The ZFS library, which exists once per process: its tunables, its identity, and its start.
//!
//! The library blocks no signals and survives no fork: [`Engine::start`] starts its threads with
//! all signals blocked except for faults, so that the signal handling of the process is unaffected; the process must
//! not fork afterwards (spawning other processes before the start is fine).

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::OnceLock;
use std::time::Duration;

use units::ByteCount;
use units::HostId;
use zpool_sys as sys;

use crate::device::{self, DeviceOptions};
use crate::error::{EngineError, SystemError};

/// Smallest cache the library accepts.
const ARC_BYTES_MIN: u64 = 64 << 20;
/// The library must be able to hold two of the largest blocks of a transaction.
const DIRTY_BYTES_MIN: u64 = 16 << 20;
/// A longer transaction group delays a start after a crash too much.
const TXG_TIMEOUT_S_MAX: u32 = 60;

/// MMP writes of a pool with `multihost=on` within the silence after which its owner abandons it.
/// Several, so that one slow write does not count.
const SIGNS_OF_LIFE_PER_SILENCE: u32 = 8;
/// The minimum interval of the library is 100 ms.
const MULTIHOST_SILENCE_MIN: Duration = Duration::from_millis(800);
// A head that was stopped for so long that its pool was taken without proof checks the labels
// before it writes.
const _: () = assert!(2 * MULTIHOST_SILENCE_MIN.as_millis() > device::CHECK_GAP_MAX.as_millis());
/// A longer silence would delay an import to more than twice of it.
const MULTIHOST_SILENCE_MAX: Duration = Duration::from_secs(60);

/// Settings of the library. Those that matter, with defaults for a storage server on a shared host;
/// all other settings have the library's defaults.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// This head; see [`HostId`].
    pub host_id: HostId,
    /// Maximum of the ARC. The library's own default, nearly all memory, is intended for a kernel that can shrink the
    /// ARC; a process cannot.
    pub arc_bytes_max: ByteCount,
    /// Maximum of dirty data in memory. Writers are throttled from 60 % of it on. A higher value absorbs longer bursts
    /// and lengthens a restart after a crash.
    pub dirty_bytes_max: ByteCount,
    /// Maximum interval between transaction groups. A shorter one speeds up a restart after a crash
    /// (less log to replay: 0.7 s with 1, 1.4-3.2 s with the library's 5, measured under full
    /// synchronous load), a longer one batches more writes.
    pub txg_timeout_s: u32,
    /// How long the owner of a pool with `multihost=on` may fail to write an MMP uberblock before
    /// it abandons the pool; another head without proof must wait twice to two and a half times as long
    /// before it imports the pool. `None`: the library's own 10 s.
    pub multihost_silence: Option<Duration>,
    /// Store cached blocks in 4 KiB pieces as a kernel would. Off: one piece per block, which saves copies, both for
    /// devices and when a block is lent to a socket.
    pub scatter_buffers: bool,
    /// How devices are accessed, and their time-outs.
    pub devices: DeviceOptions,
    /// Open pools with the library's own walks of all datasets, which need a millisecond per
    /// volume. For comparison: they find the same as the quick ones.
    pub library_walks: bool,
    /// Encrypt by the library's own code, which is slower. For comparison.
    pub library_ciphers: bool,
    /// Check the library's data structures while it runs (its `zfs_flags`). Off: it halves the cost of the checks that
    /// the package was compiled with.
    pub self_checks: bool,
    /// Receives one line with the reason if the library or a fault terminates this process.
    pub crash_reason: Option<BorrowedFd<'static>>,
}

impl EngineOptions {
    /// The defaults: a quarter of the memory, at most 8 GiB, for the cache.
    pub fn new(host_id: HostId) -> Self {
        let memory = memory_bytes();
        Self {
            host_id,
            arc_bytes_max: ByteCount((memory / 4).clamp(ARC_BYTES_MIN, 8 << 30)),
            dirty_bytes_max: ByteCount((memory / 16).clamp(DIRTY_BYTES_MIN, 1 << 30)),
            txg_timeout_s: 2,
            multihost_silence: None,
            scatter_buffers: false,
            devices: DeviceOptions::default(),
            library_walks: false,
            library_ciphers: false,
            self_checks: false,
            crash_reason: None,
        }
    }

    fn check(&self) -> Result<(), EngineError> {
        let refuse = |option, rule| Err(EngineError::Option { option, rule });
        if self.arc_bytes_max.get() < ARC_BYTES_MIN {
            return refuse("arc_bytes_max", "give the cache at least 64M");
        }
        if self.arc_bytes_max.get() >= memory_bytes() {
            return refuse(
                "arc_bytes_max",
                "give the cache less than the machine's memory",
            );
        }
        if self.dirty_bytes_max.get() < DIRTY_BYTES_MIN {
            return refuse("dirty_bytes_max", "allow at least 16M of unwritten data");
        }
        if !(1..=TXG_TIMEOUT_S_MAX).contains(&self.txg_timeout_s) {
            return refuse("txg_timeout_s", "choose 1 to 60 seconds");
        }
        let silences = MULTIHOST_SILENCE_MIN..=MULTIHOST_SILENCE_MAX;
        if self
            .multihost_silence
            .is_some_and(|one| !silences.contains(&one))
        {
            return refuse("multihost_silence", "choose 800 milliseconds to 60 seconds");
        }
        Ok(())
    }

    fn to_raw(&self) -> sys::bh_engine_options {
        /// Every check except those that only print.
        const ALL_CHECKS: u32 = 0x3ffe;
        let signs = self.multihost_silence.map_or((0, 0), signs_of_life);
        sys::bh_engine_options {
            // Without a configured minimum the library uses 1/32 of the memory, and then ignores a
            // lower maximum.
            arc_bytes_min: (self.arc_bytes_max.get() / 4).max(ARC_BYTES_MIN / 2),
            arc_bytes_max: self.arc_bytes_max.get(),
            dirty_bytes_max: self.dirty_bytes_max.get(),
            host_id: self.host_id.0.get(),
            txg_timeout_s: self.txg_timeout_s,
            scatter_buffers: self.scatter_buffers.into(),
            debug_flags: if self.self_checks { ALL_CHECKS } else { 0 },
            debug_messages: self.self_checks.into(),
            library_walks: self.library_walks.into(),
            multihost_interval_ms: signs.0,
            multihost_fail_intervals: signs.1,
            reason_fd: self.crash_reason.map_or(-1, |file| file.as_raw_fd()),
        }
    }
}

/// Milliseconds between two MMP writes, and how many of them fit into `silence`.
fn signs_of_life(silence: Duration) -> (u32, u32) {
    let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    let interval_ms = silence_ms / SIGNS_OF_LIFE_PER_SILENCE;
    (interval_ms, SIGNS_OF_LIFE_PER_SILENCE)
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The C types differ between architectures.
    #[allow(clippy::unnecessary_cast)]
    {
        info.totalram as u64 * u64::from(info.mem_unit)
    }
}

/// The running library.
#[derive(Debug)]
pub struct Engine {
    host_id: HostId,
    /// Whether the first imported pool has confirmed the layout of structures.
    layout: OnceLock<()>,
}

static ENGINE: OnceLock<Engine> = OnceLock::new();
/// Held while the library starts.
static STARTING: Mutex<()> = Mutex::new(());

impl Engine {
    /// Starts the library. Once per process.
    pub fn start(options: EngineOptions) -> Result<&'static Self, EngineError> {
        options.check()?;
        let _starting = STARTING.lock().unwrap_or_else(|e| e.into_inner());
        if ENGINE.get().is_some() {
            return Err(EngineError::AlreadyStarted);
        }
        crate::library::check()?;
        with_signals_blocked(|| {
            device::install(&options.devices).map_err(EngineError::Driver)?;
            let raw = options.to_raw();
            // SAFETY: the options are valid for the call; the lock above guarantees that this is
            // the only call.
            SystemError::check(unsafe { sys::bh_engine_start(&raw) }).map_err(EngineError::Library)
        })??;
        select_checksums();
        if !options.library_ciphers {
            crate::crypto::choose();
        }
        Ok(ENGINE.get_or_init(|| Self {
            host_id: options.host_id,
            layout: OnceLock::new(),
        }))
    }

    /// The host id that this head writes into pools.
    pub fn host_id(&self) -> HostId {
        self.host_id
    }

    /// Bytes in the ARC, and its maximum.
    pub fn cache_bytes(&self) -> (ByteCount, ByteCount) {
        let (mut used, mut max) = (0, 0);
        // SAFETY: the library runs, as `self` shows.
        unsafe { sys::bh_cache_bytes(&mut used, &mut max) };
        (ByteCount(used), ByteCount(max))
    }

    /// Compares the library's structures in the first open pool with the headers of this binary: a
    /// wrong offset would corrupt data silently.
    pub(crate) fn check_layout(&self, pool: &str) -> Result<(), EngineError> {
        if self.layout.get().is_some() {
            return Ok(());
        }
        let name = CString::new(pool).map_err(|_| EngineError::OtherLibrary { what: "name" })?;
        // SAFETY: the library runs; the name is copied.
        match unsafe { sys::bh_layout_check(name.as_ptr()) } {
            0 => {
                let _ = self.layout.set(());
                Ok(())
            }
            _ => Err(EngineError::OtherLibrary {
                what: "layout of structures",
            }),
        }
    }
}

/// Threads inherit the mask of their creator, and none of the library's may run a signal handler of the process, except for its own
/// faults.
fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> Result<T, EngineError> {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};
    let mut signals = SigSet::all();
    // The kernel terminates a thread that has blocked its own fault, without the report of the handler.
    for fault in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGABRT,
    ] {
        signals.remove(fault);
    }
    let before = signals
        .thread_swap_mask(SigmaskHow::SIG_SETMASK)
        .map_err(|e| EngineError::Signals(e.into()))?;
    let result = start();
    before
        .thread_set_mask()
        .map_err(|e| EngineError::Signals(e.into()))?;
    Ok(result)
}

/// The library defaults to generic code for these; the first supported implementation is selected
/// (measured: SHA-256 10x with SHA instructions, BLAKE3 6x with AVX2).
fn select_checksums() {
    const BEST_FIRST: [(&str, &[&str]); 4] = [
        ("sha256", &["shani", "avx2", "avx", "ssse3", "x64"]),
        ("sha512", &["avx2", "avx", "x64"]),
        ("blake3", &["avx512", "avx2", "sse41", "sse2"]),
        (
            "fletcher4",
            &["avx512bw", "avx512f", "avx2", "ssse3", "sse2"],
        ),
    ];
    for (algorithm, implementations) in BEST_FIRST {
        let chosen = implementations.iter().find(|implementation| {
            let [algorithm, implementation] =
                [algorithm, implementation].map(|s| CString::new(s).expect("constants"));
            // SAFETY: the library runs and only compares the names.
            unsafe { sys::bh_checksum_select(algorithm.as_ptr(), implementation.as_ptr()) == 0 }
        });
        tracing::debug!(algorithm, implementation = ?chosen, "checksum code");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_bounds_are_refused_by_name() {
        let mut options = EngineOptions::new(HostId::derive("a", "b"));
        assert!(options.check().is_ok());
        options.txg_timeout_s = 0;
        assert!(matches!(
            options.check(),
            Err(EngineError::Option {
                option: "txg_timeout_s",
                ..
            })
        ));
        let mut options = EngineOptions::new(HostId::derive("a", "b"));
        for (ms, is_good) in [(799, false), (800, true), (60_000, true), (60_001, false)] {
            options.multihost_silence = Some(Duration::from_millis(ms));
            assert_eq!(options.check().is_ok(), is_good, "{ms} ms");
        }
    }

    #[test]
    fn multihost_interval_is_bounded_by_the_library() {
        assert_eq!(signs_of_life(MULTIHOST_SILENCE_MIN), (100, 8));
        assert_eq!(signs_of_life(Duration::from_millis(1_200)), (150, 8));
    }
}
