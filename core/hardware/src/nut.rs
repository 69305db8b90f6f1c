//! Replies of `upsd`, the server of Network UPS Tools (RFC 9271), which are lines of text. A UPS, its driver or its network
//! may report anything. The crate `cluster` has the connection.

use units::printable;

/// The longest line of a reply, in bytes, with its end.
pub const LINE_BYTES_MAX: usize = 1_024;
/// The longest text of a peer that is shown, in characters.
const TEXT_CHARS_MAX: usize = 80;
/// More seconds are no running time of a battery.
const RUNTIME_MAX_S: f64 = 1e7;

/// The state that a UPS reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Its status, as reported, such as `OL CHRG`.
    pub status: String,
    /// Mains supply its load (`OL`).
    pub is_online: bool,
    /// Its battery supplies the load (`OB`).
    pub is_on_battery: bool,
    /// Its battery is low (`LB`).
    pub is_low: bool,
    /// It is about to switch its load off (`FSD`).
    pub is_forced: bool,
    /// It measures its battery (`CAL`), and discharges it for that.
    pub is_calibrating: bool,
    /// The charge of its battery.
    pub charge_percent: Option<u8>,
    /// How long its battery can supply the load.
    pub runtime_s: Option<u32>,
    /// Values that were ignored, each in a sentence.
    pub problems: Vec<String>,
}

impl Reading {
    /// Interprets the values of a UPS. A value that cannot be true is ignored, and reported.
    pub fn of(status: &str, charge: Option<&str>, runtime: Option<&str>) -> Self {
        let has = |flag| status.split_whitespace().any(|one| one == flag);
        let mut problems = Vec::new();
        let mut number = |what: &str, unit: &str, value: Option<&str>, max: f64| {
            let value = value?;
            let parsed = value.trim().parse::<f64>().ok();
            let valid = parsed.filter(|number| (0.0..=max).contains(number));
            if valid.is_none() {
                problems.push(format!(
                    "it reports a {what} of {}{unit}, which is ignored",
                    plain(value)
                ));
            }
            valid
        };
        // In range, as just checked.
        let charge_percent = number("charge", " percent", charge, 100.0).map(|number| number as u8);
        let runtime_s =
            number("running time", " s", runtime, RUNTIME_MAX_S).map(|number| number as u32);
        let [is_online, is_on_battery] = [has("OL"), has("OB")];
        if is_online && is_on_battery {
            problems.push("it reports mains and battery at once; battery counts".to_owned());
        }
        Self {
            status: plain(status),
            is_online: is_online && !is_on_battery,
            is_on_battery,
            is_low: has("LB"),
            is_forced: has("FSD"),
            is_calibrating: has("CAL"),
            charge_percent,
            runtime_s,
            problems,
        }
    }
}

/// Received bytes, as lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

/// A line is longer than [`LINE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

impl Lines {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The words of the next line. `None` if its end was not received yet.
    ///
    /// # Errors
    ///
    /// The line is too long. The connection cannot be used any more.
    pub fn next_line(&mut self) -> Result<Option<Vec<String>>, LineTooLong> {
        let end = self.rest.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.rest.len(), |end| end + 1);
        match end {
            _ if length > LINE_BYTES_MAX => Err(LineTooLong),
            None => Ok(None),
            Some(end) => {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                Ok(Some(words(&String::from_utf8_lossy(&line))))
            }
        }
    }
}

/// The words of a line. One with spaces is in quotation marks; `\` escapes a character there (RFC 9271, section 4.1).
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = line.trim_end_matches(['\n', '\r']).chars();
    while let Some(first) = letters.next() {
        if first == ' ' {
            continue;
        }
        let is_quoted = first == '"';
        let mut word = String::new();
        if !is_quoted {
            word.push(first);
        }
        while let Some(letter) = letters.next() {
            match letter {
                '"' if is_quoted => break,
                ' ' if !is_quoted => break,
                '\\' if is_quoted => word.extend(letters.next()),
                other => word.push(other),
            }
        }
        words.push(word);
    }
    words
}

/// A text of a request in quotation marks. A line break would begin another request, and is left out.
pub fn quoted(word: &str) -> String {
    let word: String = word.chars().filter(|letter| !letter.is_control()).collect();
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// The value in the reply to `GET VAR ups name`; `None` if the UPS does not have the variable.
///
/// # Errors
///
/// A sentence: the reply is an error, or of another request.
pub fn value(reply: &[String], ups: &str, name: &str) -> Result<Option<String>, String> {
    let words: Vec<&str> = reply.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["VAR", of, which, value] if *of == ups && *which == name => Ok(Some((*value).to_owned())),
        ["ERR", "VAR-NOT-SUPPORTED", ..] => Ok(None),
        _ => Err(refusal(reply)),
    }
}

