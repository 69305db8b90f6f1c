//! What a process is told by signals: blocked in every thread, waited for in one.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::signal::{SigSet, Signal};

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Come to an end: the signal's name.
    Stop(&'static str),
    /// Read again what may have changed.
    Reload,
}

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
pub fn forward<E: From<Told> + Send + 'static>(events: Sender<E>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while let Ok(signal) = wanted().wait() {
                let told = match signal {
                    Signal::SIGHUP => Told::Reload,
                    other => Told::Stop(other.as_str()),
                };
                if events.send(told.into()).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Blocks the signals, and turns them into events, for a command that ends in its own way.
pub fn catch() -> io::Result<Receiver<Told>> {
    let (sender, events) = channel();
    block()?;
    forward(sender)?;
    Ok(events)
}

/// Starts the thread that takes the end of the standard input for a request to stop.
pub fn stop_at_end_of_input<E: From<Told> + Send + 'static>(events: Sender<E>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            // Nobody listens any more if the server ends already.
            let _ = events.send(Told::Stop("end of input").into());
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
