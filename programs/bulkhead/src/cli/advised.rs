//! Compares the commands in all messages of the source with the command line: advice with a verb or an option that does
//! not exist is of no use at night.

use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::Cli;

/// Directories with messages.
const SOURCES: [&str; 6] = [
    "core",
    "engines",
    "legs",
    "protocols",
    "programs",
    "services",
];
/// Commands in the source, at least: fewer mean that the search is broken.
const COMMANDS_MIN: usize = 150;

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(directory).expect("a directory");
    for entry in entries.map(|entry| entry.expect("an entry").path()) {
        let is_test = entry
            .file_stem()
            .is_some_and(|name| name == "tests" || name == "advised");
        match entry.is_dir() {
            _ if is_test => {}
            true => sources(&entry, found),
            false if entry.extension().is_some_and(|kind| kind == "rs") => found.push(entry),
            false => {}
        }
    }
}

/// The commands in backticks within strings, without the line breaks of long strings.
fn commands(text: &str) -> Vec<String> {
    // Tests have wrong commands on purpose.
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = code.collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (start, end) in [
        ("`bulkhead ", '`'),
        (".by(\"bulkhead ", '"'),
        ("format!(\"bulkhead ", '"'),
    ] {
        let places = code.match_indices(start).map(|(at, _)| at + start.len());
        for rest in places.map(|at| &code[at..]) {
            let command = rest.split(end).next().unwrap_or_default();
            // A string continues after a backslash, without the indentation.
            let words = command
                .split(['\n', ' ', '\\'])
                .filter(|word| !word.is_empty());
            found.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    found
}

/// The first word that the command line does not have. Names and values are not compared.
fn unknown(words: &str) -> Option<String> {
    let mut command = Cli::command();
    command.build();
    let mut command = &command;
    for word in words.split(' ') {
        let word = word.trim_end_matches([',', '.', ';', ':', ')']);
        if let Some(option) = word.strip_prefix("--") {
            let option = option.split('=').next().unwrap_or_default();
            let mut known = command.get_arguments().filter_map(|one| one.get_long());
            if !option.contains('{') && !known.any(|one| one == option) {
                return Some(format!("--{option}"));
            }
            continue;
        }
        let is_verb = word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        if !command.has_subcommands() || !is_verb || word.is_empty() {
            continue;
        }
        match command.find_subcommand(word) {
            Some(inner) => command = inner,
            None => return Some(word.to_owned()),
        }
    }
    None
}

#[test]
fn every_command_in_a_message_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for directory in SOURCES {
        sources(&root.join(directory), &mut files);
    }
    let mut count = 0;
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        for command in commands(&text) {
            count += 1;
            if let Some(word) = unknown(&command) {
                wrong.push(format!("{}: {word} in `{command}`", file.display()));
            }
        }
    }
    assert!(count >= COMMANDS_MIN, "{count} commands");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn wrong_verbs_and_options_are_found() {
    for (words, wrong) in [
        ("pool status {pool}", None),
        ("pool replace {pool} {leg} {head}:PATH", None),
        ("status tank --json", None),
        ("pool mend tank", Some("mend")),
        ("pool status tank --now", Some("--now")),
    ] {
        assert_eq!(unknown(words).as_deref(), wrong, "{words}");
    }
    let text = "let a = \"run `bulkhead pool \\\n    status tank` now\";\n// `bulkhead no`\n";
    assert_eq!(commands(text), ["pool status tank"]);
}
