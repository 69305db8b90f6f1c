//! Adds records to the intent log of a file system that another system would have written.

use zpl::objects::{Objects, Step};
use zpl::records::{Bytes, Record, append_setting};
use zpool::files::FileSystem;

/// Adds a record to the log, and changes no data.
pub fn log(opened: &FileSystem, record: &Record<'_>) {
    let (kind, mut body) = record.encode();
    if let Record::Write {
        bytes: Bytes::Here(bytes),
        ..
    } = record
    {
        body.extend_from_slice(bytes);
    }
    if let Record::Create(created) = record {
        if let Some(then) = &created.then {
            append_setting(&mut body, then);
        }
    }
    let step = Step::Log {
        kind,
        body,
        is_new: false,
        generation: 0,
    };
    let logged = opened.objects().change(&[step], false);
    logged.expect("there is room");
}
