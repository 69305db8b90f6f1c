//! Reads the fields of a record of the intent log.

/// Reads numbers and names, one after the other.
pub struct Reader<'a> {
    /// The unread rest.
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A number in the byte order of this host.
    pub fn number(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_ne_bytes(*word))
    }

    /// Two of them.
    pub fn pair(&mut self) -> Option<[u64; 2]> {
        Some([self.number()?, self.number()?])
    }

    /// A NUL-terminated name.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..)?;
        (!name.is_empty() && !name.contains(&b'/')).then_some(name)
    }

    /// NUL-terminated text with any other bytes.
    pub fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.rest.iter().position(|byte| *byte == 0)?;
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..)?;
        Some(text)
    }
}
