//! External Data Representation (RFC 4506): a reader that never reads beyond its input, and a
//! writer. Lengths from a peer are checked against the present data before an allocation.

use block_device::ReadLoan;

/// The input does not match the protocol's XDR definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed XDR")]
pub struct Malformed;

/// Bytes up to the next multiple of four.
const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

const fn padded(length: usize) -> usize {
    length + padding(length)
}

/// Reads items from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The unread bytes.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads exactly `length` bytes and their padding.
    pub fn fixed(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let whole = length.checked_add(padding(length)).ok_or(Malformed)?;
        if self.rest.len() < whole {
            return Err(Malformed);
        }
        let bytes = &self.rest[..length];
        self.rest = &self.rest[whole..];
        Ok(bytes)
    }

    /// Reads `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.fixed(N)?.try_into().map_err(|_| Malformed)
    }

    /// Reads an unsigned integer.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads an unsigned hyper integer.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a hyper integer.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a boolean: 0 or 1 only.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Reads opaque data or a string of at most `length_max` bytes.
    pub fn opaque(&mut self, length_max: usize) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        if length > length_max {
            return Err(Malformed);
        }
        self.fixed(length)
    }

    /// Reads the length of an array of at most `count_max` items.
    pub fn count(&mut self, count_max: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count > count_max {
            return Err(Malformed);
        }
        Ok(count)
    }
}

/// Appends items.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Whether the last item may be lent.
    lends: bool,
    /// Follows `bytes`, with padding. It is copied before the next item is written.
    lent: Option<Box<dyn ReadLoan>>,
}

/// The written items in pieces: bytes, lent file contents, and their padding.
pub struct Pieces {
    bytes: Vec<u8>,
    lent: Box<dyn ReadLoan>,
}

impl Pieces {
    /// Copies all pieces.
    fn copy(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        self.append_parts(&mut parts);
        parts.concat()
    }
}

impl ReadLoan for Pieces {
    fn byte_count(&self) -> usize {
        self.bytes.len() + padded(self.lent.byte_count())
    }

    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        parts.push(&self.bytes);
        self.lent.append_parts(parts);
        parts.push(&[0; 3][..padding(self.lent.byte_count())]);
    }
}

impl From<Vec<u8>> for Writer {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with this capacity.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Sets whether file contents may be lent instead of copied, because they are sent immediately.
    pub fn lending(self, lends: bool) -> Self {
        Self { lends, ..self }
    }

    /// Number of written bytes.
    pub fn len(&self) -> usize {
        let lent = self.lent.as_ref().map_or(0, |lent| lent.byte_count());
        self.bytes.len() + padded(lent)
    }

    /// Whether no byte is written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The written bytes.
    ///
    /// # Panics
    /// If some of them are lent.
    pub fn bytes(&self) -> &[u8] {
        assert!(!self.is_lent(), "it is not all here");
        &self.bytes
    }

