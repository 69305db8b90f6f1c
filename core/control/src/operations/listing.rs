//! Lists on the command line: the listed objects, and the columns and the order of the table.

use clap::Args;
use units::{IscsiName, PoolName};

use super::{PoolOption, PoolSelector};
use crate::Failure;
use crate::selection::{Selection, WILDCARDS};

/// The columns of a table, by the names that `--columns` and `--sort` accept.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Those that are shown without `--columns`.
    pub shown: &'static [&'static str],
    /// Further ones.
    pub more: &'static [&'static str],
}

impl Columns {
    /// All of them.
    pub fn all(self) -> impl Iterator<Item = &'static str> {
        self.shown.iter().chain(self.more).copied()
    }

    /// The help of `--columns`.
    pub(crate) fn help(self) -> String {
        format!(
            "The columns of the table, separated by commas [default: {}]",
            self.shown.join(",")
        )
    }
}

/// The columns and the order of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// The columns; empty means the default ones.
    pub columns: Vec<String>,
    /// The column by which the list is sorted.
    pub sort: Option<String>,
    /// The order is reversed.
    pub reverse: bool,
}

/// The objects of a list: a pool, or a part of one.
#[derive(Debug, Args)]
pub struct SelectionArgument {
    /// The pool, a dataset in it, or a pattern with * and ? [default: all pools that are served here, or the only one
    /// that is known]
    #[arg(value_name = "POOL|NAME|PATTERN")]
    of: Option<String>,
    #[command(flatten)]
    pool: PoolOption,
}

impl SelectionArgument {
    /// Returns the pool, and the part of it.
    ///
    /// # Errors
    ///
    /// It is no name and no pattern, or the pool is named twice.
    pub fn selected(self) -> Result<(PoolSelector, Option<Selection>), Failure> {
        let pool = self.pool.pool;
        let Some(of) = self.of else {
            return Ok((pool.into(), None));
        };
        let is_pool = !of.contains('/') && !of.contains(WILDCARDS) && !of.contains('@');
        let twice = |named: PoolName| match &pool {
            Some(option) if is_pool || *option != named => {
                let message = format!("{of} and --pool {option} name two pools");
                Err(Failure::usage(message).advise("leave one of them out"))
            }
            _ => Ok(PoolSelector::Pool(named)),
        };
        if is_pool && of.parse::<IscsiName>().is_err() {
            let named = of.parse::<PoolName>();
            let named = named.map_err(|error| Failure::usage(error.to_string()))?;
            return Ok((twice(named)?, None));
        }
        let selection = of.parse::<Selection>();
        let selection = selection.map_err(|error| Failure::usage(error.to_string()))?;
        let pool = match selection.pool() {
            Some(named) => twice(named)?,
            None => pool.into(),
        };
        Ok((pool, Some(selection)))
    }
}

/// Generates the arguments of a table with the columns of a constant `COLUMNS`.
macro_rules! table_arguments {
    () => {
        /// The columns and the order of the table.
        #[derive(Debug, clap::Args)]
        pub struct TableArguments {
            /// Sort by one of the columns, ascending
            #[arg(
                        long,
                        hide_possible_values = true,
                        value_name = "COLUMN",
                        value_parser = clap::builder::PossibleValuesParser::new(COLUMNS.all())
                    )]
            sort: Option<String>,
            /// Reverse the order
            #[arg(long)]
            reverse: bool,
            #[arg(
                        long,
                        short = 'o',
                        value_name = "COLUMNS",
                        value_delimiter = ',',
                        value_parser = clap::builder::PossibleValuesParser::new(COLUMNS.all()),
                        help = COLUMNS.help()
                    )]
            columns: Vec<String>,
        }

        impl From<&TableArguments> for $crate::operations::TableOptions {
            fn from(arguments: &TableArguments) -> Self {
                Self {
                    columns: arguments.columns.clone(),
                    sort: arguments.sort.clone(),
                    reverse: arguments.reverse,
                }
            }
        }
    };
}
pub(crate) use table_arguments;

/// Generates a verb that lists the objects of a pool, or a part of them: its help with the attributes of its command, the
/// type with the name of its schema, and its resource. `EXAMPLES` and `COLUMNS` are defined next to it.
macro_rules! list_verb {
    ($(#[$help:meta])* $verb:ident, $schema:literal, $routes:expr) => {
        $crate::operations::listing::table_arguments!();

        /// The request.
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[schemars(rename = $schema)]
        pub struct $verb {
            /// Only those in a dataset, or with such a name: `tank/vms`, `tank/web-*` or `web-*`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub only: Option<$crate::selection::Selection>,
        }

        impl $crate::operations::Operation for $verb {
            fn effect(&self, _: &units::PoolName) -> $crate::Effect {
                let Self { only: _ } = self;
                $crate::Effect::Look
            }

            fn scheduling(&self) -> $crate::operations::Scheduling {
                $crate::operations::Scheduling::ReadOnly
            }

            fn covers_all_pools(&self) -> bool {
                true
            }
        }

        #[derive(Debug, clap::Args)]
        $(#[$help])*
        pub struct Arguments {
            #[command(flatten)]
            of: $crate::operations::SelectionArgument,
            #[command(flatten)]
            table: TableArguments,
        }

        impl $crate::operations::Verb for $verb {
            type Arguments = Arguments;
            const EXAMPLES: $crate::operations::Examples = EXAMPLES;
            const ROUTES: &'static [$crate::operations::Route] = $routes;

            fn from_arguments(
                arguments: Arguments,
            ) -> Result<($crate::operations::PoolSelector, Self), $crate::Failure> {
                let (pool, only) = arguments.of.selected()?;
                Ok((pool, Self { only }))
            }

            fn table(arguments: &Arguments) -> $crate::operations::TableOptions {
                (&arguments.table).into()
            }
        }
    };
}
pub(crate) use list_verb;
