//! Options that all commands share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Print the response, or the failure, as one JSON document
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// The settings that the agents share.
    #[command(flatten, next_help_heading = "Common options")]
    pub settings: agents::Settings,
    /// Directory or device to search for pools, in addition to the last devices of each; may be
    /// repeated. Several may be joined by colons; in a name that has colons, write `\:` for each
    /// [default: /dev/disk/by-id]
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "BULKHEAD_SEARCH",
        help_heading = "Common options"
    )]
    search: Vec<PathBuf>,
    /// Open a pool of the appliance although the cluster manages it: it is stopped there, and remains stopped until the
    /// command is done
    #[arg(long, global = true, help_heading = "Common options")]
    pub maintenance: bool,
    /// For tests only: devices named in this file fail a command that opens the pool itself
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BULKHEAD_COMMAND_FAULTS",
        hide = true
    )]
    pub command_faults: Option<PathBuf>,
    /// Options of the program itself, for its child processes.
    #[arg(skip)]
    pub of_program: Vec<OsString>,
}

impl Common {
    /// Returns the directories to search for pools; empty if not specified.
    pub fn search(&self) -> Vec<PathBuf> {
        let words = self.search.iter();
        words.flat_map(|word| places(word)).collect()
    }

    /// Searches `place` only, unless other places are named.
    pub fn search_by_default(&mut self, place: PathBuf) {
        if self.search.is_empty() {
            self.search.push(place);
        }
    }

    /// Returns the directories that pools of legs need on this host.
    pub fn directories(&self) -> leg_door::Directories {
        leg_door::Directories {
            run: self.settings.run_dir.clone(),
            state: self.settings.state_dir.clone(),
        }
    }

    /// Returns the same options for a child process.
    pub fn as_options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| options.extend([name.into(), value]);
        add("--run-dir", self.settings.run_dir.clone().into());
        add("--state-dir", self.settings.state_dir.clone().into());
        add("--cluster-key", self.settings.cluster_key.clone().into());
        for place in &self.search {
            add("--search", place.clone().into());
        }
        if let Some(engine::HostId(id)) = self.settings.host_id {
            add("--host-id", format!("{id:08x}").into());
        }
        options.extend(self.of_program.iter().cloned());
        options
    }
}

/// Parses directories separated by colons. A colon in a name is escaped with a backslash, which is
/// optional if the whole text is an existing path.
fn places(text: &Path) -> Vec<PathBuf> {
    let Some(joined) = text.to_str().filter(|_| !text.exists()) else {
        return vec![text.to_owned()];
    };
    let mut places = vec![String::new()];
    let mut letters = joined.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = places.last_mut().expect("one from the beginning");
        match letter {
            '\\' => last.push(letters.next_if_eq(&':').unwrap_or(letter)),
            ':' => places.push(String::new()),
            _ => last.push(letter),
        }
    }
    let named = places.into_iter().filter(|place| !place.is_empty());
    named.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_paths_split_at_colons_outside_of_names() {
        let read = |text: &str| places(Path::new(text));
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(read("/no/a:/no/b"), paths(&["/no/a", "/no/b"]));
        assert_eq!(read("/no/a::"), paths(&["/no/a"]));
        assert_eq!(read("/no/back\\slash"), paths(&["/no/back\\slash"]));
        let disk = Path::new("/no/pci-0000:00:1f.2-ata-1");
        assert_eq!(read("/no/pci-0000\\:00\\:1f.2-ata-1"), [disk]);
        let directory = tempfile::tempdir().expect("a directory");
        let present = directory.path().join("a:b");
        std::fs::write(&present, "").expect("written");
        assert_eq!(places(&present).as_slice(), std::slice::from_ref(&present));
    }
}
