//! Receives a stream as a snapshot of a volume or a file system. Every record is checked before it reaches the library,
//! which trusts streams.

use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use engine::capabilities::{Datasets, Receiving};
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetKind, DatasetRef, Snapshots, Value};
use engine::transfer::{
    Initial, Interrupted, ReceiveSpec, Received, TransferError, TransferErrorKind,
};
use send_stream::{
    Begin, Contents, HeaderKind, Passed, RECORD_BYTES, StreamError, StreamErrorKind,
};
use units::{SnapshotName, VolumeName};
use zpool_sys as sys;

use super::{FORMAT, error, raw_list};
use crate::dataset::property;
use crate::error::SystemError;
use crate::nvlist::{NvList, NvValue};
use crate::pool::{Pool, c_text};

/// Size of the pieces passed to the library.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes queued for the library.
const PIPE_BYTES: usize = 1 << 20;
/// Room for a token.
const TOKEN_BYTES: usize = 8192;
/// Most snapshots in one package.
const PACKAGE_SNAPSHOTS_MAX: usize = 10_000;
/// Words of the first record: the library requires alignment.
const RECORD_WORDS: usize = RECORD_BYTES / 8;

impl Pool {
    /// A package of `zfs send -p` or `-R`: a list, then the streams of one volume or file system.
    fn receive_package(
        &self,
        spec: &ReceiveSpec,
        package: &Begin,
        initial: Initial<'_>,
        source: &mut dyn Read,
    ) -> Result<Received, TransferError> {
        let refuse = |kind| in_stream(spec, stream_error(kind));
        let list = NvList::unpack(&package.payload)
            .ok_or_else(|| refuse(StreamErrorKind::Malformed("its list cannot be read")))?;
        let mut received = Received {
            bytes: (2 * RECORD_BYTES + package.payload.len()) as u64,
            properties: user_properties(&list),
            ..Received::default()
        };
        let next = |source: &mut dyn Read| Begin::next(source).map_err(|e| in_stream(spec, e));
        if next(source)?.is_some() {
            return Err(refuse(StreamErrorKind::Malformed("its list has no end")));
        }
        let mut dataset: Option<String> = None;
        while let Some(begin) = next(source)? {
            let of = begin.to_name.split('@').next().unwrap_or_default();
            if dataset.get_or_insert_with(|| of.to_owned()) != of {
                let what = "holds several volumes or file systems";
                return Err(refuse(StreamErrorKind::Unsupported(what)));
            }
            if received.snapshots.len() == PACKAGE_SNAPSHOTS_MAX {
                return Err(refuse(StreamErrorKind::Unsupported(
                    "has too many snapshots",
                )));
            }
            let one = ReceiveSpec {
                tag: spec.tag.clone().filter(|_| received.snapshots.is_empty()),
                ..spec.clone()
            };
            let initial = initial(kind_of(begin.contents), &received.properties);
            let (snapshot, passed) = self.receive_one(&one, &begin, &initial, source)?;
            received.snapshots.push(snapshot);
            received.bytes += size_of_stream(&begin, passed);
        }
        Ok(received)
    }

