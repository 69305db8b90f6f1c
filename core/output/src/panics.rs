//! The effect of a panic on the process.

use std::fs::File;
use std::io::Write as _;

/// A panic of any thread terminates the process, after its message was printed.
///
/// The release profile aborts by itself. The profile of the tests unwinds, because their runner needs it; without this a
/// server under test would continue without the thread that panicked.
pub fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// From now on, a panic also writes its message and location to a file, as one line.
pub fn report_panics_to(file: &'static File) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let line = panic.to_string().replace(['\n', '\r'], " ");
        // Without the file only the log has the reason.
        let _ = (&*file).write_all(format!("{line}\n").as_bytes());
        print(panic);
    }));
}
