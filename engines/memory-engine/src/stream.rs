//! The format in which this engine sends a snapshot: its own, and as simple as it can be. Numbers are eight bytes, the
//! lowest first; texts and blocks have their length before them.
//!
//! [`MAGIC`], the header of the stream, then records: 1, number of a block, its bytes; 2, number of a block that no
//! longer exists; 3, the number of records: the end.

use std::io::{Read, Write};

use engine::Opaque;
use engine::keys::{KEY_BYTES, KeyFormat};
use engine::transfer::{
    ResumeToken, SendForm, StreamError, StreamFault, TransferError, TransferErrorKind,
};

use crate::encryption::{Encryption, OwnKey};

const MAGIC: &[u8; 16] = b"bulkhead-memory\n";
/// Longest text, in bytes.
const TEXT_BYTES_MAX: u64 = 4096;
/// Largest block, in bytes.
const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// The name of the format of its streams.
pub(crate) const FORMAT: &str = "stream of the engine in memory";
/// Begins a resume token.
const TOKEN_WORD: &str = "memory";

const WRITTEN: u64 = 1;
const FREED: u64 = 2;
const END: u64 = 3;

/// The header of a stream.
#[derive(Clone)]
pub(crate) struct Begin {
    /// Number of the snapshot.
    pub(crate) to_guid: u64,
    /// Number of its base; zero for none.
    pub(crate) from_guid: u64,
    /// Its name at the sender.
    pub(crate) to_name: String,
    pub(crate) size: u64,
    pub(crate) block_size: u64,
    /// Whether the volume is a clone of its base.
    pub(crate) is_clone: bool,
    /// The first block of the rest, if an earlier stream brought those before.
    pub(crate) rest_from: Option<u64>,
    /// Of a raw stream of an encrypted volume.
    pub(crate) encryption: Option<Encryption>,
}

impl Begin {
    /// The snapshot's last part.
    pub(crate) fn tag(&self) -> &str {
        self.to_name.split_once('@').map_or("", |(_, tag)| tag)
    }
}

/// A record.
pub(crate) enum Record {
    Written(u64, Vec<u8>),
    Freed(u64),
    End,
}

/// Writes a stream, and counts.
pub(crate) struct Writer<'a> {
    pub(crate) to: &'a mut dyn Write,
    pub(crate) bytes: u64,
    records: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Self {
        Self {
            to,
            bytes: 0,
            records: 0,
        }
    }

    fn raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    fn number(&mut self, number: u64) -> std::io::Result<()> {
        self.raw(&number.to_le_bytes())
    }

    fn text(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.number(text.len() as u64)?;
        self.raw(text)
    }

    pub(crate) fn begin(&mut self, begin: &Begin) -> std::io::Result<()> {
        self.raw(MAGIC)?;
        self.number(begin.to_guid)?;
        self.number(begin.from_guid)?;
        self.text(begin.to_name.as_bytes())?;
        self.number(begin.size)?;
        self.number(begin.block_size)?;
        self.number(begin.is_clone.into())?;
        self.number(begin.rest_from.map_or(0, |first| first + 1))?;
        let key = begin.encryption.as_ref();
        self.number(key.is_some().into())?;
        if let Some((suite, own)) = key.and_then(|key| Some((&key.suite, key.own.as_ref()?))) {
            self.text(suite.as_bytes())?;
            self.text(own.format.word().as_bytes())?;
            self.number(own.salt)?;
            self.number(own.iterations)?;
            self.text(own.location.as_bytes())?;
            self.raw(&own.bytes)?;
        }
        Ok(())
    }

    pub(crate) fn written(&mut self, number: u64, block: &[u8]) -> std::io::Result<()> {
        self.records += 1;
        self.number(WRITTEN)?;
        self.number(number)?;
        self.text(block)
    }

    pub(crate) fn freed(&mut self, number: u64) -> std::io::Result<()> {
        self.records += 1;
        self.number(FREED)?;
        self.number(number)
    }

    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        self.number(END)?;
        self.number(self.records)
    }
}

