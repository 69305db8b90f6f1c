//! Compiles the C shim and links it with a ZFS library: Debian's, or the one in the directory `$BULKHEAD_LIBZPOOL`,
//! which `make libzpool` builds without debugging checks. The shim is compiled to match the library that is found.

use std::path::{Path, PathBuf};

#[path = "flags.rs"]
mod flags;

use flags::{LIBRARY_HEADERS, SHIM, library_defines};

const FOLDER_VARIABLE: &str = "BULKHEAD_LIBZPOOL";
/// Exported only with `ZFS_DEBUG`, which enables reference tracking; otherwise it is a macro.
const SYMBOL_OF_CHECKS: &str = "zfs_refcount_add";

fn main() {
    let shim = Path::new(SHIM);
    let mut sources: Vec<_> = std::fs::read_dir(shim)
        .expect("the shim's directory is in the repository")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "c"))
        .collect();
    sources.sort();
    println!("cargo::rerun-if-changed={SHIM}");

    assert!(
        Path::new(LIBRARY_HEADERS[0]).join("sys/spa.h").exists(),
        "OpenZFS headers are missing: run `make deps` (package libzfslinux-dev)"
    );
    let mut build = cc::Build::new();
    build
        .files(&sources)
        .include(shim.join("compat"))
        .includes(LIBRARY_HEADERS)
        .std("gnu11")
        .flag("-fno-strict-aliasing")
        .flag("-fPIC")
        .flag("-fstack-protector-strong")
        .flag_if_supported("-fstack-clash-protection")
        .flag_if_supported("-fcf-protection=full")
        // Some distributions define it themselves, to less.
        .flag("-U_FORTIFY_SOURCE")
        .define("_FORTIFY_SOURCE", "2")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wstrict-prototypes")
        .flag("-Wno-unused-parameter")
        .flag("-Wno-sign-compare")
        // Interposed symbols are referenced by the library only: keep all objects.
        .link_lib_modifier("+whole-archive");
    println!("cargo::rerun-if-env-changed={FOLDER_VARIABLE}");
    let dir = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
    let library = match &dir {
        Some(dir) => own_library_file(dir),
        None => packaged_library_file(&build),
    };
    let has_checks = has_checks(&library);
    assert_ne!(
        has_checks,
        dir.is_some(),
        "{library} is of the wrong kind: Debian's libzpool has debugging checks, the one of `make libzpool` has none"
    );
    println!("cargo::rustc-check-cfg=cfg(openzfs_checks)");
    if has_checks {
        println!("cargo::rustc-cfg=openzfs_checks");
        build.flag("-UNDEBUG");
    }
    for (name, value) in library_defines(has_checks) {
        build.define(name, value);
    }
    let version = library_version();
    build.define("BH_OPENZFS", version_number(&version).as_str());
    println!("cargo::rustc-env=OPENZFS_VERSION={version}");
    println!("cargo::rustc-env=OPENZFS_LIBRARY={library}");
    println!("cargo::rerun-if-changed={library}");
    println!("cargo::rustc-env=OPENZFS_BUILD_ID={}", build_id(&library));
    // First in line, so that the library's allocations go to it too: it halves the cost of large
    // blocks, which glibc maps and unmaps each time.
    println!("cargo::rustc-link-lib=dylib=jemalloc");
    build.compile("bulkhead_zfs");
    match dir {
        Some(dir) => {
            println!("cargo::rustc-link-search=native={}", dir.display());
            println!("cargo::rustc-link-lib=dylib=zpool-bulkhead");
        }
        None => println!("cargo::rustc-link-lib=dylib=zpool"),
    }
    println!("cargo::rustc-link-lib=dylib=nvpair");
}

/// The library's path in a separate directory, with a name that no process loads by accident.
fn own_library_file(dir: &Path) -> String {
    let path = dir.join("libzpool-bulkhead.so");
    match std::fs::canonicalize(&path) {
        Ok(file) => file.display().to_string(),
        Err(error) => panic!(
            "{}: {error}: run `make libzpool` and install its package",
            path.display()
        ),
    }
}

/// Whether a library was built with its debugging checks.
fn has_checks(library: &str) -> bool {
    let symbols = std::process::Command::new("readelf")
        .args(["--wide", "--dyn-syms", library])
        .output()
        .expect("readelf (package binutils) runs");
    assert!(symbols.status.success(), "{library} cannot be read");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let mut names = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    names.any(|name| name == SYMBOL_OF_CHECKS)
}

/// Debian's library.
fn packaged_library_file(build: &cc::Build) -> String {
    let found = build
        .get_compiler()
        .to_command()
        .arg("-print-file-name=libzpool.so")
        .output()
        .expect("the compiler runs");
    let path = String::from_utf8(found.stdout).expect("a path");
    // The unversioned name is a symbolic link, and its target changes with an update.
    std::fs::canonicalize(path.trim())
        .expect("libzpool.so is missing: run `make deps` (package libzfslinux-dev)")
        .display()
        .to_string()
}

/// Hexadecimal digits of the file's build id; empty when it has none.
fn build_id(library: &str) -> String {
    let notes = std::process::Command::new("readelf")
        .args(["--notes", library])
        .output()
        .expect("readelf (package binutils) runs");
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.unwrap_or_default().trim().to_owned()
}

/// The version of the library's development package, such as `2.3.2`.
fn library_version() -> String {
    let told = std::process::Command::new("pkg-config")
        .args(["--modversion", "libzfs"])
        .output()
        .expect("pkg-config runs: run `make deps`");
    assert!(
        told.status.success(),
        "libzfs.pc is missing: run `make deps` (package libzfslinux-dev)"
    );
    String::from_utf8(told.stdout)
        .expect("a version")
        .trim()
        .to_owned()
}

/// The same as one number for the preprocessor: `2.3.9` is `20309`.
fn version_number(version: &str) -> String {
    let mut parts = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next() * 10_000 + next() * 100 + next()).to_string()
}
