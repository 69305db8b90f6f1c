//! The records of a stream, for tests that forge some.

/// Bytes of a record.
pub const RECORD: usize = 312;

/// Bytes that follow the record at `at`.
fn payload(stream: &[u8], at: usize) -> u64 {
    let number = |place: usize| {
        let bytes = stream[at + place..at + place + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    };
    let half = |place: usize| number(place) & u64::from(u32::MAX);
    match stream[at] {
        0 => half(4),
        1 if half(36) == 0 => half(28).next_multiple_of(8),
        1 => half(36),
        7 if number(40) == 0 => number(16),
        7 => number(40),
        3 if stream[at + 50] == 0 => number(32),
        3 => number(96),
        8 => (number(48) >> 32).next_multiple_of(8),
        _ => 0,
    }
}

/// The offsets of the records of a stream; for a forged one, as far as they can be determined.
pub fn records(stream: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0_u64;
    while at + RECORD as u64 <= stream.len() as u64 {
        found.push(at as usize);
        let end = (at + RECORD as u64).saturating_add(payload(stream, at as usize));
        at = end.min(stream.len() as u64);
    }
    found
}

/// Corrects the checksums, as an author of a forged stream would.
pub fn with_checksums(mut stream: Vec<u8>) -> Vec<u8> {
    const CHECKSUM: usize = 32;
    fn add(sums: &mut [u64; 4], bytes: &[u8]) {
        for word in bytes.chunks_exact(4) {
            let word: [u8; 4] = word.try_into().expect("four bytes");
            sums[0] = sums[0].wrapping_add(u64::from(u32::from_le_bytes(word)));
            for i in 1..4 {
                sums[i] = sums[i].wrapping_add(sums[i - 1]);
            }
        }
    }
    fn write(sums: &[u64; 4], place: &mut [u8]) {
        for (sum, place) in sums.iter().zip(place.chunks_exact_mut(8)) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
    }
    let mut sums = [0_u64; 4];
    let records = records(&stream);
    for (index, at) in records.iter().copied().enumerate() {
        let end = records.get(index + 1).copied().unwrap_or(stream.len());
        // The last record repeats the checksum of the preceding ones.
        if stream[at] == 5 {
            write(&sums, &mut stream[at + 8..at + 8 + CHECKSUM]);
        }
        match at {
            0 => add(&mut sums, &stream[..RECORD]),
            _ => {
                let place = at + RECORD - CHECKSUM;
                add(&mut sums, &stream[at..place]);
                write(&sums, &mut stream[place..place + CHECKSUM]);
                let checksum = stream[place..place + CHECKSUM].to_vec();
                add(&mut sums, &checksum);
            }
        }
        add(&mut sums, &stream[at + RECORD..end]);
    }
    stream
}
