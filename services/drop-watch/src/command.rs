//! `bulkhead watch drops`: one block for each interval.

use std::path::Path;
use std::process::ExitCode;

use control::{Failure, FailureKind};
use network_drops::all;
use rendering::Printer;

use crate::arguments::{DropsArgs, WatchCommand};
use crate::interval::{Interval, measure};
use crate::reports::Reports;
use crate::sources::{Reading, Selection, has_interface, interfaces, read};
use crate::text;

/// Performs the command.
///
/// # Errors
///
/// There is no such interface, this process is not root, or the output fails.
pub fn run(command: &WatchCommand, out: Printer) -> Result<ExitCode, Failure> {
    let WatchCommand::Drops(args) = command;
    if !rustix::process::geteuid().is_root() {
        let message = "only root sees the sockets of other processes and the reports of the kernel";
        return Err(Failure::new(FailureKind::Failed, message).advise("run it with `sudo`"));
    }
    let root = Path::new("/");
    let selection = selection(root, args)?;
    let reading = read(root, &selection);
    if args.since_boot {
        let interval = Interval {
            seconds: None,
            losses: all(&reading.counters),
            notes: reading.notes,
        };
        out.either(&interval, || text::interval(&interval))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch(root, args, &selection, reading, out)?;
    Ok(ExitCode::SUCCESS)
}

fn selection(root: &Path, args: &DropsArgs) -> Result<Selection, Failure> {
    if let Some(name) = args
        .interface
        .iter()
        .find(|name| !has_interface(root, name))
    {
        let names = interfaces(root).join(", ");
        return Err(Failure::not_found(format!("there is no interface {name}"))
            .advise(format!("the interfaces of this host are: {names}")));
    }
    let interfaces = match args.interface.is_empty() {
        true => interfaces(root),
        false => args.interface.clone(),
    };
    let all_sockets = args.all_sockets;
    Ok(Selection {
        interfaces,
        all_sockets,
    })
}

fn watch(
    root: &Path,
    args: &DropsArgs,
    selection: &Selection,
    mut before: Reading,
    out: Printer,
) -> Result<(), Failure> {
    let mut reports = Reports::start();
    if let Ok(reports) = &reports {
        let instance = reports.instance();
        output::signals::stop_after(move || instance.remove())
            .map_err(Failure::of("handle signals"))?;
    }
    let mut count = 0;
    loop {
        let interval = measure(root, selection, args.interval, &mut before, &mut reports);
        out.either(&interval, || text::interval(&interval))?;
        count += 1;
        if args.count.is_some_and(|most| count >= most) {
            return Ok(());
        }
    }
}
