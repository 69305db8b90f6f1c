//! Compiles the C shim and links it with the packaged ZFS library.

use std::path::Path;

#[path = "flags.rs"]
mod flags;

use flags::{LIBRARY_DEFINES, LIBRARY_HEADERS, SHIM};

fn main() {
    let shim = Path::new(SHIM);
    let mut sources: Vec<_> = std::fs::read_dir(shim)
        .expect("the shim's folder is in the repository")
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
        .flag("-UNDEBUG")
        .flag("-fno-strict-aliasing")
        .flag("-fPIC")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wstrict-prototypes")
        .flag("-Wno-unused-parameter")
        .flag("-Wno-sign-compare")
        // Interposed symbols are referenced by the library only: keep all objects.
        .link_lib_modifier("+whole-archive");
    for (name, value) in LIBRARY_DEFINES {
        build.define(name, value);
    }
    // First in line, so that the library's allocations go to it too: it halves the cost of large
    // blocks, which glibc maps and unmaps each time.
    println!("cargo::rustc-link-lib=dylib=jemalloc");
    build.compile("bulkhead_zfs");
    println!("cargo::rustc-link-lib=dylib=zpool");
    println!("cargo::rustc-link-lib=dylib=nvpair");
}
