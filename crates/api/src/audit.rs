//! What was changed, by whom and from where: lines of JSON in a file that only its owner may read.
//! What a request carries is not written, so no secret can be.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A longer file is put aside; the one that was aside before is gone.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// How much of the end is read to show entries, in bytes.
const SHOWN_BYTES_MAX: u64 = 1 << 20;
/// Most entries that are shown.
pub const ENTRIES_MAX: usize = 1000;

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The user, or the name that a login was tried with.
    pub who: String,
    /// What they might do.
    pub role: Option<String>,
    /// The address they came from.
    pub from: String,
    /// What: a verb such as `volume.create`, or a method and a path.
    pub what: String,
    /// On what: the path of the resource.
    pub target: String,
    /// `done`, or the kind of the failure.
    pub outcome: String,
    /// The HTTP status.
    pub code: u16,
}

/// The log.
pub struct Audit {
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl Audit {
    /// A log at `path`, opened by the first entry.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: Mutex::new(None),
        }
    }

    /// Writes an entry. What cannot be written goes to the program's log.
    pub fn write(&self, entry: &Entry) {
        let mut line = serde_json::to_vec(entry).expect("an entry is JSON");
        line.push(b'\n');
        let mut file = self.file.lock().expect("no holder panics");
        if let Err(error) = self.append(&mut file, &line) {
            *file = None;
            tracing::error!(%error, path = %self.path.display(), who = entry.who, what = entry.what,
                target = entry.target, outcome = entry.outcome, "the audit log cannot be written");
        }
    }

    fn append(&self, slot: &mut Option<File>, line: &[u8]) -> io::Result<()> {
        if let Some(file) = slot.as_ref() {
            if file.metadata()?.len() > FILE_BYTES_MAX {
                std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
                *slot = None;
            }
        }
        if slot.is_none() {
            if let Some(folder) = self.path.parent() {
                crate::accounts::make_private_folder(folder)?;
            }
            *slot = Some(crate::accounts::append_private(&self.path)?);
        }
        match slot {
            Some(file) => file.write_all(line),
            None => Ok(()),
        }
    }

    /// The newest entries, the newest first.
    pub fn newest(&self, count: usize) -> io::Result<Vec<Entry>> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let entries = text.lines().rev();
        Ok(entries
            .filter_map(|line| serde_json::from_str(line).ok())
            .take(count.min(ENTRIES_MAX))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_back_newest_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = Audit::new(&folder.path().join("head/audit.log"));
        assert!(audit.newest(10).expect("none").is_empty());
        for code in [200, 403, 500] {
            audit.write(&Entry {
                code,
                ..Entry::default()
            });
        }
        let codes = |count| -> Vec<u16> {
            let entries = audit.newest(count).expect("readable");
            entries.iter().map(|entry| entry.code).collect()
        };
        assert_eq!(codes(10), [500, 403, 200]);
        assert_eq!(codes(1), [500]);
    }
}
