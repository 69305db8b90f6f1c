//! The reason of a crash reaches a file and the log. Each crash needs a process of its own, which is this test again.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use zpool_sys as sys;

/// The file, and the crash of the child.
const CHILD: &str = "CRASH_REASON_OF";

unsafe extern "C" {
    fn libspl_assertf(file: *const i8, function: *const i8, line: i32, format: *const i8, ...);
    fn raise(signal: i32) -> i32;
}

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

fn crash(how: &str, path: &str) {
    let file = File::create(path).expect("created");
    let options = sys::bh_engine_options {
        arc_bytes_min: 32 << 20,
        arc_bytes_max: 64 << 20,
        dirty_bytes_max: 16 << 20,
        host_id: 7,
        txg_timeout_s: 5,
        scatter_buffers: 0,
        debug_flags: 0,
        debug_messages: 0,
        library_walks: 0,
        multihost_interval_ms: 0,
        multihost_fail_intervals: 0,
        reason_fd: file.as_raw_fd(),
    };
    // SAFETY: the options are valid, and this is the only start in this process.
    assert_eq!(unsafe { sys::bh_engine_start(&options) }, 0);
    match how {
        "assertion" => {
            // SAFETY: the texts are NUL-terminated, and match the format.
            unsafe {
                libspl_assertf(
                    c"a/b.c".as_ptr(),
                    c"txg_sync".as_ptr(),
                    42,
                    c"%s == %d".as_ptr(),
                    c"one\ntwo".as_ptr(),
                    3,
                );
            }
        }
        "segv" => {
            // SAFETY: it takes no pointer.
            unsafe { raise(SIGSEGV) };
        }
        _ => std::process::abort(),
    }
}

#[test]
fn first_reason_of_a_crash_is_one_line_in_the_file() {
    if let Ok(child) = std::env::var(CHILD) {
        let (how, path) = child.split_once(' ').expect("two words");
        crash(how, path);
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    for (how, reason, signal) in [
        ("assertion", "one two == 3 (a/b.c:42, txg_sync)\n", SIGABRT),
        ("abort", "SIGABRT in thread ", SIGABRT),
        ("segv", "SIGSEGV in thread ", SIGSEGV),
    ] {
        let path = folder.path().join(how);
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "first_reason_of_a_crash_is_one_line_in_the_file",
                "--nocapture",
            ])
            .env(CHILD, format!("{how} {}", path.display()))
            .output()
            .expect("it starts");
        assert_eq!(child.status.signal(), Some(signal), "{how}");
        let found = std::fs::read_to_string(&path).expect("written");
        let is_same = match how {
            "assertion" => found == reason,
            _ => found.starts_with(reason) && found.lines().count() == 1,
        };
        assert!(is_same, "{how}: {found:?}");
        let log = String::from_utf8_lossy(&child.stderr).into_owned();
        let told = match how {
            "assertion" => "== 3",
            _ => "a fault ends this process",
        };
        assert!(log.contains(told), "{how}: {log}");
    }
}
