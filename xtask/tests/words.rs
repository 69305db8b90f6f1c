//! The words of comments, documents and messages are those of the field: words of a list are rare, in each
//! directory and in the whole.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;

/// Words that seven well-kept projects of this field hardly use, each group with its count in 222,000 words of
/// their comments. Two words stand for the pair, one after the other.
const GROUPS: &[(&str, u32, &[&str])] = &[
    (
        "speech: write returns, reports, logs, notifies, sends, receives; request, response, reply",
        32,
        &[
            "told", "tells", "says", "said", "heard", "hears", "asked", "asks", "answer", "answers",
        ],
    ),
    (
        "persons: write the caller, the client, the peer, the owner, the process, no client",
        10,
        &[
            "nobody",
            "somebody",
            "whoever",
            "who",
            "whose",
            "others",
            "another one",
        ],
    ),
    (
        "no noun: write the data, the request, the block, the state",
        205,
        &["what", "everything", "something", "that which"],
    ),
    (
        "states: write blocks, stalls, is paused, resumes, recovers, reconnects, terminates, is stored",
        16,
        &[
            "waits",
            "stands",
            "stand",
            "goes on",
            "go on",
            "comes back",
            "come back",
            "goes away",
            "ends",
            "lives",
        ],
    ),
    (
        "acts: write acquires, consumes, creates, allocates, returns, holds, retains, releases",
        41,
        &["takes", "gives", "makes", "keeps", "lets go"],
    ),
    (
        "mind: write stores, caches, persists, checks, reads, detects",
        3,
        &["knows", "remembers", "looks", "learns"],
    ),
    (
        "rare: write confirmation, desired state, slot, timestamp, concurrently, next to, again, is missing",
        5,
        &[
            "word",
            "wish",
            "place",
            "moment",
            "meanwhile",
            "beside",
            "anew",
            "lacks",
        ],
    ),
    (
        "things: write directory, host or node, binary or process",
        25,
        &["folder", "machine", "program"],
    ),
];

const ANCHOR_WORDS: f64 = 222_000.0;

/// How many times as often as the anchors: the bound.
const FREQUENCY_RATIO_MAX: f64 = 3.0;

/// Terms of the field that hold a word of the list.
const TERMS: &[&str] = &[
    "in place",
    "into place",
    "state machine",
    "virtual machine",
    "rpc program",
    "program number",
    "machine account",
];

/// This list, and a file that is generated from descriptions elsewhere.
const EXCLUDED: &[&str] = &["xtask/tests/words.rs", "console/src/api/types.ts"];

/// The least number of words that a frequency is computed of.
const WORDS_MIN: usize = 2_000;

#[derive(Default)]
struct Count {
    words: usize,
    by_group: [usize; GROUPS.len()],
    by_file: BTreeMap<String, usize>,
}

impl Count {
    fn add(&mut self, file: &str, prose: &str) {
        let prose = TERMS
            .iter()
            .fold(plain(prose), |text, term| text.replace(term, ""));
        let words: Vec<&str> = prose.split(' ').filter(|word| !word.is_empty()).collect();
        self.words += words.len();
        for (at, word) in words.iter().enumerate() {
            let pair = format!("{word} {}", words.get(at + 1).unwrap_or(&""));
            for (group, (_, _, listed)) in GROUPS.iter().enumerate() {
                if listed.contains(word) || listed.contains(&pair.as_str()) {
                    self.by_group[group] += 1;
                    *self.by_file.entry(file.to_owned()).or_default() += 1;
                }
            }
        }
    }

    fn listed(&self) -> usize {
        self.by_group.iter().sum()
    }

    fn frequency(&self, count: usize) -> f64 {
        count as f64 * 10_000.0 / self.words.max(1) as f64
    }
}

