//! The hardening of the shim and of the binaries that link it, read from their ELF headers.

use std::path::Path;
use std::process::Command;

fn told(tool: &str, words: &[&str], file: &Path) -> String {
    let told = Command::new(tool).args(words).arg(file).output();
    let told = told.expect("nm and readelf (package binutils) run");
    String::from_utf8(told.stdout).expect("text")
}

#[test]
fn shim_has_stack_protector_and_fortified_buffers() {
    let archive = Path::new(env!("OUT_DIR")).join("libbulkhead_zfs.a");
    let symbols = told("nm", &["--undefined-only"], &archive);
    assert!(symbols.contains("__stack_chk_fail"), "no stack protector");
    assert!(symbols.contains("__snprintf_chk"), "no _FORTIFY_SOURCE");
}

#[test]
fn binary_is_pie_and_has_no_writable_executable_memory() {
    let own = std::env::current_exe().expect("this program");
    let words = ["-W", "--file-header", "--program-headers", "--dynamic"];
    let headers = told("readelf", &words, &own);
    for wanted in ["DYN (Position-Independent", "GNU_RELRO", "NOW"] {
        assert!(headers.contains(wanted), "{wanted}: {headers}");
    }
    let stack = headers.lines().find(|line| line.contains("GNU_STACK"));
    assert!(stack.is_some_and(|line| !line.contains("RWE")), "{headers}");
}
