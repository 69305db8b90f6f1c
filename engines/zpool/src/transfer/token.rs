//! Resume tokens, in the format of stock ZFS: a version, a checksum, a length, and a compressed
//! list in hex.

use std::io::Read;

use engine::Opaque;
use engine::transfer::{ResumeToken, SendForm, TransferError, TransferErrorKind};

use crate::nvlist::{NvList, NvRef};

/// Longest token; one of a volume has some 600 letters.
const LETTERS_MAX: usize = 8192;
/// Largest list in a token.
const LIST_BYTES_MAX: u64 = 64 << 10;

/// The rest of a stream, as a token names it.
pub struct Rest {
    /// GUID of the base; zero: none.
    pub from_guid: u64,
    /// The object that arrived last, and the offset in it.
    pub from: (u64, u64),
    /// The form of the stream, which the rest must have, too.
    pub form: SendForm,
}

/// Understands a token.
pub fn parse(text: &str) -> Result<ResumeToken, TransferError> {
    let refuse = |why| {
        let shown: String = text.chars().take(16).collect();
        TransferError::new("read token", &shown, TransferErrorKind::Token(why))
    };
    let list = unpack(text).map_err(refuse)?;
    token_of(list.view()).ok_or_else(|| refuse("it misses fields of a token"))
}

fn token_of(list: NvRef<'_>) -> Option<ResumeToken> {
    let has = |name| list.get(name).is_some();
    let rest = Rest {
        from_guid: list.u64("fromguid").unwrap_or(0),
        from: (list.u64("object")?, list.u64("offset")?),
        form: SendForm {
            embedded: has("embedok"),
            large_blocks: has("largeblockok"),
            compressed: has("compressok"),
            raw: has("rawok"),
        },
    };
    Some(ResumeToken {
        to_guid: list.u64("toguid")?,
        to_name: list.text("toname")?,
        bytes: list.u64("bytes").unwrap_or(0),
        detail: Opaque::new(rest),
    })
}

fn unpack(text: &str) -> Result<NvList, &'static str> {
    let text = text.trim();
    if text.len() > LETTERS_MAX || !text.is_ascii() {
        return Err("it is too long");
    }
    let mut parts = text.splitn(4, '-');
    let mut part = || parts.next().ok_or("it has too few parts");
    if part()? != "1" {
        return Err("its version is not 1");
    }
    let number = |text| u64::from_str_radix(text, 16).map_err(|_| "a part is no number");
    let (checksum, length) = (number(part()?)?, number(part()?)?);
    let packed = units::hex::decode(part()?).ok_or("its last part is not hex")?;
    // The first of the four sums of the checksum: of all whole 32-bit values.
    let words = packed.chunks_exact(4);
    let sum = words.fold(0_u64, |sum, word| {
        let word: [u8; 4] = word.try_into().expect("four bytes");
        sum.wrapping_add(u64::from(u32::from_le_bytes(word)))
    });
    if sum != checksum {
        return Err("its checksum does not match: copy all of it");
    }
    if length > LIST_BYTES_MAX {
        return Err("it is too long");
    }
    let mut list = Vec::new();
    let inflated = flate2::read::ZlibDecoder::new(packed.as_slice())
        .take(length)
        .read_to_end(&mut list);
    if inflated.is_err() || list.len() as u64 != length {
        return Err("it does not unpack");
    }
    NvList::unpack(&list).ok_or("it does not unpack")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_resume_token_is_refused_with_reason() {
        for (text, why) in [
            ("", "version"),
            ("2-0-0-", "version"),
            ("1-0", "too few"),
            ("1-x-0-00", "number"),
            ("1-0-0-abc", "hex"),
            ("1-5-0-00000000", "checksum"),
            ("1-0-ffffffffff-00000000", "too long"),
            ("1-0-20-00000000", "unpack"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }
}