/// Reads a stream, and counts.
pub(crate) struct Reader<'a> {
    from: &'a mut dyn Read,
    pub(crate) bytes: u64,
    records: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(from: &'a mut dyn Read) -> Self {
        Self {
            from,
            bytes: 0,
            records: 0,
        }
    }

    fn raw(&mut self, length: u64) -> Result<Vec<u8>, StreamError> {
        let mut bytes = vec![0; length as usize];
        self.from
            .read_exact(&mut bytes)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    StreamFault::Cut.because("the stream was cut off before its end")
                }
                _ => StreamFault::Read.because("read the stream"),
            })?;
        self.bytes += length;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, StreamError> {
        let bytes = self.raw(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    fn block(&mut self, length_max: u64) -> Result<Vec<u8>, StreamError> {
        match self.number()? {
            length if length <= length_max => self.raw(length),
            _ => Err(StreamFault::Malformed.because("a part is too long")),
        }
    }

    fn text(&mut self) -> Result<String, StreamError> {
        let bytes = self.block(TEXT_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| StreamFault::Malformed.because("a name is no text"))
    }

    pub(crate) fn begin(&mut self) -> Result<Begin, StreamError> {
        if self.raw(MAGIC.len() as u64)? != MAGIC {
            return Err(StreamFault::NotAStream.because(format!("this is no {FORMAT}")));
        }
        Ok(Begin {
            to_guid: self.number()?,
            from_guid: self.number()?,
            to_name: self.text()?,
            size: self.number()?,
            block_size: self.number()?,
            is_clone: self.number()? != 0,
            rest_from: self.number()?.checked_sub(1),
            encryption: match self.number()? {
                0 => None,
                _ => Some(self.encryption()?),
            },
        })
    }

    fn encryption(&mut self) -> Result<Encryption, StreamError> {
        let suite = self.text()?;
        let format: Result<KeyFormat, _> = self.text()?.parse();
        let format =
            format.map_err(|_| StreamFault::Malformed.because("its key has no such form"))?;
        let own = OwnKey {
            format,
            salt: self.number()?,
            iterations: self.number()?,
            location: self.text()?,
            bytes: self
                .raw(KEY_BYTES as u64)?
                .try_into()
                .expect("as long as a key"),
            is_loaded: false,
        };
        Ok(Encryption {
            suite,
            root: 0,
            own: Some(own),
        })
    }

    pub(crate) fn record(&mut self) -> Result<Record, StreamError> {
        let kind = self.number()?;
        let number = self.number()?;
        match kind {
            END if number == self.records => return Ok(Record::End),
            END => return Err(StreamFault::Malformed.because("records are missing")),
            _ => self.records += 1,
        }
        match kind {
            WRITTEN => Ok(Record::Written(number, self.block(BLOCK_BYTES_MAX)?)),
            FREED => Ok(Record::Freed(number)),
            _ => Err(StreamFault::Malformed.because("there is no such record")),
        }
    }
}

/// The position where a stream was interrupted, and its identity.
pub(crate) struct Rest {
    pub(crate) to_guid: u64,
    pub(crate) from_guid: u64,
    pub(crate) to_name: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) is_raw: bool,
}

impl Rest {
    /// The text of a token.
    pub(crate) fn token(&self) -> String {
        let name = units::hex::encode(self.to_name.as_bytes());
        format!(
            "{TOKEN_WORD}-{:x}-{:x}-{:x}-{:x}-{:x}-{name}",
            self.to_guid,
            self.from_guid,
            self.offset,
            self.bytes,
            u8::from(self.is_raw),
        )
    }

    pub(crate) fn form(&self) -> SendForm {
        match self.is_raw {
            false => SendForm::default(),
            true => SendForm::RAW,
        }
    }
}

/// Parses a token of this engine.
pub(crate) fn parse_token(text: &str) -> Result<ResumeToken, TransferError> {
    let refuse = |why| {
        let shown: String = text.chars().take(16).collect();
        TransferError::new("read token", &shown, TransferErrorKind::Token(why))
    };
    let mut parts = text.trim().splitn(7, '-');
    let mut part = || parts.next().ok_or_else(|| refuse("it has too few parts"));
    if part()? != TOKEN_WORD {
        return Err(refuse("its version is not of this engine"));
    }
    let number = |text| u64::from_str_radix(text, 16).map_err(|_| refuse("a part is no number"));
    let (to_guid, from_guid) = (number(part()?)?, number(part()?)?);
    let (offset, bytes, raw) = (number(part()?)?, number(part()?)?, number(part()?)?);
    let name = units::hex::decode(part()?).and_then(|name| String::from_utf8(name).ok());
    let to_name = name.ok_or_else(|| refuse("its last part is not hex"))?;
    Ok(ResumeToken {
        to_guid,
        to_name: to_name.clone(),
        bytes,
        detail: Opaque::new(Rest {
            to_guid,
            from_guid,
            to_name,
            offset,
            bytes,
            is_raw: raw != 0,
        }),
    })
}
