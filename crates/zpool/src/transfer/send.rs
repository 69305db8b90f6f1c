//! Sending a snapshot: all of it, or what changed since an earlier one.

use std::ffi::{c_int, c_void};
use std::io::Write;

use units::{NameError, SnapshotName, VolumeName};
use zpool_sys as sys;

use super::error::{TransferError, TransferErrorKind};
use super::token::ResumeToken;
use crate::dataset::Snapshots;
use crate::error::ZfsError;
use crate::pool::{Pool, c_text};

/// How blocks travel. Every OpenZFS since 0.8 takes all of it, if its pool has the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendForm {
    /// Tiny blocks travel inside their records.
    pub embedded: bool,
    /// Blocks of more than 128K are not split.
    pub large_blocks: bool,
    /// Blocks stay compressed as they are stored.
    pub compressed: bool,
    /// Blocks of an encrypted volume stay encrypted: the receiver needs no key.
    pub raw: bool,
}

impl Default for SendForm {
    /// As stored, but readable: compressed blocks stay so.
    fn default() -> Self {
        Self {
            embedded: false,
            large_blocks: true,
            compressed: true,
            raw: false,
        }
    }
}

impl SendForm {
    /// Blocks exactly as stored.
    pub const RAW: Self = Self {
        embedded: true,
        large_blocks: true,
        compressed: true,
        raw: true,
    };

    fn flags(self) -> u32 {
        [
            (self.embedded, sys::BH_SEND_EMBEDDED),
            (self.large_blocks, sys::BH_SEND_LARGE_BLOCKS),
            (self.compressed, sys::BH_SEND_COMPRESSED),
            (self.raw, sys::BH_SEND_RAW),
        ]
        .into_iter()
        .filter_map(|(wanted, flag)| wanted.then_some(flag))
        .fold(0, |flags, flag| flags | flag)
    }
}

/// What a send is relative to: an earlier snapshot, or the bookmark that one left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base(String);

impl Base {
    /// Understands `@TAG`, `#MARK`, or a full name of either.
    pub fn parse(volume: &VolumeName, text: &str) -> Result<Self, NameError> {
        let full = match text.starts_with(['@', '#']) {
            true => format!("{volume}{text}"),
            false => text.to_owned(),
        };
        // A bookmark's name follows the same rules.
        full.replacen('#', "@", 1).parse::<SnapshotName>()?;
        Ok(Self(full))
    }

    /// The full name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&SnapshotName> for Base {
    fn from(name: &SnapshotName) -> Self {
        Self(name.as_str().to_owned())
    }
}

/// What to send.
#[derive(Clone, Debug)]
pub struct SendSpec {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// What the receiver has already.
    pub base: Option<Base>,
    /// How blocks travel.
    pub form: SendForm,
    /// Where to go on: the last object that arrived, and the offset in it.
    pub resume: Option<(u64, u64)>,
}

impl SendSpec {
    /// All of `snapshot`.
    pub fn full(snapshot: SnapshotName) -> Self {
        Self {
            snapshot,
            base: None,
            form: SendForm::default(),
            resume: None,
        }
    }

    fn base_name(&self) -> &str {
        self.base.as_ref().map_or("", Base::as_str)
    }
}

/// A bookmark: what is left of a snapshot to send from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Full name, `POOL/NAME#MARK`.
    pub name: String,
    /// GUID of the snapshot it was made of.
    pub guid: u64,
    /// The transaction group that snapshot was made in.
    pub creation_txg: u64,
}

impl Bookmark {
    /// What follows the `#`.
    pub fn tag(&self) -> &str {
        self.name.split_once('#').map_or("", |(_, tag)| tag)
    }
}

/// Where the bytes of a send go, and what came of it.
struct Sink<'a> {
    to: &'a mut dyn Write,
    sent: u64,
    failed: Option<std::io::Error>,
}

/// # Safety
/// `arg` is a `&mut Sink` that nobody else uses; `data` has `length` bytes.
unsafe extern "C" fn take(arg: *mut c_void, data: *const c_void, length: u64) -> c_int {
    // SAFETY: promised by the caller.
    let (sink, data) = unsafe {
        (
            &mut *arg.cast::<Sink<'_>>(),
            std::slice::from_raw_parts(data.cast::<u8>(), length as usize),
        )
    };
    match sink.to.write_all(data) {
        Ok(()) => {
            sink.sent += length;
            0
        }
        Err(error) => {
            sink.failed = Some(error);
            rustix::io::Errno::PIPE.raw_os_error()
        }
    }
}

/// # Safety
/// `arg` is a `&mut Vec<(String, u64, u64)>` and `name` is NUL-terminated.
unsafe extern "C" fn collect_bookmark(
    arg: *mut c_void,
    name: *const std::ffi::c_char,
    guid: u64,
    creation_txg: u64,
) {
    // SAFETY: promised by the caller.
    let (found, name) = unsafe {
        (
            &mut *arg.cast::<Vec<(String, u64, u64)>>(),
            std::ffi::CStr::from_ptr(name),
        )
    };
    found.push((name.to_string_lossy().into_owned(), guid, creation_txg));
}

