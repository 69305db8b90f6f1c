//! Persistent reservations of one logical unit as user properties of its volume. The SCSI layer
//! passes opaque bytes; they are split over as many properties as necessary.

use units::IscsiName;

use super::PROPERTY_BYTES_MAX;

/// Most parts that one unit's reservations may need: 64 registrations of long names need about
/// 16.
pub const PARTS_MAX: usize = 64;
/// Space reserved in each value for its header.
const HEADER_BYTES_MAX: usize = 32;
/// Bytes of state in one part: each becomes two hex digits.
const PART_BYTES: usize = (PROPERTY_BYTES_MAX - HEADER_BYTES_MAX) / 2;

/// Why reservations cannot be stored or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReservationsError {
    /// More registrations than are ever stored.
    #[error("reservations of {bytes} bytes are over the limit of {}", PARTS_MAX * PART_BYTES)]
    TooLarge {
        /// Length of the state.
        bytes: usize,
    },
    /// A part is missing, of another generation, or not hex.
    #[error("part {part} of the reservations is missing or damaged")]
    Damaged {
        /// Number of the part, from 0.
        part: usize,
    },
}

/// Returns the names of the properties with the reservations of unit `lun` in `target`, first to
/// last.
pub fn part_names(target: &IscsiName, lun: u16) -> impl Iterator<Item = String> + '_ {
    (0..PARTS_MAX).map(move |part| format!("bulkhead:pr{part}:{lun}:{target}"))
}

/// Returns the name of the property that stores the saved mode parameters of unit `lun` in
/// `target`.
pub fn mode_property(target: &IscsiName, lun: u16) -> String {
    format!("bulkhead:mode:{lun}:{target}")
}

/// Returns the values of as many parts as `state` needs: `1 PARTS ` and hex digits.
pub fn split_parts(state: &[u8]) -> Result<Vec<String>, ReservationsError> {
    let chunks: Vec<&[u8]> = if state.is_empty() {
        vec![state]
    } else {
        state.chunks(PART_BYTES).collect()
    };
    if chunks.len() > PARTS_MAX {
        return Err(ReservationsError::TooLarge { bytes: state.len() });
    }
    let count = chunks.len();
    let encode = |chunk: &&[u8]| {
        let mut value = format!("1 {count} ");
        for byte in *chunk {
            for digit in [byte >> 4, byte & 15] {
                value.push(char::from_digit(u32::from(digit), 16).expect("a nibble"));
            }
        }
        value
    };
    Ok(chunks.iter().map(encode).collect())
}

/// Joins the parts; `value` returns the value of part `n`. `None` if there is no part 0, which
/// means that nothing was stored.
pub fn join_parts(
    mut value: impl FnMut(usize) -> Option<String>,
) -> Result<Option<Vec<u8>>, ReservationsError> {
    let Some(first) = value(0) else {
        return Ok(None);
    };
    let (count, mut state) = decode_part(&first).ok_or(ReservationsError::Damaged { part: 0 })?;
    if count == 0 || count > PARTS_MAX {
        return Err(ReservationsError::Damaged { part: 0 });
    }
    for part in 1..count {
        let damaged = ReservationsError::Damaged { part };
        let text = value(part).ok_or(damaged.clone())?;
        match decode_part(&text) {
            Some((same, bytes)) if same == count => state.extend(bytes),
            _ => return Err(damaged),
        }
    }
    Ok(Some(state))
}

/// Returns the number of parts and the bytes of one value.
fn decode_part(text: &str) -> Option<(usize, Vec<u8>)> {
    let mut words = text.split(' ');
    let (version, count, digits) = (words.next()?, words.next()?, words.next()?);
    if version != "1" || words.next().is_some() || digits.len() % 2 != 0 {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let bytes = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?))
        .collect::<Option<Vec<u8>>>()?;
    Some((count.parse().ok()?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejoin(parts: &[String]) -> Result<Option<Vec<u8>>, ReservationsError> {
        join_parts(|n| parts.get(n).cloned())
    }

    #[test]
    fn split_reservations_round_trip_at_any_length() {
        for length in [0, 1, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES] {
            let state: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let parts = split_parts(&state).expect("fits");
            assert!(parts.iter().all(|part| part.len() <= PROPERTY_BYTES_MAX));
            assert_eq!(rejoin(&parts), Ok(Some(state)));
        }
        assert_eq!(split_parts(b"\x01\xab").expect("fits"), ["1 1 01ab"]);
    }

    #[test]
    fn missing_or_foreign_part_is_detected() {
        let mut parts = split_parts(&vec![7; 3 * PART_BYTES]).expect("fits");
        parts.truncate(2);
        assert_eq!(rejoin(&parts), Err(ReservationsError::Damaged { part: 2 }));
        parts[1] = "1 2 00".into();
        assert_eq!(rejoin(&parts), Err(ReservationsError::Damaged { part: 1 }));
        assert_eq!(rejoin(&[]), Ok(None));
    }

    #[test]
    fn oversized_reservations_are_refused() {
        assert!(split_parts(&vec![0; PARTS_MAX * PART_BYTES + 1]).is_err());
    }

    #[test]
    fn longest_property_name_fits_the_zfs_limit() {
        let target = format!("iqn.2026-01.{}", "x".repeat(211))
            .parse()
            .expect("name");
        let last = part_names(&target, u16::MAX).last().expect("bound");
        assert!(last.len() < 256, "{}", last.len());
    }
}