    /// Returns the written bytes; lent ones are copied.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.own();
        self.bytes
    }

    /// Whether the last item is lent.
    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Returns the written items, in pieces if the last one is lent.
    pub fn into_pieces(self) -> Result<Pieces, Vec<u8>> {
        match self.lent {
            Some(lent) => Ok(Pieces {
                bytes: self.bytes,
                lent,
            }),
            None => Err(self.bytes),
        }
    }

    /// Copies and returns lent bytes, and returns the written bytes.
    pub fn own(&mut self) -> &mut Vec<u8> {
        if let Some(lent) = self.lent.take() {
            let bytes = std::mem::take(&mut self.bytes);
            self.bytes = Pieces { bytes, lent }.copy();
        }
        &mut self.bytes
    }

    /// Removes the bytes after the first `length` ones.
    pub fn truncate(&mut self, length: usize) {
        if length <= self.bytes.len() {
            self.lent = None;
        }
        self.own().truncate(length);
    }

    /// Appends an unsigned integer.
    pub fn u32(&mut self, value: u32) {
        self.own().extend_from_slice(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper integer.
    pub fn u64(&mut self, value: u64) {
        self.own().extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a hyper integer.
    pub fn i64(&mut self, value: i64) {
        self.own().extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a boolean.
    pub fn boolean(&mut self, value: bool) {
        self.u32(value.into());
    }

    /// Appends padded bytes of a length that the peer can derive.
    pub fn fixed(&mut self, bytes: &[u8]) {
        let own = self.own();
        own.extend_from_slice(bytes);
        own.resize(own.len() + padding(bytes.len()), 0);
    }

    /// Appends opaque data or a string: length, bytes, padding.
    ///
    /// # Panics
    /// If it is longer than 4 GiB.
    pub fn opaque(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("nothing that is sent is so long");
        self.u32(length);
        self.fixed(bytes);
    }

    /// Appends opaque data of at most `length_max` bytes, written by `fill`. Returns its length. On
    /// failure no byte is appended.
    ///
    /// # Panics
    /// If it appends more than `length_max`.
    pub fn opaque_with<E>(
        &mut self,
        length_max: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<usize, E> {
        self.opaque_or_lent(length_max, |place, _| fill(place).map(|()| None))
    }

    /// Like [`Self::opaque_with`], but if `fill` is permitted to, it may lend the data.
    ///
    /// # Panics
    /// As above.
    pub fn opaque_or_lent<E>(
        &mut self,
        length_max: usize,
        fill: impl FnOnce(&mut Vec<u8>, bool) -> Result<Option<Box<dyn ReadLoan>>, E>,
    ) -> Result<usize, E> {
        let at = self.own().len();
        self.u32(0);
        let start = self.bytes.len();
        let lent = match fill(&mut self.bytes, self.lends) {
            Ok(lent) => lent,
            Err(error) => {
                self.bytes.truncate(at);
                return Err(error);
            }
        };
        let own = self.bytes.len() - start;
        let length = lent.as_ref().map_or(own, |lent| lent.byte_count());
        assert!(length <= length_max, "more was read than requested");
        self.set_u32(at, length as u32);
        match lent {
            Some(_) => self.lent = lent,
            None => self.bytes.resize(start + padded(length), 0),
        }
        Ok(length)
    }

    /// Appends bytes that are already XDR.
    pub fn append(&mut self, bytes: &[u8]) {
        self.own().extend_from_slice(bytes);
    }

    /// Overwrites the unsigned hyper integer at `position`.
    pub fn set_u64(&mut self, position: usize, value: u64) {
        self.bytes[position..position + 8].copy_from_slice(&value.to_be_bytes());
    }

    /// Overwrites the unsigned integer at `position`.
    pub fn set_u32(&mut self, position: usize, value: u32) {
        self.bytes[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4506, 4.10 and 7: a string of five bytes has three bytes of padding.
    #[test]
    fn xdr_strings_are_padded_to_four_bytes() {
        let mut writer = Writer::new();
        writer.opaque(b"sillyp");
        writer.boolean(true);
        let bytes = b"\0\0\0\x06sillyp\0\0\0\0\0\x01";
        assert_eq!(writer.bytes(), bytes);
        let mut reader = Reader::new(bytes);
        assert_eq!(reader.opaque(6), Ok(&b"sillyp"[..]));
        assert_eq!(reader.boolean(), Ok(true));
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn in_place_data_encodes_like_copied_data() {
        for length in 0..9 {
            let bytes = &b"12345678"[..length];
            let (mut copied, mut in_place) = (Writer::new(), Writer::new());
            copied.opaque(bytes);
            let filled = in_place.opaque_with(8, |place| {
                place.extend_from_slice(bytes);
                Ok::<_, Malformed>(())
            });
            assert_eq!(filled, Ok(length));
            assert_eq!(in_place.bytes(), copied.bytes());
            let failed = in_place.opaque_with(8, |place| {
                place.push(1);
                Err(Malformed)
            });
            assert_eq!(failed, Err(Malformed));
            assert_eq!(in_place.bytes(), copied.bytes());
        }
    }

    /// Lends three bytes at a time.
    struct Lent(&'static [u8]);

    impl ReadLoan for Lent {
        fn byte_count(&self) -> usize {
            self.0.len()
        }
        fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
            parts.extend(self.0.chunks(3));
        }
    }

    #[test]
    fn lent_data_encodes_like_copied_data() {
        for length in 0..9 {
            let bytes = &b"12345678"[..length];
            let lend = || {
                let mut lent = Writer::with_capacity(8).lending(true);
                lent.u32(7);
                let written = lent.opaque_or_lent(8, |_, lends| {
                    assert!(lends);
                    Ok::<_, Malformed>(Some(Box::new(Lent(bytes)) as Box<dyn ReadLoan>))
                });
                assert_eq!((written, lent.is_lent()), (Ok(length), true));
                lent.set_u32(0, 8);
                lent
            };
            let mut copied = Writer::new();
            copied.u32(8);
            copied.opaque(bytes);
            let mut lent = lend();
            assert_eq!(lent.len(), copied.len());
            assert_eq!(lent.own(), copied.bytes());
            let pieces = lend().into_pieces().expect("it is lent");
            assert_eq!(pieces.byte_count(), copied.len());
            assert_eq!(pieces.copy(), copied.bytes());
            // It is removed completely or not at all.
            let mut lent = lend();
            lent.truncate(4);
            assert_eq!(
                (lent.is_lent(), lent.bytes()),
                (false, &copied.bytes()[..4])
            );
            let mut lent = lend();
            lent.u64(9);
            copied.u64(9);
            assert_eq!(lent.into_bytes(), copied.bytes());
        }
    }

    #[test]
    fn a_length_beyond_the_input_or_the_limit_is_malformed() {
        assert_eq!(
            Reader::new(b"\xff\xff\xff\xffabcd").opaque(usize::MAX),
            Err(Malformed)
        );
        assert_eq!(Reader::new(b"\0\0\0\x05abcde").opaque(8), Err(Malformed));
        assert_eq!(Reader::new(b"\0\0\0\x04abcd").opaque(3), Err(Malformed));
        assert_eq!(Reader::new(b"\0\0\0\x02").boolean(), Err(Malformed));
        assert_eq!(Reader::new(b"\0\0\0").u32(), Err(Malformed));
        assert_eq!(Reader::new(b"").fixed(usize::MAX), Err(Malformed));
    }
}