impl Pool {
    /// Writes the stream of `spec` to `to`; bytes written. Writes to the volume go on meanwhile;
    /// the snapshot cannot be destroyed. An error of `to` ends the send at once.
    pub fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError> {
        let name = spec.snapshot.as_str();
        self.check_own("send", (&spec.snapshot).into())?;
        let (snapshot, from) = (c_text(name), c_text(spec.base_name()));
        let (object, offset) = spec.resume.unwrap_or((0, 0));
        let mut sink = Sink {
            to,
            sent: 0,
            failed: None,
        };
        // SAFETY: the pool is open; the names are copied; the library calls `take` on this thread
        // only and until it returns, and `sink` is not used meanwhile.
        let code = unsafe {
            sys::bh_send(
                snapshot.as_ptr(),
                from.as_ptr(),
                spec.form.flags(),
                object,
                offset,
                take,
                (&raw mut sink).cast(),
            )
        };
        if let Some(error) = sink.failed {
            return Err(TransferError {
                cause: Some(Box::new(error)),
                ..TransferError::new("send", name, TransferErrorKind::Sink)
            });
        }
        ZfsError::check(code).map_err(|cause| TransferError::sending(name, cause))?;
        Ok(sink.sent)
    }

    /// About how many bytes the whole stream of `spec` has, resumed or not.
    pub fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError> {
        let name = spec.snapshot.as_str();
        self.check_own("send", (&spec.snapshot).into())?;
        let (snapshot, from) = (c_text(name), c_text(spec.base_name()));
        let mut bytes = 0;
        // SAFETY: the pool is open; the names are copied; `bytes` outlives the call.
        let code = unsafe {
            sys::bh_send_estimate(
                snapshot.as_ptr(),
                from.as_ptr(),
                spec.form.flags(),
                &mut bytes,
            )
        };
        ZfsError::check(code).map_err(|cause| TransferError::sending(name, cause))?;
        Ok(bytes)
    }

    /// The send that goes on where `token` says. The snapshot and its base are found by GUID, in
    /// the volume whose name the token has, or else in all of the pool.
    pub fn resumed_send(&self, token: &ResumeToken) -> Result<SendSpec, TransferError> {
        let gone = || {
            let kind = TransferErrorKind::TokenSnapshotGone;
            TransferError::new("send", &token.to_name, kind)
        };
        let all = self
            .datasets(self.name(), Snapshots::Include)
            .map_err(TransferError::dataset)?;
        let by_guid = |guid| all.iter().find(|info| info.snapshot && info.guid == guid);
        let found = by_guid(token.to_guid).ok_or_else(gone)?;
        let snapshot: SnapshotName = found.name.parse().map_err(|_| gone())?;
        let base = match token.from_guid {
            0 => None,
            guid => Some(match by_guid(guid) {
                Some(base) => Base(base.name.clone()),
                None => self
                    .bookmark_of(&snapshot.volume(), guid)?
                    .ok_or_else(gone)?,
            }),
        };
        Ok(SendSpec {
            snapshot,
            base,
            form: token.form,
            resume: Some((token.object, token.offset)),
        })
    }

    /// The bookmark of `volume` that the snapshot of this GUID left.
    pub fn bookmark_of(
        &self,
        volume: &VolumeName,
        guid: u64,
    ) -> Result<Option<Base>, TransferError> {
        let bookmarks = self.bookmarks(volume)?;
        let found = bookmarks.into_iter().find(|mark| mark.guid == guid);
        Ok(found.map(|mark| Base(mark.name)))
    }

    /// The bookmarks of `volume`, in order of their names.
    pub fn bookmarks(&self, volume: &VolumeName) -> Result<Vec<Bookmark>, TransferError> {
        self.check_own("list", volume.into())?;
        let name = c_text(volume.as_str());
        let mut found: Vec<(String, u64, u64)> = Vec::new();
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code =
            unsafe { sys::bh_bookmarks(name.as_ptr(), collect_bookmark, (&raw mut found).cast()) };
        ZfsError::check(code).map_err(|cause| TransferError::sending(volume.as_str(), cause))?;
        found.sort();
        let named = found
            .into_iter()
            .map(|(mark, guid, creation_txg)| Bookmark {
                name: format!("{volume}#{mark}"),
                guid,
                creation_txg,
            });
        Ok(named.collect())
    }

    /// Keeps `mark` of `snapshot`, so that sends can begin at it after it is destroyed. A bookmark
    /// takes no space.
    pub fn create_bookmark(
        &self,
        snapshot: &SnapshotName,
        mark: &str,
    ) -> Result<(), TransferError> {
        self.check_own("bookmark", snapshot.into())?;
        let volume = snapshot.volume();
        let base = Base::parse(&volume, &format!("#{mark}")).map_err(|_| {
            let kind = crate::DatasetErrorKind::BookmarkName;
            TransferError::new("bookmark", mark, TransferErrorKind::Dataset(kind))
        })?;
        let (mark, of) = (c_text(base.as_str()), c_text(snapshot.as_str()));
        // SAFETY: the pool is open; the names are copied.
        let code = unsafe { sys::bh_bookmark_create(mark.as_ptr(), of.as_ptr()) };
        ZfsError::check(code).map_err(|cause| {
            let error = crate::DatasetError::common("bookmark", base.as_str(), cause);
            TransferError::dataset(error)
        })
    }

    /// Destroys a bookmark.
    pub fn destroy_bookmark(&self, mark: &Bookmark) -> Result<(), TransferError> {
        let name = c_text(&mark.name);
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_bookmark_destroy(name.as_ptr()) };
        ZfsError::check(code).map_err(|cause| {
            TransferError::dataset(crate::DatasetError::common("destroy", &mark.name, cause))
        })
    }
}