    fn receive_one(
        &self,
        spec: &ReceiveSpec,
        begin: &Begin,
        initial: &[(String, Value)],
        source: &mut dyn Read,
    ) -> Result<(SnapshotName, Passed), TransferError> {
        if spec.only_volumes && begin.contents == Contents::FileSystem {
            let of = spec.volume.as_str();
            return Err(TransferError::new(
                "receive",
                of,
                TransferErrorKind::OfFiles,
            ));
        }
        raw_list::check(begin).map_err(|kind| in_stream(spec, stream_error(kind)))?;
        let properties = property::to_list("receive", spec.volume.as_str(), initial)
            .map_err(TransferError::dataset)?;
        let tag = spec.tag.as_deref().or(begin.tag()).unwrap_or_default();
        let snapshot: SnapshotName = format!("{}@{tag}", spec.volume).parse().map_err(|_| {
            let kind = TransferErrorKind::SnapshotName(tag.to_owned());
            TransferError::new("receive", spec.volume.as_str(), kind)
        })?;
        let origin = self.origin_of(spec, begin)?;
        let flags = [
            (spec.force, sys::BH_RECEIVE_FORCE),
            (spec.resumable, sys::BH_RECEIVE_RESUMABLE),
        ];
        let flags = flags.iter().filter(|(wanted, _)| *wanted);
        let flags = flags.fold(0, |all, (_, flag)| all | flag);
        let system = |error: std::io::Error| TransferError {
            cause: Some(Box::new(error)),
            ..TransferError::new("receive", spec.volume.as_str(), TransferErrorKind::Library)
        };
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| system(errno.into()))?;
        // Smaller ones work as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, PIPE_BYTES);
        let (code, passed) = std::thread::scope(|scope| {
            let library = std::thread::Builder::new()
                .name("receive".into())
                .spawn_scoped(scope, || {
                    hand_over(
                        &snapshot,
                        origin.as_deref(),
                        begin,
                        flags,
                        &properties,
                        from,
                    )
                })
                .map_err(system)?;
            let passed = pass(begin, source, to);
            let code = library.join().expect("the library does not unwind");
            Ok::<_, TransferError>((code, passed))
        })?;
        match (code, passed) {
            (0, Ok(passed)) => Ok((snapshot, passed)),
            // The library stopped reading, and its error is the cause.
            (code, Err(error)) if code == 0 || error.kind != StreamErrorKind::Write => {
                Err(in_stream(spec, error))
            }
            (code, _) => {
                let is_incremental = begin.from_guid != 0;
                let volume = spec.volume.as_str();
                let cause = SystemError(code);
                Err(error::receiving(volume, is_incremental, cause))
            }
        }
    }

    /// The origin snapshot of a clone's stream.
    fn origin_of(
        &self,
        spec: &ReceiveSpec,
        begin: &Begin,
    ) -> Result<Option<String>, TransferError> {
        if !begin.is_clone || begin.features.resuming() {
            return Ok(None);
        }
        let all = self
            .datasets(self.name().into(), Snapshots::Include)
            .map_err(TransferError::dataset)?;
        let origin = all
            .into_iter()
            .find(|info| info.snapshot && info.guid == begin.from_guid);
        match origin {
            Some(info) => Ok(Some(info.name)),
            None => {
                let volume = spec.volume.as_str();
                Err(TransferError::new(
                    "receive",
                    volume,
                    TransferErrorKind::NoBase,
                ))
            }
        }
    }

    pub(super) fn check_own(
        &self,
        doing: &'static str,
        dataset: DatasetRef<'_>,
    ) -> Result<(), TransferError> {
        if dataset.pool() == self.name().as_str() {
            return Ok(());
        }
        let kind = TransferErrorKind::Dataset(DatasetErrorKind::OtherPool);
        Err(TransferError::new(doing, dataset.as_str(), kind))
    }
}

impl Receiving for Pool {
    fn formats(&self) -> &'static [&'static str] {
        &[FORMAT]
    }

    fn receive(
        &self,
        spec: &ReceiveSpec,
        initial: Initial<'_>,
        source: &mut dyn Read,
    ) -> Result<Received, TransferError> {
        self.check_own("receive", (&spec.volume).into())?;
        let begin = Begin::read(source).map_err(|error| in_stream(spec, error))?;
        match begin.header {
            HeaderKind::Snapshot => {
                let initial = initial(kind_of(begin.contents), &[]);
                let (snapshot, passed) = self.receive_one(spec, &begin, &initial, source)?;
                Ok(Received {
                    snapshots: vec![snapshot],
                    bytes: size_of_stream(&begin, passed),
                    properties: Vec::new(),
                })
            }
            HeaderKind::Package => self.receive_package(spec, &begin, initial, source),
        }
    }

    fn interrupted(&self, volume: &VolumeName) -> Result<Option<Interrupted>, TransferError> {
        self.check_own("look at", volume.into())?;
        let name = c_text(volume.as_str());
        let mut token = [0 as std::ffi::c_char; TOKEN_BYTES];
        let mut is_partial = 0;
        // SAFETY: the pool is open; the name is copied; `token` has the stated room.
        let code = unsafe {
            sys::bh_receive_token(
                name.as_ptr(),
                token.as_mut_ptr(),
                token.len() as u64,
                &mut is_partial,
            )
        };
        match SystemError::check(code) {
            Err(cause) if cause.is(rustix::io::Errno::NOENT) => return Ok(None),
            Err(cause) => {
                let error = DatasetError::common("look at", volume.as_str(), cause);
                return Err(TransferError::dataset(error));
            }
            Ok(()) => {}
        }
        // SAFETY: the shim leaves NUL-terminated text in it.
        let token = unsafe { std::ffi::CStr::from_ptr(token.as_ptr()) };
        let token = token.to_string_lossy().into_owned();
        let found = Interrupted {
            token: (!token.is_empty()).then_some(token),
            is_partial: is_partial != 0,
        };
        Ok((found.is_partial || found.token.is_some()).then_some(found))
    }

    fn abort_receive(&self, volume: &VolumeName) -> Result<(), TransferError> {
        self.check_own("abort the receive of", volume.into())?;
        let name = c_text(volume.as_str());
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_receive_abort(name.as_ptr()) };
        SystemError::check(code).map_err(|cause| {
            const DOING: &str = "abort the receive of";
            if cause.is(rustix::io::Errno::NOENT) {
                let kind = TransferErrorKind::NothingPartial;
                return TransferError::new(DOING, volume.as_str(), kind);
            }
            TransferError::dataset(DatasetError::common(DOING, volume.as_str(), cause))
        })
    }
}

