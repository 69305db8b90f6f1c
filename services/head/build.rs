//! Embeds the built console (`scripts/console.sh`) into the binary. If it was not built, the
//! list is empty, and the head serves a page with build instructions.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Places the files of the console by their path in it, below `folder`.
fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if let Ok(name) = path.strip_prefix(root) {
            found.push((name.to_string_lossy().into_owned(), path));
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let built = here.join("../../target/console");
    // Cargo runs this again when a file in the directory changes. For a missing directory
    // it would run every time.
    fs::create_dir_all(&built)?;
    let built = built.canonicalize()?;
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", built.display());

    let mut found = Vec::new();
    collect(&built, &built, &mut found)?;
    found.sort();
    let mut text = String::from("&[\n");
    for (name, path) in found {
        let path = path.to_string_lossy().into_owned();
        let _ = writeln!(text, "    ({name:?}, include_bytes!({path:?}).as_slice()),");
    }
    text.push_str("]\n");
    let output = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    fs::write(output.join("console_files.rs"), text)
}