/// A text in lower case, its words with one space between; code in backticks is left out.
fn plain(text: &str) -> String {
    let mut words = String::new();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 1 {
            continue;
        }
        let letters = part.chars().map(|letter| match letter {
            'a'..='z' | '\'' => letter,
            'A'..='Z' => letter.to_ascii_lowercase(),
            _ => ' ',
        });
        words.extend(letters);
        words.push(' ');
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Comments and messages of a source, or the prose of a document. Code is left out.
fn prose(path: &Path, text: &str) -> String {
    match path.extension().and_then(|found| found.to_str()) {
        Some("md") => text.split("```").step_by(2).collect::<Vec<_>>().join("\n"),
        Some("rs" | "c" | "h" | "ts" | "tsx" | "mjs") => with_slashes(text),
        Some("py") => with_hashes(text, true),
        _ => with_hashes(text, false),
    }
}

/// A line's strings of four words or more, without their placeholders.
fn messages(line: &str) -> String {
    let quoted = line.split('"').skip(1).step_by(2);
    let long = quoted.filter(|text| text.split_whitespace().count() >= 4);
    let without = |text: &str| {
        let parts = text.split('{');
        let parts = parts.map(|part| part.rsplit('}').next().unwrap_or_default());
        parts.collect::<Vec<_>>().join(" ")
    };
    long.map(without).collect::<Vec<_>>().join("\n")
}

fn with_slashes(text: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        in_block |= trimmed.starts_with("/*");
        let item = trimmed.strip_prefix("//!").or(trimmed.strip_prefix("///"));
        let comment = match (item, line.find("// ")) {
            (Some(comment), _) => comment,
            (None, Some(at)) => &line[at + 3..],
            (None, None) if in_block => trimmed,
            (None, None) => "",
        };
        in_block &= !trimmed.contains("*/");
        prose.push_str(comment);
        if comment.is_empty() {
            prose.push_str(&messages(line));
        }
        prose.push('\n');
    }
    prose
}

fn with_hashes(text: &str, has_strings: bool) -> String {
    let mut prose = String::new();
    let mut in_text = false;
    for line in text.lines() {
        let quotes = line.matches("\"\"\"").count();
        let comment = line.split_once("# ").map_or("", |(_, comment)| comment);
        if has_strings && (in_text || quotes > 0) {
            prose.push_str(line);
        } else {
            prose.push_str(comment);
            if has_strings && comment.is_empty() {
                prose.push_str(&messages(line));
            }
        }
        in_text ^= has_strings && quotes % 2 == 1;
        prose.push('\n');
    }
    prose
}

/// The directory that a file is counted in: two levels, or one where there is no more.
fn room(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [] | [_] => ".".to_owned(),
        [first, second, _, ..]
            if matches!(
                &**first,
                "core" | "engines" | "legs" | "services" | "protocols" | "programs"
            ) =>
        {
            format!("{first}/{second}")
        }
        [first, ..] => first.to_string(),
    }
}

fn counts() -> BTreeMap<String, Count> {
    let mut rooms: BTreeMap<String, Count> = BTreeMap::new();
    for extension in ["rs", "c", "h", "ts", "tsx", "mjs", "py", "sh", "md"] {
        for (path, text) in xtask::texts(extension).unwrap_or_default() {
            if EXCLUDED.iter().any(|excluded| path == Path::new(excluded)) {
                continue;
            }
            let count = rooms.entry(room(&path)).or_default();
            count.add(&path.to_string_lossy(), &prose(&path, &text));
        }
    }
    rooms
}

fn bound(anchors: u32) -> f64 {
    f64::from(anchors) * 10_000.0 / ANCHOR_WORDS * FREQUENCY_RATIO_MAX
}

#[test]
fn listed_words_are_rare_in_each_directory() {
    let most = bound(GROUPS.iter().map(|(_, anchors, _)| anchors).sum());
    let mut wrong = Vec::new();
    for (room, count) in counts() {
        let found = count.frequency(count.listed());
        if found > most && count.words > WORDS_MIN {
            let mut files: Vec<_> = count.by_file.iter().collect();
            files.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            files.truncate(10);
            wrong.push(format!(
                "{room}: {found:.0} per 10,000 words, at most {most:.0}; {files:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "words of the list: {wrong:#?}");
}

#[test]
fn each_word_group_is_rare_overall() {
    let rooms = counts();
    let mut whole = Count::default();
    for count in rooms.values() {
        whole.words += count.words;
        for (sum, group) in whole.by_group.iter_mut().zip(count.by_group) {
            *sum += group;
        }
    }
    let mut wrong = Vec::new();
    for ((name, anchors, _), count) in GROUPS.iter().zip(whole.by_group) {
        let (found, most) = (whole.frequency(count), bound(*anchors));
        if found > most {
            wrong.push(format!("{found:.1} per 10,000, at most {most:.1}: {name}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn prose_count_excludes_code_and_includes_messages() {
    let source = "//! Says it.\nlet answer = \"who is it that asks\"; // told\nfn who() {}\n";
    let found = prose(Path::new("a.rs"), source);
    let mut count = Count::default();
    count.add("a.rs", &found);
    assert_eq!(count.by_group[0], 2, "{found}");
    count.add(
        "a.md",
        &prose(Path::new("a.md"), "who\n```\nwho\n```\n`who` in place\n"),
    );
    assert_eq!(count.by_group[1], 1);
}
