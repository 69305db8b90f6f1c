//! The effect of a panic on the process.

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
