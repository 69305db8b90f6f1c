//! The option by which a command line confirms the loss of data.

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};

use super::Previewed;

/// An operation that destroys the objects that its arguments name.
pub trait Confirmable: clap::Args {
    /// The option.
    const OPTION: &'static str = "yes-destroy-data";
    /// Its help.
    const HELP: &'static str;

    /// Returns the data that would be lost, for the refusal.
    fn loss(&self) -> String;
}

/// Such arguments, with the option that confirms them.
#[derive(Debug)]
pub struct Confirmed<T> {
    arguments: T,
    is_confirmed: bool,
}

impl<T: Confirmable + Previewed> Confirmed<T> {
    /// Returns the arguments. Unless they were confirmed, the request is refused with the list of objects that would be
    /// destroyed.
    pub fn or_refuse(mut self) -> T {
        let preview = self.arguments.preview();
        preview.ask = !self.is_confirmed && !preview.dry_run;
        self.arguments
    }
}

// With a derived implementation the help would describe this type and not the operation.
impl<T: Confirmable> clap::Args for Confirmed<T> {
    fn augment_args(command: Command) -> Command {
        let option = Arg::new(T::OPTION).long(T::OPTION).help(T::HELP);
        T::augment_args(command).arg(option.action(ArgAction::SetTrue))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Confirmable> FromArgMatches for Confirmed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            arguments: T::from_arg_matches(matches)?,
            is_confirmed: matches.get_flag(T::OPTION),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
