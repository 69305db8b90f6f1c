//! Keys of the appliance file, such as `pools.tank.addresses[1].network`, and their line numbers,
//! so that a finding can point at the text.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};

/// A key of the file, written as TOML would.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Field names (quoted where TOML quotes them) and `[index]`.
    segments: Vec<String>,
}

impl Key {
    /// The file as a whole.
    pub const fn root() -> Self {
        Self {
            segments: Vec::new(),
        }
    }

    /// The key given with dots, such as `quorum.rule`.
    pub fn of(dotted: &str) -> Self {
        Self {
            segments: dotted.split('.').map(str::to_owned).collect(),
        }
    }

    /// The field or table entry `name` below this key.
    #[must_use]
    pub fn field(&self, name: impl fmt::Display) -> Self {
        let name = name.to_string();
        let is_bare = !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        self.with(if is_bare { name } else { format!("{name:?}") })
    }

    /// Element `index` (from 0) of the array at this key.
    #[must_use]
    pub fn item(&self, index: usize) -> Self {
        self.with(format!("[{index}]"))
    }

    fn with(&self, segment: String) -> Self {
        let mut segments = self.segments.clone();
        segments.push(segment);
        Self { segments }
    }

    fn parent(&self) -> Option<Self> {
        let (_, before) = self.segments.split_last()?;
        Some(Self {
            segments: before.to_vec(),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.segments.iter().enumerate() {
            if position > 0 && !segment.starts_with('[') {
                f.write_str(".")?;
            }
            f.write_str(segment)?;
        }
        Ok(())
    }
}

/// The line of each key of one text.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    lines: BTreeMap<Key, u32>,
}

impl SourceMap {
    /// The keys of `text`; empty where it is no TOML.
    pub(crate) fn new(text: &str) -> Self {
        let mut map = Self::default();
        if let Ok(table) = DeTable::parse(text) {
            let line_starts = LineStarts::of(text);
            map.add_table(&Key::root(), table.get_ref(), &line_starts);
        }
        map
    }

    /// Returns the line, from 1, of `key`, or of the innermost enclosing table in the text.
    pub fn line(&self, key: &Key) -> Option<u32> {
        let mut key = key.clone();
        loop {
            if let Some(line) = self.lines.get(&key) {
                return Some(*line);
            }
            key = key.parent()?;
        }
    }

    fn add_table(&mut self, key: &Key, table: &DeTable<'_>, starts: &LineStarts) {
        for (name, value) in table {
            let below = key.field(name.get_ref());
            self.lines
                .insert(below.clone(), starts.line_at(name.span().start));
            self.add_value(&below, value.get_ref(), starts);
        }
    }

    fn add_value(&mut self, key: &Key, value: &DeValue<'_>, starts: &LineStarts) {
        match value {
            DeValue::Table(table) => self.add_table(key, table, starts),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let below = key.item(index);
                    self.lines
                        .insert(below.clone(), starts.line_at(item.span().start));
                    self.add_value(&below, item.get_ref(), starts);
                }
            }
            _ => {}
        }
    }
}

/// Byte offsets at which lines begin.
pub(crate) struct LineStarts(Vec<usize>);

impl LineStarts {
    pub(crate) fn of(text: &str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(after_newlines).collect())
    }

    /// Returns the line, from 1, of byte `offset`.
    pub(crate) fn line_at(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|start| *start <= offset)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_maps_to_its_line_or_to_the_enclosing_table() {
        let map = SourceMap::new(
            "name = \"a\"\n[pools.tank]\nhome = \"left\"\naddresses = [\n  { network = \"a\" },\n  { network = \"b\" },\n]\n[pools.\"a.b\"]\n",
        );
        let tank = Key::root().field("pools").field("tank");
        for (key, line) in [
            (Key::of("name"), Some(1)),
            (tank.field("home"), Some(3)),
            (tank.field("addresses").item(1).field("network"), Some(6)),
            (tank.field("arc"), Some(2)),
            (Key::of("pools").field("a.b").field("home"), Some(8)),
            (Key::of("quorum.rule"), None),
        ] {
            assert_eq!(map.line(&key), line, "{key}");
        }
    }

    #[test]
    fn keys_are_quoted_like_toml() {
        let key = Key::of("pools").field("a.b").field("disks").item(0);
        assert_eq!(key.to_string(), "pools.\"a.b\".disks[0]");
    }
}
