//! Text from outside as short plain text.

/// Text of a device, a tool or a peer without effect on a terminal or a log: one line of at most `chars_max` characters,
/// without spaces around it, and without control characters or those that change the direction of text.
pub fn printable(text: &str, chars_max: usize) -> String {
    let letters = text.chars().filter(|letter| !is_hidden(*letter));
    let text: String = letters
        .skip_while(|letter| letter.is_whitespace())
        .take(chars_max)
        .collect();
    text.trim_end().to_owned()
}

/// Control characters, line and paragraph separators, marks of direction (Unicode 15, section 23.2), and the byte order
/// mark.
fn is_hidden(letter: char) -> bool {
    let is_format = matches!(
        letter,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    );
    letter.is_control() || is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_short_line() {
        assert_eq!(printable("  ST4000\t \n", 64), "ST4000");
        assert_eq!(printable("a\u{1b}[2Jb\r\nc\0", 64), "a[2Jbc");
        assert_eq!(
            printable("\u{202e}txt\u{2066}.exe\u{2028}x\u{feff}", 64),
            "txt.exex"
        );
        assert_eq!(printable("\u{1b} \u{1b} é日本", 2), "é日");
        assert_eq!(printable("ab  cd", 3), "ab");
        assert_eq!(printable("\n\t ", 64), "");
        assert_eq!(printable("abc", 0), "");
    }
}