/// The meaning of an error of `upsd`, as a sentence.
pub fn refusal(reply: &[String]) -> String {
    let code = match reply {
        [first, code, ..] if first == "ERR" => code.as_str(),
        _ => return format!("upsd replied {:?}", plain(&reply.join(" "))),
    };
    let words = match code {
        "ACCESS-DENIED" | "INVALID-PASSWORD" | "INVALID-USERNAME" => {
            "upsd refuses the user or the password, or the address of this head"
        }
        "UNKNOWN-UPS" => "upsd has no UPS of this name",
        "DATA-STALE" => "the UPS does not respond to its driver",
        "DRIVER-NOT-CONNECTED" => "the driver of the UPS does not run",
        "VAR-NOT-SUPPORTED" => "the UPS does not report its status",
        other => return format!("upsd replied with the error {}", plain(other)),
    };
    format!("{words} ({code})")
}

fn plain(text: &str) -> String {
    printable(text, TEXT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_ignored_and_reported() {
        for (charge, runtime, problems) in [
            ("300", "-5", 2),
            ("NaN", "inf", 2),
            ("full", "", 2),
            ("-0.1", "1e99", 2),
            ("0x10", "١٢", 2),
            ("100", "0", 0),
        ] {
            let reading = Reading::of("OL", Some(charge), Some(runtime));
            assert_eq!(reading.problems.len(), problems, "{charge} {runtime}");
            assert_eq!(reading.charge_percent.is_none(), problems > 0);
        }
        let both = Reading::of("OL OB\x1b[2J LB", None, None);
        assert!(both.status.starts_with("OL OB[2J"), "{}", both.status);
        assert!(!Reading::of("", None, None).is_online);
    }

    #[test]
    fn mains_and_battery_at_once_count_as_battery() {
        let both = Reading::of("OL OB", None, None);
        assert!(both.is_on_battery && !both.is_online);
        assert_eq!(both.problems.len(), 1);
        // Flags are separated by spaces.
        let similar = Reading::of("OLX LBO ALARM", None, None);
        assert_eq!(
            (similar.is_online, similar.is_low, similar.is_forced),
            (false, false, false)
        );
    }

    #[test]
    fn lines_are_split_into_words() {
        let split = |line| words(line).join("|");
        assert_eq!(split("VAR a b \"c d\"\r\n"), "VAR|a|b|c d");
        assert_eq!(split("A \"x\\\"y\\\\\" \"\" B"), "A|x\"y\\||B");
        assert_eq!(split("  \"open"), "open");
        assert_eq!(split("\"\\"), "");
    }

    #[test]
    fn lines_arrive_in_any_pieces() {
        let text = b"VAR rack-a ups.status \"OL\"\nERR DATA-STALE\nOK";
        for size in 1..text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(words) = lines.next_line().expect("short") {
                    found.push(words.join("|"));
                }
            }
            assert_eq!(found, ["VAR|rack-a|ups.status|OL", "ERR|DATA-STALE"]);
        }
    }

    #[test]
    fn long_line_is_refused_with_and_without_its_end() {
        let longest = [vec![b'x'; LINE_BYTES_MAX - 1], b"\n".to_vec()].concat();
        let mut lines = Lines::default();
        lines.push(&longest);
        assert!(lines.next_line().is_ok_and(|words| words.is_some()));
        for end in ["", "\n"] {
            let mut lines = Lines::default();
            lines.push(&vec![b'x'; LINE_BYTES_MAX]);
            lines.push(format!("x{end}").as_bytes());
            assert_eq!(lines.next_line(), Err(LineTooLong));
        }
    }

    #[test]
    fn value_of_another_ups_or_variable_is_refused() {
        let of = |line| value(&words(line), "rack-a", "ups.status");
        assert_eq!(
            of("VAR rack-a ups.status \"OL\""),
            Ok(Some("OL".to_owned()))
        );
        assert_eq!(of("ERR VAR-NOT-SUPPORTED"), Ok(None));
        for line in [
            "VAR rack-b ups.status \"OL\"",
            "VAR rack-a ups.statusx \"OL\"",
            "VAR rack-a ups.status OL OB",
            "VAR rack-a ups.status",
            "var rack-a ups.status \"OL\"",
            "OK",
            "",
        ] {
            let why = of(line).expect_err(line);
            assert!(why.starts_with("upsd replied"), "{why}");
        }
    }

    #[test]
    fn quoted_word_begins_no_other_request() {
        let quoted = quoted("a\" b\\\nFSD rack-a");
        assert!(!quoted.contains('\n'), "{quoted}");
        assert_eq!(words(&quoted), ["a\" b\\FSD rack-a"]);
    }
}
