//! Replies of a server of uninterruptible power supplies, in pieces of any size: each line is a value, or a reason
//! without control characters.

#![no_main]

use hardware::nut::{LINE_BYTES_MAX, Lines, Reading, quoted, refusal, value, words};
use libfuzzer_sys::fuzz_target;

/// The longest text of the peer in a reason or a status is 80 characters, and may be escaped.
const TEXT_BYTES_MAX: usize = 1_024;

fn is_plain(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control)
}

fn reply(words: &[String]) {
    assert!(is_plain(&refusal(words)));
    for name in ["ups.status", "battery.charge"] {
        match value(words, "rack-a", name) {
            Err(why) => assert!(is_plain(&why), "{why:?}"),
            Ok(None) => {}
            Ok(Some(value)) => {
                assert!(value.len() <= 3 * LINE_BYTES_MAX);
                let reading = Reading::of(&value, Some(&value), Some(&value));
                assert!(is_plain(&reading.status), "{reading:?}");
                assert!(
                    reading.problems.iter().all(|one| is_plain(one)),
                    "{reading:?}"
                );
                assert!(reading.charge_percent.is_none_or(|charge| charge <= 100));
                assert!(!(reading.is_online && reading.is_on_battery));
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((size, bytes)) = data.split_first() else {
        return;
    };
    let mut lines = Lines::default();
    for piece in bytes.chunks(usize::from(*size).max(1)) {
        lines.push(piece);
        loop {
            match lines.next_line() {
                Ok(Some(words)) => reply(&words),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let word: String = text.chars().filter(|letter| !letter.is_control()).collect();
    assert_eq!(words(&quoted(&text)), [word], "a quoted word is one word");
    let _ = Reading::of(&text, Some(&text), Some(&text));
});
