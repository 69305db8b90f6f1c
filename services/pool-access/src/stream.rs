//! Streams of snapshots through the standard output or input of a command.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use control::request::TransferRequest;
use control::{Failure, Request};
use rendering::{Printer, ProgressBar};
use units::PoolName;

use crate::common::Common;

/// Sends to the standard output, or receives from the standard input.
pub fn transfer(
    common: &Common,
    pool: &PoolName,
    request: TransferRequest,
    out: Printer,
) -> Result<(), Failure> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let is_send = matches!(request, TransferRequest::Send(_));
    let (stream, is_terminal) = match is_send {
        true => (output.as_fd(), output.is_terminal()),
        false => (input.as_fd(), input.is_terminal()),
    };
    refuse_terminal(is_terminal, is_send)?;
    let stream = stream.try_clone_to_owned();
    let stream = stream.map_err(Failure::of("use the stream"))?;
    let mut bar = ProgressBar::new(out.is_json());
    let request = Request::Transfer(request);
    let answer = crate::request_with_descriptor(common, pool, request, Some(stream), &mut |text| {
        bar.show(text)
    });
    bar.end();
    let text = out.rendered(&answer?);
    match is_send {
        // The standard output holds the stream.
        true => {
            let _ = std::io::stderr().write_all(text.as_bytes());
            Ok(())
        }
        false => out.text(&text),
    }
}

/// Refuses to write a stream to a terminal, or to read one from it.
fn refuse_terminal(is_terminal: bool, is_send: bool) -> Result<(), Failure> {
    if !is_terminal {
        return Ok(());
    }
    let (message, advice) = match is_send {
        true => (
            "a stream is nothing to look at",
            "send it into a file or a pipe: > FILE",
        ),
        false => (
            "a stream is nothing to type",
            "give it a file or a pipe: < FILE",
        ),
    };
    Err(Failure::usage(message).advise(advice))
}
