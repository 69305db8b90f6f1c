//! Compiles the library that provides a wall clock for each node of a lab.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "../native/lab-clock/clock.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let compiler = cc::Build::new()
        .std("gnu11")
        .opt_level(2)
        .pic(true)
        .warnings(true)
        .extra_warnings(true)
        .cargo_metadata(false)
        .get_compiler();
    let mut command: Command = compiler.to_command();
    command
        .args(["-shared", "-o"])
        .arg(out.join("clock.so"))
        .arg(Path::new(SOURCE));
    let status = command.status().expect("the compiler runs");
    assert!(status.success(), "{command:?} failed");
}
