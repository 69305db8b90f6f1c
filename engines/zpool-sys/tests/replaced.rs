//! The library calls the functions that the shim replaces through the dynamic linker: a compiler may bind a call within
//! one file directly, and then the shim's function would never run.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn told(tool: &str, words: &[&str], file: &Path) -> Vec<String> {
    let told = Command::new(tool).args(words).arg(file).output();
    let told = told.expect("nm and readelf (package binutils) run");
    assert!(told.status.success(), "{tool} {}", file.display());
    let text = String::from_utf8(told.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

/// Last words of lines, without the version of a symbol.
fn names(lines: &[String]) -> BTreeSet<&str> {
    let last = lines
        .iter()
        .filter_map(|line| line.split_whitespace().last());
    last.filter_map(|name| name.split('@').next()).collect()
}

/// Names of the library's relocations; the addend is last in their lines.
fn called_by_the_linker(lines: &[String]) -> BTreeSet<&str> {
    let named = lines.iter().filter(|line| line.contains(" + "));
    let before = named.filter_map(|line| line.rsplit_once(" + ")?.0.split_whitespace().last());
    before.filter_map(|name| name.split('@').next()).collect()
}

#[test]
fn library_calls_replaced_functions_through_the_linker() {
    let shim = Path::new(env!("OUT_DIR")).join("libbulkhead_zfs.a");
    let library = Path::new(env!("OPENZFS_LIBRARY"));
    let own = told("nm", &["--defined-only", "--extern-only"], &shim);
    let exported = told("nm", &["--dynamic", "--defined-only"], library);
    let calls = told("readelf", &["--wide", "--relocs"], library);

    let exported = names(&exported);
    let own = names(&own);
    let replaced: Vec<_> = own.intersection(&exported).copied().collect();
    assert!(replaced.len() > 20, "only {replaced:?} are replaced");

    let called = called_by_the_linker(&calls);
    let missed: Vec<_> = replaced
        .iter()
        .filter(|name| !called.contains(*name))
        .collect();
    assert!(
        missed.is_empty(),
        "the library never calls the shim's {missed:?}"
    );
}
