//! Parsers of single words that need more than a type's own.

use std::path::{Path, PathBuf};

/// Places to search, joined by colons. A colon of a name has a backslash before it, which a name
/// that exists as it stands can do without.
pub fn places(text: &Path) -> Vec<PathBuf> {
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
    fn places_are_divided_at_colons_but_not_at_those_of_names() {
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
