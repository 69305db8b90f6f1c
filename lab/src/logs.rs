//! The logs of all nodes of a lab, for an analysis when it is gone.

use std::io;
use std::path::{Path, PathBuf};

use super::directory::LabDirectory;

/// More of a log than its last bytes is not kept.
const TAIL_BYTES: u64 = 4 << 20;

fn is_log(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("log" | "jsonl"))
}

/// Logs below `folder`, without following links.
fn logs_in(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            logs_in(&entry.path(), found)?;
        } else if kind.is_file() && is_log(&entry.path()) {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn copy_tail(from: &Path, to: &Path) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut log = std::fs::File::open(from)?;
    let begin = log.metadata()?.len().saturating_sub(TAIL_BYTES);
    log.seek(SeekFrom::Start(begin))?;
    io::copy(&mut log.take(TAIL_BYTES), &mut std::fs::File::create(to)?)?;
    Ok(())
}

/// Copies the logs of a lab to `to`, in the lab's own layout.
pub(crate) fn keep(lab: &LabDirectory, to: &Path) -> io::Result<()> {
    // Only files that nodes write: their input does not change.
    let mut found = Vec::new();
    for folder in ["machines", "devices"] {
        for machine in std::fs::read_dir(lab.path().join(folder))? {
            let machine = machine?.path();
            let written = ["var/log", "var/lib/bulkhead"].map(|part| machine.join(part));
            for part in written.iter().filter(|part| part.is_dir()) {
                logs_in(part, &mut found)?;
            }
            found.push(machine.join("console.log"));
        }
    }
    for entry in std::fs::read_dir(lab.path())? {
        found.push(entry?.path());
    }
    for log in found.iter().filter(|log| is_log(log) && log.is_file()) {
        let inside = log.strip_prefix(lab.path()).unwrap_or(log);
        copy_tail(log, &to.join(inside))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logs_are_preserved_at_their_paths() {
        let scratch = tempfile::tempdir().expect("temporary folder");
        let lab = scratch.path().join("lab");
        let files = [
            ("machines/a/var/log/pacemaker/pacemaker.log", true),
            ("machines/a/var/lib/bulkhead/steps.jsonl", true),
            ("machines/a/console.log", true),
            ("machines/a/etc/secret.log", false),
            ("machines/a/var/lib/bulkhead/key", false),
            ("devices/bmc-a/console.log", true),
            ("supervisor.log", true),
            ("disks/tank-0.img", false),
        ];
        for (file, _) in files {
            let path = lab.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, file).expect("written");
        }
        let to = scratch.path().join("kept");
        keep(&LabDirectory::at(lab), &to).expect("kept");
        for (file, is_kept) in files {
            let kept = std::fs::read_to_string(to.join(file)).ok();
            assert_eq!(kept.as_deref(), is_kept.then_some(file), "{file}");
        }
    }
}
