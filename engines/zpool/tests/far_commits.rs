//! A commit of the intent log on a mirror with a device of another host: the committing thread sends the block there,
//! writes to its own device, and receives the reply.

mod volume_support;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block_device::{BlockDevice, WaitMode};
use engine::Volume as _;
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, volume_name};
use zpool::device::{
    Access, CompletionThread, Device, DeviceIo, Driver, IoKind, OpenFailure, Reception, Shape,
    Wrap, await_here,
};
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const FAR: &str = "disk1";
const COMMITS: usize = 100;
/// Time limit for the commits.
const WAIT: Duration = Duration::from_secs(60);

/// When the reply of the far device arrives.
#[derive(Default)]
struct Replies {
    /// Before the committing thread is ready to receive it: another thread completes the write.
    is_early: AtomicBool,
    /// Replies that the committing thread received.
    received: AtomicUsize,
    /// Replies that it left to others.
    left: AtomicUsize,
    /// Writes to the near device that began before the reply was awaited.
    near_before: AtomicUsize,
    /// Durable writes to the near device.
    near: AtomicUsize,
}

struct FarDriver {
    inner: Arc<dyn Driver>,
    replies: Arc<Replies>,
}

impl Driver for FarDriver {
    fn open(&self, path: &Path, guid: u64, access: Access) -> Result<Arc<dyn Device>, OpenFailure> {
        Ok(Arc::new(MirrorDevice {
            inner: self.inner.open(path, guid, access)?,
            is_far: path.ends_with(FAR),
            replies: Arc::clone(&self.replies),
        }))
    }
}

/// A file; the far one stores a write when its reply is received. A flush has nothing to do.
struct MirrorDevice {
    inner: Arc<dyn Device>,
    is_far: bool,
    replies: Arc<Replies>,
}

impl Device for MirrorDevice {
    fn shape(&self) -> Result<Shape, OpenFailure> {
        let shape = self.inner.shape()?;
        Ok(Shape {
            far: self.is_far,
            ..shape
        })
    }

    fn submit(&self, io: DeviceIo) {
        if io.kind() == IoKind::Flush {
            return io.complete(Ok(()), CompletionThread::Here);
        }
        if !io.is_awaited() {
            if !self.is_far && io.is_flushed_next() {
                self.replies.near.fetch_add(1, Ordering::SeqCst);
            }
            return self.inner.submit(io);
        }
        assert!(self.is_far);
        let near = self.replies.near.load(Ordering::SeqCst);
        self.replies.near_before.store(near, Ordering::SeqCst);
        await_here(Box::new(Reply {
            inner: Arc::clone(&self.inner),
            replies: Arc::clone(&self.replies),
            io: Mutex::new(Some(io)),
        }));
    }
}

struct Reply {
    inner: Arc<dyn Device>,
    replies: Arc<Replies>,
    io: Mutex<Option<DeviceIo>>,
}

impl Reply {
    fn complete(&self) {
        let io = self.io.lock().unwrap().take();
        if let Some(io) = io {
            self.inner.submit(io);
        }
    }
}

impl Reception for Reply {
    fn receive(&self) -> bool {
        let near = self.replies.near.load(Ordering::SeqCst);
        assert!(
            near > self.replies.near_before.load(Ordering::SeqCst),
            "the own device first"
        );
        match self.replies.is_early.load(Ordering::SeqCst) {
            // The commit is complete, and its waiting threads have been notified, when this returns.
            true => std::thread::scope(|scope| {
                scope.spawn(|| self.complete());
            }),
            false => self.complete(),
        }
        self.replies.received.fetch_add(1, Ordering::SeqCst);
        false
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.io.lock().unwrap().is_some() {
            self.replies.left.fetch_add(1, Ordering::SeqCst);
            self.complete();
        }
    }
}

fn commit(volume: &Volume, commits: usize) {
    for number in 0..commits {
        let offset = (number * 4096) as u64;
        let written = volume.write(offset, &[number as u8; 4096], WaitMode::MayBlock);
        written.expect("write");
        volume.flush().expect("flush");
    }
}

/// The notification of the commit arrives between the last reply and the wait of the committing thread: it must not be
/// missed.
#[test]
fn a_committing_thread_receives_its_replies_and_misses_no_notification() {
    let dir = tempfile::tempdir().expect("temporary dir");
    let devices: Vec<PathBuf> = disk_files(dir.path(), 2, 256 << 20);
    let replies = Arc::<Replies>::default();
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    let counted = Arc::clone(&replies);
    let wrap: Wrap = Arc::new(move |inner| {
        let replies = Arc::clone(&counted);
        Arc::new(FarDriver { inner, replies })
    });
    options.devices.wrap = Some(wrap);
    let engine = Engine::start(options).expect("the engine starts");
    let name = "tank".parse().expect("a pool name");
    let pool = Pool::create(engine, &PoolSpec::new(name, GroupKind::Mirror, devices));
    let pool = pool.expect("the pool is created");
    let name = volume_name("tank/volume");
    let spec = VolumeSpec::sparse(name.clone(), ByteCount::mib(16));
    pool.create_volume(&spec).expect("the volume is created");
    let volume = pool.open_volume(&name, OpenOptions::default());
    let volume = volume.expect("the volume opens");
    commit(&volume, 1);
    for is_early in [false, true] {
        replies.is_early.store(is_early, Ordering::SeqCst);
        let before = replies.received.load(Ordering::SeqCst);
        let (ended, end) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                commit(&volume, COMMITS);
                let _ = ended.send(());
            });
            if end.recv_timeout(WAIT) == Err(RecvTimeoutError::Timeout) {
                // The thread cannot be joined. Test output is shown on demand.
                #[allow(clippy::print_stderr)]
                {
                    eprintln!("a commit does not end, early replies: {is_early}");
                }
                std::process::abort();
            }
        });
        let received = replies.received.load(Ordering::SeqCst) - before;
        let left = replies.left.load(Ordering::SeqCst);
        // A few may meet a transaction group that is being synced.
        assert!(
            received >= COMMITS / 2,
            "{received} of {COMMITS}, {left} left"
        );
    }
    volume.close();
    pool.export().map_err(|(_, error)| error).expect("export");
}
