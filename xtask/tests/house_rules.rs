//! Rules of style that a machine can check, so that no reviewer has to.

#![forbid(unsafe_code)]

use std::path::Path;

/// The longest file that a reader can hold in mind.
const LINES_MAX: usize = 1000;

/// The crates that talk to the C library.
const UNSAFE_ALLOWED: &[&str] = &[
    "engines/ceph-sys/",
    "engines/zpool-sys/",
    "engines/zpool/",
    "protocols/kerberos/",
];

fn sources() -> Vec<(std::path::PathBuf, String)> {
    let mut all = Vec::new();
    for extension in ["rs", "c", "h", "py", "sh", "ts", "tsx", "mjs", "css"] {
        all.extend(xtask::texts(extension).unwrap_or_default());
    }
    all
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Files that a program makes, which no person reads from top to bottom.
const GENERATED: &[&str] = &["console/src/api/types.ts"];

#[test]
fn source_files_are_below_the_line_limit() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let count = text.lines().count();
        let is_made = GENERATED.iter().any(|made| path == Path::new(made));
        if count > LINES_MAX && !is_made {
            wrong.push(format!(
                "{}: {count} lines, at most {LINES_MAX}",
                path.display()
            ));
        }
    }
    report(&wrong);
}

#[test]
fn every_file_begins_with_a_module_comment() {
    let opens_well = |path: &Path, text: &str| {
        let body = text.trim_start_matches(|c: char| c.is_whitespace());
        match path.extension().and_then(|found| found.to_str()) {
            Some("rs") => body.starts_with("//!"),
            Some("ts" | "tsx" | "mjs") => body.starts_with("// "),
            Some("css") => body.starts_with("/* "),
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
fn unsafe_code_is_limited_to_ffi_crates() {
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

/// Pictures of the console for the readme; nothing else that is no text belongs here.
const PICTURES_MAX: usize = 4;
const PICTURE_BYTES_MAX: u64 = 160_000;

/// Rust 1.85, which Debian ships, does not know them; newer compilers do not say so.
#[test]
fn conditions_use_no_let_chains() {
    // In two parts, or this line would be found.
    let chain = concat!("&& ", "let ");
    let mut wrong = Vec::new();
    for (path, text) in xtask::texts("rs").unwrap_or_default() {
        let mut lines = text.lines().enumerate().peekable();
        while let Some((index, line)) = lines.next() {
            let is_open = line.trim_start().starts_with("if let ") && !line.ends_with('{');
            let goes_on = lines
                .peek()
                .is_some_and(|(_, next)| next.trim_start().starts_with("&& "));
            if line.contains(chain) || is_open && goes_on {
                wrong.push(format!(
                    "{}:{}: nest the conditions",
                    path.display(),
                    index + 1
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn images_are_few_and_small() {
    let is_picture = |path: &&std::path::PathBuf| {
        let extension = path.extension().and_then(|found| found.to_str());
        matches!(extension, Some("png" | "jpg" | "jpeg" | "gif" | "webp"))
    };
    let files = xtask::tracked_files().unwrap_or_default();
    let pictures: Vec<_> = files.iter().filter(is_picture).collect();
    let mut wrong = Vec::new();
    for path in &pictures {
        let bytes = std::fs::metadata(xtask::root().join(path)).map_or(0, |found| found.len());
        if !path.starts_with("docs/images") || bytes > PICTURE_BYTES_MAX {
            let shown = path.display();
            wrong.push(format!(
                "{shown}: {bytes} bytes; pictures are in docs/images, at most {PICTURE_BYTES_MAX} bytes"
            ));
        }
    }
    if pictures.len() > PICTURES_MAX {
        let count = pictures.len();
        wrong.push(format!("{count} pictures, at most {PICTURES_MAX}"));
    }
    report(&wrong);
}

#[test]
fn console_lockfile_contains_no_registry_host() {
    let lock = xtask::root().join("console/package-lock.json");
    let text = std::fs::read_to_string(lock).unwrap_or_default();
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.contains("://") {
            wrong.push(format!(
                "console/package-lock.json:{number}: {}",
                line.trim()
            ));
        }
    }
    report(&wrong);
}

#[test]
fn links_between_documents_resolve() {
    let mut wrong = Vec::new();
    for (path, text) in xtask::texts("md").unwrap_or_default() {
        let folder = xtask::root().join(path.parent().expect("a file has a folder"));
        for rest in text.split("](").skip(1) {
            let link = rest.split([')', ' ']).next().unwrap_or_default();
            if link.contains("://") {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = match target {
                "" => xtask::root().join(&path),
                target => folder.join(target),
            };
            let is_page = file.extension().is_some_and(|found| found == "md");
            if !file.exists() {
                wrong.push(format!("{}: no {target}", path.display()));
            } else if is_page && !anchor.is_empty() {
                let page = std::fs::read_to_string(&file).expect("a document");
                if !anchors(&page).iter().any(|found| found == anchor) {
                    wrong.push(format!("{}: no section {link}", path.display()));
                }
            }
        }
    }
    report(&wrong);
}

/// Returns the anchors of the headings of a Markdown text, as GitHub creates them.
fn anchors(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut anchors = Vec::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if !is_code && heading.len() < line.len() && heading.starts_with(' ') {
            let is_kept = |c: &char| c.is_alphanumeric() || matches!(*c, ' ' | '-' | '_');
            let kept: String = heading.trim().chars().filter(is_kept).collect();
            anchors.push(kept.to_lowercase().replace(' ', "-"));
        }
    }
    anchors
}
