//! Wraps long sentences to the width of the terminal. Text between backticks is a command: it is copied, and so never
//! broken.

/// Width of a terminal that does not report one.
const COLUMNS_DEFAULT: usize = 80;
/// A reported width below this is ignored: lines of single words are unreadable.
const COLUMNS_MIN: usize = 40;
/// Width of the column of names.
const MARGIN: usize = 10;

/// Returns the width of the output's terminal. Without one there is no wrapping, so that `grep`
/// finds whole sentences.
pub fn columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Err(_) => usize::MAX,
        Ok(size) if size.ws_col == 0 => COLUMNS_DEFAULT,
        Ok(size) => usize::from(size.ws_col).max(COLUMNS_MIN),
    }
}

/// Returns a line called `name` with `text`, and its continuation lines.
pub fn line(name: &str, text: &str) -> String {
    wrapped(name, text, columns())
}

fn wrapped(name: &str, text: &str, columns: usize) -> String {
    let mut all = format!("{name:<width$}", width = MARGIN - 1);
    let mut column = all.chars().count();
    for word in words(text) {
        let length = word.chars().count();
        if column + 1 + length > columns && column >= MARGIN {
            all.push('\n');
            all.extend(std::iter::repeat_n(' ', MARGIN - 1));
            column = MARGIN - 1;
        }
        all.push(' ');
        all.push_str(word);
        column += 1 + length;
    }
    all.push('\n');
    all
}

/// Splits `text` into words; a command with its punctuation is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut is_command = false;
    let breaks_here = move |letter: char| {
        is_command ^= letter == '`';
        letter == ' ' && !is_command
    };
    text.split(breaks_here).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_fit_and_keep_commands_whole() {
        let text = "destroy snapshots or volumes without a purpose, or add devices; the use of space is shown \
                    by: `bulkhead volume space tank` (tank is 91 % full, 3G are left)";
        let shown = wrapped("next:", text, 60);
        assert_eq!(
            shown,
            "next:     destroy snapshots or volumes without a purpose, or\n          \
             add devices; the use of space is shown by:\n          \
             `bulkhead volume space tank` (tank is 91 % full,\n          \
             3G are left)\n"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 60));
    }

    #[test]
    fn overlong_command_gets_its_own_line() {
        let command = "`bulkhead pool replace-disk tank /dev/disk/by-id/scsi-0123456789abcdef --with /dev/sdb`";
        let shown = wrapped("then:", &format!("replace it: {command} (it failed)"), 40);
        let lines: Vec<&str> = shown.lines().map(str::trim_start).collect();
        assert_eq!(lines, ["then:     replace it:", command, "(it failed)"]);
    }
}
