//! The manual pages: one for the binary, every noun and every verb, generated from the command
//! line's definitions.

use std::io::Result;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

/// Writes all pages into `directory`.
pub fn write(directory: &Path) -> Result<()> {
    // The library of the build host is irrelevant to readers of the pages.
    let command = super::Cli::command().long_version(None::<&'static str>);
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_below(&command, None, directory)
}

fn write_below(command: &Command, parent: Option<&str>, directory: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let inner = command.get_subcommands();
    for inner in inner.filter(|inner| !inner.is_hide_set()) {
        write_below(inner, Some(name), directory)?;
    }
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = with_title(&String::from_utf8_lossy(&text), name);
    let text = with_headings(&text, parent);
    std::fs::write(directory.join(page.get_filename()), text)
}

/// Returns the page with the title line of man-pages(7). Without a date, so that builds are reproducible.
fn with_title(page: &str, name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let upper = name.to_uppercase();
    let title = format!(".TH \"{upper}\" 1 \"\" \"Bulkhead {version}\" \"Bulkhead\"");
    let lines = page.lines().map(|line| match line.starts_with(".TH ") {
        true => title.as_str(),
        // Trailing blanks have no meaning, and checkers report them.
        false => line.trim_end(),
    });
    lines.fold(String::new(), |text, line| text + line + "\n")
}

/// Returns the page with the headings of man-pages(7) above the notes that follow the options in
/// the help.
fn with_headings(page: &str, parent: Option<&str>) -> String {
    const EXTRA: &str = ".SH EXTRA\n";
    const EXIT_CODES: &str = "\nExit codes";
    const EXIT_STATUS: &str = "\n.SH \"EXIT STATUS\"\nExit codes";
    let mut page = page.to_owned();
    for heading in ["Examples:\n", "Example:\n"] {
        page = page.replace(&format!("{EXTRA}{heading}"), ".SH EXAMPLES\n");
    }
    page = page.replace(&format!("{EXTRA}Exit codes"), &EXIT_STATUS[1..]);
    page = page.replace(&format!("\n{EXIT_CODES}"), EXIT_STATUS);
    if let Some(parent) = parent {
        let (dashed, last) = (parent.replace('-', "\\-"), "\n.SH \"SEE ALSO\"\n");
        page = format!("{}{last}\\fB{dashed}\\fR(1)", page.trim_end());
        if parent != "bulkhead" {
            page.push_str(", \\fBbulkhead\\fR(1)");
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_exit_codes_have_the_usual_headings() {
        let page = ".SH EXTRA\nExamples:\n  bulkhead x\n\nExit codes:\n  0 done\n";
        let wanted = ".SH EXAMPLES\n  bulkhead x\n.SH \"EXIT STATUS\"\nExit codes:\n  0 done\n";
        assert_eq!(with_headings(page, None), wanted);
        let parts = with_headings(".SH NAME\nx\n", Some("bulkhead-pool"));
        let see = ".SH \"SEE ALSO\"\n\\fBbulkhead\\-pool\\fR(1), \\fBbulkhead\\fR(1)\n";
        assert!(parts.ends_with(see), "{parts}");
    }

    #[test]
    fn every_page_is_complete() {
        let directory = tempfile::tempdir().expect("a folder");
        write(directory.path()).expect("written");
        let pages = std::fs::read_dir(directory.path()).expect("readable");
        for page in pages {
            let path = page.expect("listed").path();
            let text = std::fs::read_to_string(&path).expect("text");
            let name = path.file_name().expect("a name").to_string_lossy();
            assert!(!text.contains("SH EXTRA"), "{name}");
            assert!(
                !text.contains("leg\\-faults"),
                "{name} shows hidden options"
            );
            let is_linked = text.contains("SEE ALSO") || name == "bulkhead.1";
            assert!(is_linked && text.contains(".SH SYNOPSIS"), "{name}");
        }
        let main = std::fs::read_to_string(directory.path().join("bulkhead.1"));
        assert!(main.expect("written").contains(".SH \"EXIT STATUS\""));
    }
}
