//! Signals as events: blocked in every thread, waited for in one.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use control::{Failure, FailureKind};
use nix::sys::signal::{SigSet, Signal};

use super::Event;

fn wanted() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set
}

/// Blocks the signals in this thread, and so in all that it starts. Call it before any thread
/// exists.
pub fn block() -> io::Result<()> {
    wanted().thread_block()?;
    Ok(())
}

/// Undoes what a parent's [`block`] left to this process.
pub fn unblock() {
    // It fails only for a set that is none.
    let _ = wanted().thread_unblock();
}

/// Starts the thread that turns signals into events. It lives as long as the process.
pub fn forward(events: Sender<Event>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while let Ok(signal) = wanted().wait() {
                let event = match signal {
                    Signal::SIGHUP => Event::Reload,
                    other => Event::Stop(other.as_str()),
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Blocks the signals, and turns them into events, for a command that ends in its own way.
pub fn catch() -> Result<Receiver<Event>, Failure> {
    let failed =
        |error: io::Error| Failure::new(FailureKind::Failed, format!("wait for signals: {error}"));
    let (sender, events) = channel();
    block().map_err(failed)?;
    forward(sender).map_err(failed)?;
    Ok(events)
}

/// Starts the thread that takes the end of the standard input for a request to stop.
pub fn stop_at_end_of_input(events: Sender<Event>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            // Nobody listens any more if the server ends already.
            let _ = events.send(Event::Stop("end of input"));
        })?;
    Ok(())
}

/// Performs `action` when the process is told to stop, and ends it then.
pub fn stop_after(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    /// What shells report for a program that was interrupted.
    const EXIT_INTERRUPTED: i32 = 130;
    block()?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            // It fails only for a set that is none.
            let _ = wanted().wait();
            action();
            std::process::exit(EXIT_INTERRUPTED);
        })?;
    Ok(())
}