fn kind_of(contents: Contents) -> DatasetKind {
    match contents {
        Contents::Volume => DatasetKind::Volume,
        Contents::FileSystem => DatasetKind::Filesystem,
    }
}

fn stream_error(kind: StreamErrorKind) -> StreamError {
    StreamError {
        kind,
        offset: 0,
        cause: None,
    }
}

fn in_stream(spec: &ReceiveSpec, error: StreamError) -> TransferError {
    TransferError {
        cause: error.cause.map(|cause| Box::new(cause) as Box<_>),
        ..TransferError::new(
            "receive",
            spec.volume.as_str(),
            error::of_stream(error.kind),
        )
    }
}

fn size_of_stream(begin: &Begin, passed: Passed) -> u64 {
    passed.bytes + (RECORD_BYTES + begin.payload.len()) as u64
}

/// The library's part: reads the passed records up to their end.
fn hand_over(
    snapshot: &SnapshotName,
    origin: Option<&str>,
    begin: &Begin,
    flags: u32,
    properties: &NvList,
    from: OwnedFd,
) -> i32 {
    let volume = c_text(snapshot.volume().as_str());
    let tag = c_text(snapshot.tag());
    let origin = c_text(origin.unwrap_or_default());
    let mut record = [0_u64; RECORD_WORDS];
    for (word, bytes) in record.iter_mut().zip(begin.bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    }
    // SAFETY: the pool is open for as long as its borrower joins this thread; names are copied or outlive the call,
    // as the list does; `record` has the length of a record; `from` stays open until the end.
    unsafe {
        sys::bh_receive(
            volume.as_ptr(),
            tag.as_ptr(),
            origin.as_ptr(),
            record.as_mut_ptr().cast(),
            flags,
            properties.as_raw(),
            from.as_raw_fd(),
        )
    }
}

/// The part that runs here. The closed pipe signals the end of the stream to the library.
fn pass(begin: &Begin, source: &mut dyn Read, to: OwnedFd) -> Result<Passed, StreamError> {
    let mut sink = BufWriter::with_capacity(BUFFER_BYTES, File::from(to));
    let write = |cause| StreamError {
        cause: Some(cause),
        ..stream_error(StreamErrorKind::Write)
    };
    std::io::Write::write_all(&mut sink, &begin.payload).map_err(write)?;
    send_stream::pass(begin, source, &mut sink)
}

/// User properties of the first volume in a package's list.
fn user_properties(list: &NvList) -> Vec<(String, String)> {
    let Some(volumes) = list.view().list("fss") else {
        return Vec::new();
    };
    let first = volumes.entries().into_iter().find_map(|(_, value)| {
        let NvValue::List(volume) = value else {
            return None;
        };
        volume.list("props")
    });
    let entries = first.map(|properties| properties.entries());
    let text = |(name, value): (String, NvValue<'_>)| match value {
        NvValue::List(property) if name.contains(':') => Some((name, property.text("value")?)),
        _ => None,
    };
    entries.into_iter().flatten().filter_map(text).collect()
}
