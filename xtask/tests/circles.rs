//! Circles of imports between the modules of a crate: none has more than two, and there are no new ones.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Circles that stand within one room of the code and do no harm there. The list only gets shorter.
const KNOWN_CYCLES: &[(&str, [&str; 2])] = &[
    ("services/api", ["account_merge", "accounts"]),
    ("core/appliance", ["check", "parse"]),
    ("core/control", ["client", "server"]),
    ("core/control", ["operations", "request"]),
    ("engines/labels", ["device", "label"]),
    ("engines/zpool", ["crypto", "runtime"]),
];

/// Modules of one crate, each with those that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The crate that a source file belongs to, and its first module there. The roots of crates import everything.
fn place(path: &Path) -> Option<(String, String)> {
    let (in_crate, in_source) = path.to_str()?.split_once("/src/")?;
    let module = in_source.split('/').next()?.trim_end_matches(".rs");
    let is_root = matches!(module, "lib" | "main" | "bin");
    (!is_root).then(|| (in_crate.to_owned(), module.to_owned()))
}

/// The modules that a text names behind `crate::`, up to its tests and without its comments.
fn named(text: &str) -> BTreeSet<String> {
    let code = text
        .split("\n#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(group) => found.extend(first_words(group)),
            None => found.extend([word(part)]),
        }
    }
    found
}

fn word(text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    text[..end].to_owned()
}

/// The first word of each member of a group `a::{b, c}, d}`, whose opening brace is gone.
fn first_words(group: &str) -> Vec<String> {
    let (mut depth, mut words, mut is_first) = (0, Vec::new(), true);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            _ if is_first && !letter.is_whitespace() => {
                words.push(word(&group[at..]));
                is_first = false;
            }
            _ => {}
        }
    }
    words
}

fn imports() -> Option<BTreeMap<String, Imports>> {
    let mut crates: BTreeMap<String, Imports> = BTreeMap::new();
    for (path, text) in xtask::texts("rs")? {
        if let Some((name, module)) = place(&path) {
            let of_crate = crates.entry(name).or_default();
            of_crate.entry(module).or_default().extend(named(&text));
        }
    }
    Some(crates)
}

/// What `module` reaches in one step or more.
fn reached<'a>(imports: &'a Imports, module: &str) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(one) = next.pop() {
        let names = imports.get(one).into_iter().flatten();
        for name in names.filter(|name| imports.contains_key(*name) && *name != one) {
            if found.insert(name.as_str()) {
                next.push(name);
            }
        }
    }
    found
}

/// Sets of modules in which each reaches each other.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let all: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|module| (module.as_str(), reached(imports, module)))
        .collect();
    let of = |module: &str| {
        let others = all[module]
            .iter()
            .filter(|other| all[**other].contains(module));
        others.map(|other| (*other).to_owned()).collect::<Vec<_>>()
    };
    let circles = all.keys().map(|module| of(module));
    circles.filter(|circle| circle.len() > 1).collect()
}

#[test]
fn no_new_import_cycles_between_modules() {
    let Some(crates) = imports() else { return };
    let found = crates.iter().flat_map(|(name, imports)| {
        let circles = circles(imports).into_iter();
        circles.map(move |circle| (name.clone(), circle))
    });
    let found: BTreeSet<_> = found.collect();
    let known = KNOWN_CYCLES.iter().map(|(name, circle)| {
        let circle = circle.iter().map(|module| (*module).to_owned());
        ((*name).to_owned(), circle.collect::<Vec<_>>())
    });
    let known: BTreeSet<_> = known.collect();
    let new: Vec<_> = found.difference(&known).collect();
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new circles of imports: {new:#?}\nno longer there, to be taken out of the list: {gone:#?}"
    );
}

#[test]
fn import_cycle_is_found_across_groups_and_modules() {
    assert_eq!(
        named("use crate::{a::{x, y}, b};\n// crate::no\nfn f() { crate::c::g() }")
            .into_iter()
            .collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    let imports = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")];
    let imports: Imports = imports
        .map(|(from, to)| (from.to_owned(), [to.to_owned()].into()))
        .into();
    let found: Vec<_> = circles(&imports).into_iter().collect();
    assert_eq!(found, [["a", "b", "c"]]);
}
