//! The command that `ipmi_sim` runs to query or to switch the power: `get WHAT…` or `set WHAT
//! VALUE…` (ipmi_sim(1), chassis_control).

use std::io::{self, Write};
use std::process::ExitCode;

use units::HeadName;

use crate::directory::LabDirectory;
use crate::power::Power;
use crate::wire::{Order, State, send_order};

/// Handles a request of the BMC.
pub fn run(folder: &LabDirectory, head: &str, words: &[&str]) -> io::Result<ExitCode> {
    let head: HeadName = head.parse().map_err(io::Error::other)?;
    match words {
        ["get", questions @ ..] => {
            let state = ordered(folder, &Order::Tell)?;
            let powered = state.heads.get(&head).is_some_and(|one| one.powered);
            let mut answer = String::new();
            for question in questions {
                // Functions without a switch on this host are off.
                let value = *question == "power" && powered;
                answer.push_str(&format!("{question}:{}\n", u8::from(value)));
            }
            io::stdout().write_all(answer.as_bytes())?;
        }
        ["set", changes @ ..] => {
            for change in changes.chunks(2) {
                if let Some(to) = meaning(change) {
                    let head = head.clone();
                    ordered(
                        folder,
                        &Order::Power {
                            head,
                            to,
                            by_bmc: true,
                        },
                    )?;
                }
            }
        }
        _ => return Err(io::Error::other("neither get nor set")),
    }
    Ok(ExitCode::SUCCESS)
}

fn meaning(change: &[&str]) -> Option<Power> {
    match change {
        ["power", "0"] => Some(Power::Off),
        ["power", "1"] => Some(Power::On),
        ["reset" | "cycle", ..] => Some(Power::Cycle),
        _ => None,
    }
}

fn ordered(folder: &LabDirectory, order: &Order) -> io::Result<State> {
    send_order(&folder.control(), order)?.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chassis_handles_only_power_commands() {
        assert_eq!(meaning(&["power", "0"]), Some(Power::Off));
        assert_eq!(meaning(&["power", "1"]), Some(Power::On));
        assert_eq!(meaning(&["reset", "1"]), Some(Power::Cycle));
        assert_eq!(meaning(&["identify", "15"]), None);
        assert_eq!(meaning(&["power"]), None);
    }
}
