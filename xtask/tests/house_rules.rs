//! Rules of style that a machine can check, so that no reviewer has to.

#![forbid(unsafe_code)]

use std::path::Path;

/// The longest file that a reader can hold in mind.
const LINES_MAX: usize = 1000;

/// The crates that talk to the C library.
const UNSAFE_ALLOWED: &[&str] = &["crates/zpool-sys/", "crates/zpool/"];

fn sources() -> Vec<(std::path::PathBuf, String)> {
    let mut all = Vec::new();
    for extension in ["rs", "c", "h", "py", "sh"] {
        all.extend(xtask::texts(extension).unwrap_or_default());
    }
    all
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold_in_mind() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let count = text.lines().count();
        if count > LINES_MAX {
            wrong.push(format!(
                "{}: {count} lines, at most {LINES_MAX}",
                path.display()
            ));
        }
    }
    report(&wrong);
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let opens_well = |path: &Path, text: &str| {
        let body = text.trim_start_matches(|c: char| c.is_whitespace());
        match path.extension().and_then(|found| found.to_str()) {
            Some("rs") => body.starts_with("//!"),
            Some("c" | "h") => body.starts_with("/*") || body.starts_with("//"),
            Some("py") => {
                let first = body
                    .lines()
                    .find(|line| !line.starts_with('#'))
                    .unwrap_or("\"\"\"");
                first.starts_with("\"\"\"") || body.is_empty()
            }
            Some("sh") => body
                .lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("# ")),
            _ => true,
        }
    };
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        if !opens_well(&path, &text) {
            wrong.push(format!(
                "{}: open with a sentence on what it is for",
                path.display()
            ));
        }
    }
    report(&wrong);
}

#[test]
fn unsafe_code_is_forbidden_outside_the_two_crates_that_talk_to_the_library() {
    let mut wrong = Vec::new();
    for (path, text) in xtask::texts("rs").unwrap_or_default() {
        let name = path.to_string_lossy();
        let is_root = ["src/lib.rs", "src/main.rs"]
            .iter()
            .any(|end| name.ends_with(end));
        let may = UNSAFE_ALLOWED.iter().any(|start| name.starts_with(start));
        if is_root && !may && !text.contains("#![forbid(unsafe_code)]") {
            wrong.push(format!("{name}: add #![forbid(unsafe_code)]"));
        }
    }
    report(&wrong);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for (path, text) in xtask::texts("md").unwrap_or_default() {
        let folder = xtask::root().join(path.parent().expect("a file has a folder"));
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            let is_outside = target.contains("://") || target.is_empty();
            if !is_outside && !folder.join(target).exists() {
                wrong.push(format!("{}: no {target}", path.display()));
            }
        }
    }
    report(&wrong);
}
