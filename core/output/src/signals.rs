//! Signals of a process: blocked in every thread, received in one.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use nix::sys::signal::{SigSet, Signal};

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// Terminate; with the signal's name.
    Stop(&'static str),
    /// Reload the configuration.
    Reload,
}

fn handled_signals() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set
}

/// Blocks the signals in this thread, and so in all that it starts. Must be called before any
/// thread exists.
pub fn block() -> io::Result<()> {
    handled_signals().thread_block()?;
    Ok(())
}

/// Undoes the effect of a parent's [`block`] on this process.
pub fn unblock() {
    // Fails only for an invalid set.
    let _ = handled_signals().thread_unblock();
}

/// Starts the thread that turns signals into events. It runs until the process exits.
pub fn forward<E: From<SignalEvent> + Send + 'static>(events: Sender<E>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            while let Ok(signal) = handled_signals().wait() {
                let told = match signal {
                    Signal::SIGHUP => SignalEvent::Reload,
                    other => SignalEvent::Stop(other.as_str()),
                };
                if events.send(told.into()).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// Blocks the signals, and turns them into events, for a command with a shutdown of its own.
pub fn catch() -> io::Result<Receiver<SignalEvent>> {
    let (sender, events) = channel();
    block()?;
    forward(sender)?;
    Ok(events)
}

/// Starts the thread that treats the end of the standard input as a request to stop.
pub fn stop_at_end_of_input<E: From<SignalEvent> + Send + 'static>(
    events: Sender<E>,
) -> io::Result<()> {
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            // The receiver is gone if the server exits already.
            let _ = events.send(SignalEvent::Stop("end of input").into());
        })?;
    Ok(())
}

/// Performs `action` when the process receives a request to stop, and exits then.
pub fn stop_after(action: impl FnOnce() + Send + 'static) -> io::Result<()> {
    /// Exit code that shells report for an interrupted process.
    const EXIT_INTERRUPTED: i32 = 130;
    block()?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            // Fails only for an invalid set.
            let _ = handled_signals().wait();
            action();
            std::process::exit(EXIT_INTERRUPTED);
        })?;
    Ok(())
}
