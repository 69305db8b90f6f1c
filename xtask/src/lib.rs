//! Helpers for the checks of the workspace itself (`tests/`): which files there are, and what
//! stands in them.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask lies in the workspace")
        .to_owned()
}

/// Paths, relative to the root, of every file that git tracks or would track, or `None` where
/// this is not a git checkout.
pub fn tracked_files() -> Option<Vec<PathBuf>> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listing.stdout).expect("file names are UTF-8");
    let exists = |path: &PathBuf| root().join(path).is_file();
    Some(names.lines().map(PathBuf::from).filter(exists).collect())
}

/// The tracked files whose names end in `.extension`, with their texts.
pub fn texts(extension: &str) -> Option<Vec<(PathBuf, String)>> {
    let is_wanted = |path: &PathBuf| {
        path.extension()
            .is_some_and(|found| found.to_str() == Some(extension))
    };
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(root().join(&path)).expect("a tracked text file");
        (path, text)
    };
    Some(
        tracked_files()?
            .into_iter()
            .filter(is_wanted)
            .map(read)
            .collect(),
    )
}
