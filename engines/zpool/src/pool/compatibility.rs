//! Sets of features by name (zpool-features(7), "compatibility"): a pool created with such a set
//! can be imported by systems that support only its features.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The directories with sets, in search order.
const DIRECTORIES: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Longest file that is a set.
const FILE_BYTES_MAX: u64 = 16 << 10;
/// Most sets that one value names.
const SETS_MAX: usize = 16;

/// The features that a value of the property allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Every feature that the library supports.
    All,
    /// The features; none for `legacy`.
    Only(BTreeSet<String>),
}

impl Allowed {
    /// Whether the feature may be enabled.
    pub fn has(&self, feature: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(feature),
        }
    }
}

/// Reads `off`, `legacy`, or names of sets and absolute paths, joined by commas, as the
/// intersection of the sets. `known` are all existing features. The error is a sentence that
/// contains the remedy.
pub fn read<'a>(
    value: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Result<Allowed, String> {
    match value {
        "" | "off" => return Ok(Allowed::All),
        "legacy" => return Ok(Allowed::Only(BTreeSet::new())),
        _ => {}
    }
    let words: Vec<&str> = value.split(',').collect();
    if words.len() > SETS_MAX {
        return Err(format!("name at most {SETS_MAX} sets of features"));
    }
    let mut common: Option<BTreeSet<String>> = None;
    for word in words {
        let set = parse(&text_of(word)?, known.clone()).map_err(|why| format!("{word}: {why}"))?;
        common = Some(match common {
            None => set,
            Some(before) => before.intersection(&set).cloned().collect(),
        });
    }
    Ok(Allowed::Only(common.unwrap_or_default()))
}

fn text_of(word: &str) -> Result<String, String> {
    let is_name = !word.is_empty() && !word.contains('/') && word != "." && word != "..";
    let places: Vec<PathBuf> = match Path::new(word).is_absolute() {
        true => vec![word.into()],
        false if is_name => DIRECTORIES
            .iter()
            .map(|one| Path::new(one).join(word))
            .collect(),
        false => Vec::new(),
    };
    // Checked first, because opening some devices has side effects, such as a watchdog.
    let is_file = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|facts| facts.is_file());
    let mut files = places.iter().filter(is_file);
    let file = files.find_map(|path| std::fs::File::open(path).ok());
    let Some(file) = file else {
        return Err(format!(
            "there is no set of features {word:?}: name one of those in {} (package \
             zfsutils-linux), or a file by its absolute path",
            DIRECTORIES.join(" or ")
        ));
    };
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(count) if count as u64 <= FILE_BYTES_MAX => Ok(text),
        Ok(_) => Err(format!("{word} is longer than {FILE_BYTES_MAX} bytes")),
        Err(error) => Err(format!("{word} cannot be read: {error}")),
    }
}

/// Names separated by blanks and commas; `#` begins a comment.
fn parse<'a>(
    text: &str,
    mut known: impl Iterator<Item = &'a str> + Clone,
) -> Result<BTreeSet<String>, String> {
    let lines = text.lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default());
    let names = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ','));
    let names: BTreeSet<String> = names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let is_set = known.any(|feature| names.contains(feature));
    match is_set {
        true => Ok(names),
        false => Err("no feature that is known here is in it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> impl Iterator<Item = &'static str> + Clone {
        ["lz4_compress", "zstd_compress", "draid"].into_iter()
    }

    fn only(names: &[&str]) -> Allowed {
        Allowed::Only(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn features_common_to_all_sets_are_allowed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let old = path("old", "# features of 0.8\nlz4_compress, future # both\n");
        let new = path("new", "lz4_compress\nzstd_compress\nfuture\n");
        let both = read(&format!("{old},{new}"), known()).expect("a set");
        assert_eq!(both, only(&["future", "lz4_compress"]));
        assert!(both.has("lz4_compress") && !both.has("zstd_compress"));
        assert_eq!(read("off", known()), Ok(Allowed::All));
        assert_eq!(read("legacy", known()), Ok(only(&[])));
        let none = path("none", "future\n");
        let long = path("long", &"lz4_compress\n".repeat(2000));
        for wrong in [none, long, "../etc/passwd".into(), "no-such-set".into()] {
            assert!(read(&wrong, known()).is_err(), "{wrong}");
        }
    }
}
