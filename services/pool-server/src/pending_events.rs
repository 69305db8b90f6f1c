//! Stores events that a suspended pool cannot accept in a file on this head. They would be lost if the server also
//! stopped before the devices return.

use std::io::Write;
use std::path::{Path, PathBuf};

use control::answer::Event;

/// The file.
pub struct PendingEvents {
    path: PathBuf,
    is_used: bool,
}

impl PendingEvents {
    /// The file at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        let is_used = path.exists();
        Self { path, is_used }
    }

    /// The events that an earlier server left. An unreadable file counts as empty.
    pub fn left(&self) -> Vec<Event> {
        let text = std::fs::read(&self.path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Stores exactly these events. Removes the file if there are none.
    pub fn keep<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        let events: Vec<&Event> = events.collect();
        if events.is_empty() && !self.is_used {
            return;
        }
        let kept = match events.is_empty() {
            true => std::fs::remove_file(&self.path),
            false => write(&self.path, &events),
        };
        match kept {
            Ok(()) => self.is_used = !events.is_empty(),
            Err(error) => tracing::warn!(%error, "cannot store pending events"),
        }
    }
}

fn write(path: &Path, events: &[&Event]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = path.with_extension("events-new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(&serde_json::to_vec(events)?)?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_events_persist_until_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state/tank.events");
        let event = Event {
            at_ms: 7,
            ..Event::default()
        };
        let mut pending = PendingEvents::new(path.clone());
        pending.keep(std::iter::empty());
        assert!(!path.exists());
        pending.keep([&event].into_iter());
        assert_eq!(PendingEvents::new(path.clone()).left(), [event]);
        PendingEvents::new(path.clone()).keep(std::iter::empty());
        assert!(!path.exists());
        std::fs::write(&path, "not JSON").expect("written");
        assert!(PendingEvents::new(path).left().is_empty());
    }
}
