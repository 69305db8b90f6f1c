//! Sends a snapshot: all of it, or the changes since an earlier one.

use std::ffi::{c_int, c_void};
use std::io::Write;

use engine::Opaque;
use engine::capabilities::{Datasets, Sending};
use engine::dataset::{DatasetError, DatasetErrorKind, Snapshots};
use engine::transfer::{
    Base, Bookmark, ResumeToken, SendForm, SendSpec, TransferError, TransferErrorKind,
};
use units::{SnapshotName, VolumeName};
use zpool_sys as sys;

use super::token::Rest;
use super::{FORMAT, error};
use crate::error::SystemError;
use crate::pool::{Pool, c_text};

fn flags(form: SendForm) -> u32 {
    [
        (form.embedded, sys::BH_SEND_EMBEDDED),
        (form.large_blocks, sys::BH_SEND_LARGE_BLOCKS),
        (form.compressed, sys::BH_SEND_COMPRESSED),
        (form.raw, sys::BH_SEND_RAW),
    ]
    .into_iter()
    .filter_map(|(wanted, flag)| wanted.then_some(flag))
    .fold(0, |flags, flag| flags | flag)
}

/// The destination of a send, and its error.
struct Sink<'a> {
    to: &'a mut dyn Write,
    sent: u64,
    failed: Option<std::io::Error>,
}

/// # Safety
/// `arg` is a `&mut Sink` without other users; `data` has `length` bytes.
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

/// A bookmark: name, GUID, transaction group and time of its snapshot.
type Found = (String, u64, u64, u64);

/// # Safety
/// `arg` is a `&mut Vec<Found>` and `name` is NUL-terminated.
unsafe extern "C" fn collect_bookmark(
    arg: *mut c_void,
    name: *const std::ffi::c_char,
    guid: u64,
    creation_txg: u64,
    creation_time_s: u64,
) {
    // SAFETY: promised by the caller.
    let (found, name) = unsafe {
        (
            &mut *arg.cast::<Vec<Found>>(),
            std::ffi::CStr::from_ptr(name),
        )
    };
    let name = name.to_string_lossy().into_owned();
    found.push((name, guid, creation_txg, creation_time_s));
}

impl Sending for Pool {
    fn format(&self) -> &'static str {
        FORMAT
    }

    fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError> {
        let name = spec.snapshot.as_str();
        self.check_own("send", (&spec.snapshot).into())?;
        let (snapshot, from) = (c_text(name), c_text(spec.base_name()));
        let (object, offset) = spec.resume.as_ref().map_or((0, 0), |from| *from.get());
        let mut sink = Sink {
            to,
            sent: 0,
            failed: None,
        };
        // SAFETY: the pool is open; the names are copied; the library calls `take` only on this
        // thread and before it returns, and `sink` has no other user until then.
        let code = unsafe {
            sys::bh_send(
                snapshot.as_ptr(),
                from.as_ptr(),
                flags(spec.form),
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
        SystemError::check(code).map_err(|cause| error::sending(name, cause))?;
        Ok(sink.sent)
    }

    fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError> {
        let name = spec.snapshot.as_str();
        self.check_own("send", (&spec.snapshot).into())?;
        let (snapshot, from) = (c_text(name), c_text(spec.base_name()));
        let mut bytes = 0;
        // SAFETY: the pool is open; the names are copied; `bytes` outlives the call.
        let code = unsafe {
            sys::bh_send_estimate(
                snapshot.as_ptr(),
                from.as_ptr(),
                flags(spec.form),
                &mut bytes,
            )
        };
        SystemError::check(code).map_err(|cause| error::sending(name, cause))?;
        Ok(bytes)
    }

    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError> {
        super::token::parse(text)
    }

    fn resumed_send(&self, token: &ResumeToken) -> Result<SendSpec, TransferError> {
        let gone = || {
            let kind = TransferErrorKind::TokenSnapshotGone;
            TransferError::new("send", &token.to_name, kind)
        };
        let all = self
            .datasets(self.name().into(), Snapshots::Include)
            .map_err(TransferError::dataset)?;
        let by_guid = |guid| all.iter().find(|info| info.snapshot && info.guid == guid);
        let found = by_guid(token.to_guid).ok_or_else(gone)?;
        let snapshot: SnapshotName = found.name.parse().map_err(|_| gone())?;
        let rest = token.detail.get::<Rest>();
        let base = match rest.from_guid {
            0 => None,
            guid => Some(match by_guid(guid) {
                Some(base) => Base::from(&base.name.parse::<SnapshotName>().map_err(|_| gone())?),
                None => self
                    .bookmark_of(&snapshot.volume(), guid)?
                    .ok_or_else(gone)?,
            }),
        };
        Ok(SendSpec {
            snapshot,
            base,
            form: rest.form,
            resume: Some(Opaque::new(rest.from)),
        })
    }

    fn bookmark_of(&self, volume: &VolumeName, guid: u64) -> Result<Option<Base>, TransferError> {
        let bookmarks = self.bookmarks(volume)?;
        let found = bookmarks.into_iter().find(|mark| mark.guid == guid);
        Ok(found.map(|mark| Base::from(&mark)))
    }

    fn bookmarks(&self, volume: &VolumeName) -> Result<Vec<Bookmark>, TransferError> {
        self.check_own("list", volume.into())?;
        let name = c_text(volume.as_str());
        let mut found: Vec<Found> = Vec::new();
        // SAFETY: the pool is open; `found` outlives the call, which is when the visitor runs.
        let code =
            unsafe { sys::bh_bookmarks(name.as_ptr(), collect_bookmark, (&raw mut found).cast()) };
        SystemError::check(code).map_err(|cause| error::sending(volume.as_str(), cause))?;
        found.sort();
        let named = found
            .into_iter()
            .map(|(mark, guid, creation_txg, creation_time_s)| Bookmark {
                name: format!("{volume}#{mark}"),
                guid,
                creation_txg,
                creation_time_s,
            });
        Ok(named.collect())
    }

    fn create_bookmark(&self, snapshot: &SnapshotName, mark: &str) -> Result<(), TransferError> {
        self.check_own("bookmark", snapshot.into())?;
        let volume = snapshot.volume();
        let base = Base::parse(&volume, &format!("#{mark}")).map_err(|_| {
            let kind = DatasetErrorKind::BookmarkName;
            TransferError::new("bookmark", mark, TransferErrorKind::Dataset(kind))
        })?;
        let (mark, of) = (c_text(base.as_str()), c_text(snapshot.as_str()));
        // SAFETY: the pool is open; the names are copied.
        let code = unsafe { sys::bh_bookmark_create(mark.as_ptr(), of.as_ptr()) };
        SystemError::check(code).map_err(|cause| {
            let error = DatasetError::common("bookmark", base.as_str(), cause);
            TransferError::dataset(error)
        })
    }

    fn destroy_bookmark(&self, mark: &Bookmark) -> Result<(), TransferError> {
        let name = c_text(&mark.name);
        // SAFETY: the pool is open; the name is copied.
        let code = unsafe { sys::bh_bookmark_destroy(name.as_ptr()) };
        SystemError::check(code).map_err(|cause| {
            TransferError::dataset(DatasetError::common("destroy", &mark.name, cause))
        })
    }
}
