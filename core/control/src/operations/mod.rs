//! One definition per operation: a file contains its arguments, its effect, the role that may send it, its
//! confirmation, its HTTP routes, its help and its example. The control request, the command line, the API with its
//! OpenAPI document, and the completions are generated from it.
//!
//! A new operation is a file in the directory of its noun, a name in the list of that noun, and the call of the engine
//! (`services/operations`).

mod confirmed;
mod example;
pub mod filesystem;
pub mod key;
pub mod listing;
pub mod nbd;
mod options;
pub mod pool;
pub mod portal;
mod preview;
pub mod replicate;
mod route;
pub mod secret_input;
pub mod server;
pub mod snapshot;
pub mod status;
pub mod target;
pub mod transfer;
pub mod volume;

use std::path::PathBuf;
use std::time::Duration;

use units::{IscsiName, PoolName, VolumeName};

use crate::{Effect, Failure};

pub use confirmed::{Confirmable, Confirmed};
pub use example::{Example, Examples};
pub use listing::{Columns, SelectionArgument, TableOptions};
pub(crate) use listing::{list_verb, table_arguments};
pub use options::{
    PoolArgument, PoolOption, PropertyOptions, block_size, bytes, dataset, duration_s, one_pool,
    pool_named, pool_or_snapshots, pool_or_volume, property, property_names,
};
pub use preview::{Preview, Previewed};
pub use route::{Least, Method, Route, SchemaOf, Source, schema_of};

/// Properties of one request, independent of its transport.
pub trait Operation {
    /// Returns its effect on `pool`. No pattern omits an argument, so that every new argument must be classified.
    fn effect(&self, pool: &PoolName) -> Effect;

    /// Returns the properties that it sets or inherits, if any.
    fn properties(&self) -> Option<Changed<'_>> {
        None
    }

    /// Returns the volume that it exports.
    fn exporting(&self) -> Option<&VolumeName> {
        None
    }

    /// Returns details for the audit log in addition to its name and its pool: names, never a value that may be a
    /// secret.
    fn details(&self) -> Option<String> {
        let changed = self.properties()?;
        (!changed.names.is_empty())
            .then(|| format!("{}: {}", changed.dataset, changed.names.join(", ")))
    }

    /// Returns whether it only reports the objects that it would destroy.
    fn is_preview(&self) -> bool {
        false
    }

    /// Returns whether it is sent to every pool that is served here where none is named.
    fn covers_all_pools(&self) -> bool {
        false
    }

    /// Returns the target that it names, which selects the pool if none is named.
    fn target(&self) -> Option<&IscsiName> {
        None
    }

    /// Returns whether it opens volumes, or creates some below an encrypted parent: their keys are loaded before.
    fn opens_volumes(&self) -> bool {
        false
    }

    /// Returns how it is scheduled relative to other requests.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Serialized
    }

    /// Returns whether it is performed even where all connections are in use, and its time limit then.
    fn urgency(&self) -> Option<Urgency> {
        None
    }

    /// Returns whether it depends on writes of the pool: it is refused while the pool is suspended. Administrative
    /// decisions about legs, and state that only the server has, are not stored in the pool.
    fn writes_to_the_pool(&self) -> bool {
        true
    }

    /// Returns whether it resumes when it is repeated, so that the client retries if the server exits.
    fn is_resumable_by_repeat(&self) -> bool {
        false
    }

    /// Returns the devices that are part of the pool if it succeeds.
    fn joining_devices(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns a device that is no longer part of the pool if it succeeds, at once or later.
    fn leaving_device(&self) -> Option<PathBuf> {
        None
    }
}

/// Properties that an operation sets or inherits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<'a> {
    /// The dataset, or the pool.
    pub dataset: &'a str,
    /// Their names.
    pub names: Vec<&'a str>,
}

impl<'a> Changed<'a> {
    /// Those of `dataset` with these names.
    pub fn new(dataset: &'a str, names: impl IntoIterator<Item = &'a String>) -> Self {
        let names = names.into_iter().map(String::as_str).collect();
        Self { dataset, names }
    }
}

/// How a request is scheduled relative to further requests for the same pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// It is read-only: a pool that is open for reading only can handle it, and it is not delayed by changes.
    ReadOnly,
    /// It changes the pool; such requests are serialized.
    Serialized,
    /// It changes the pool, but is neither delayed by other requests nor delays them: it reads no state that another
    /// request could change in between, or has its own locking.
    Concurrent,
    /// The same, and it can resume a suspended pool on which changes may be blocked.
    Resuming,
}

/// Time limit of a request that is performed in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It is handled from memory.
    Brief,
    /// It may wait for the pool.
    Long,
}

/// How a command polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// Polling interval.
    pub interval: Duration,
    /// Number of repetitions; none until it is interrupted.
    pub count: Option<u64>,
}

/// How an operation is requested on the command line, and over HTTP.
pub trait Verb: Operation + Sized {
    /// The arguments on the command line: the operation itself where both are the same.
    type Arguments: clap::Args;
    /// The examples in its help.
    const EXAMPLES: Examples = Examples::NONE;
    /// Its resources below `/api/v1`.
    const ROUTES: &'static [Route] = &[];

    /// Returns the pool, and the request.
    ///
    /// # Errors
    ///
    /// The arguments contradict each other, or a confirmation is missing.
    fn from_arguments(arguments: Self::Arguments) -> Result<(PoolSelector, Self), Failure>;

    /// Returns whether the command polls.
    fn again(_: &Self::Arguments) -> Option<Polling> {
        None
    }

    /// Returns the columns and the order of the response.
    fn table(_: &Self::Arguments) -> TableOptions {
        TableOptions::default()
    }
}

/// An operation without a command of its own: processes send it, or a command of several requests.
pub trait WireOnly: Operation {
    /// The examples in the help of the command that sends it.
    const EXAMPLES: Examples = Examples::NONE;
    /// Its resources below `/api/v1`.
    const ROUTES: &'static [Route] = &[];
}

/// The pool of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSelector {
    /// The named one.
    Pool(PoolName),
    /// The only one that is served or known here; for some requests, all of them.
    Single,
}

impl From<Option<PoolName>> for PoolSelector {
    fn from(pool: Option<PoolName>) -> Self {
        pool.map_or(Self::Single, Self::Pool)
    }
}

/// Generates the requests and the commands of a noun from the list of its verbs: each a module with a type.
/// - `bare`: verbs without arguments on the wire.
/// - `nouns`: a noun within the noun.
/// - `as`: another name of the verb on the command line.
/// - `groups`: verbs that only the command line puts into a noun within the noun.
/// - `wire_only`, `bare_wire_only`: verbs without a command of their own.
/// - `wire_only_nouns`: a noun within the noun without a command.
///
/// Where no verb has a command, the noun has none either.
macro_rules! noun {
    (
        $(#[doc = $about:literal])*
        $request:ident, $path:literal;
        $(wire_only { $($wire_module:ident::$wire:ident),* $(,)? })?
        $(bare_wire_only { $($bare_wire_module:ident::$bare_wire:ident),* $(,)? })?
    ) => {
        $crate::operations::requests! {
            $(#[doc = $about])*
            $request, $path;
            verbs {}
            bare {}
            nouns {}
            wire_only { $($($wire_module::$wire),*)? }
            bare_wire_only { $($($bare_wire_module::$bare_wire),*)? }
        }
    };
    (
        $(#[doc = $about:literal])*
        $request:ident, $command:ident, $path:literal;
        verbs { $($module:ident::$verb:ident $(as $word:literal)?),* $(,)? }
        bare { $($bare_module:ident::$bare:ident),* $(,)? }
        nouns { $($(#[doc = $noun_about:literal])* $noun_module:ident::$noun:ident($inner:ident, $inner_command:ident)),* $(,)? }
        $(groups { $(
            $(#[doc = $group_about:literal])* $group:ident($group_command:ident) {
                $($group_module:ident::$group_verb:ident as $group_word:literal),* $(,)?
            }
        ),* $(,)? })?
        $(wire_only { $($wire_module:ident::$wire:ident),* $(,)? })?
        $(bare_wire_only { $($bare_wire_module:ident::$bare_wire:ident),* $(,)? })?
        $(wire_only_nouns { $($wire_noun_module:ident::$wire_noun:ident($wire_inner:ident)),* $(,)? })?
    ) => {
        $crate::operations::requests! {
            $(#[doc = $about])*
            $request, $path;
            verbs { $($module::$verb,)* $($($($group_module::$group_verb,)*)*)? }
            bare { $($bare_module::$bare),* }
            nouns { $($noun_module::$noun($inner),)* $($($wire_noun_module::$wire_noun($wire_inner),)*)? }
            wire_only { $($($wire_module::$wire),*)? }
            bare_wire_only { $($($bare_wire_module::$bare_wire),*)? }
        }

        $(#[doc = $about])*
        #[derive(Debug, clap::Subcommand)]
        #[allow(missing_docs, reason = "each verb has its own")]
        #[allow(clippy::large_enum_variant, reason = "a command line is one value")]
        pub enum $command {
            $($(#[command(name = $word)])? $verb(<$module::$verb as $crate::operations::Verb>::Arguments),)*
            $($bare(<$bare_module::$bare as $crate::operations::Verb>::Arguments),)*
            $($($(#[doc = $group_about])* #[command(subcommand)] $group($group_command),)*)?
            $($(#[doc = $noun_about])* #[command(subcommand)] $noun($noun_module::$inner_command),)*
        }

        impl $command {
            /// Returns whether the command polls.
            pub fn again(&self) -> Option<$crate::operations::Polling> {
                use $crate::operations::Verb;
                match self {
                    $(Self::$verb(arguments) => <$module::$verb>::again(arguments),)*
                    $(Self::$bare(arguments) => <$bare_module::$bare>::again(arguments),)*
                    $($(Self::$group(_) => None,)*)?
                    $(Self::$noun(inner) => inner.again(),)*
                }
            }

            /// Returns the columns and the order of the response.
            pub fn table(&self) -> $crate::operations::TableOptions {
                use $crate::operations::Verb;
                match self {
                    $(Self::$verb(arguments) => <$module::$verb>::table(arguments),)*
                    $(Self::$bare(arguments) => <$bare_module::$bare>::table(arguments),)*
                    $($(Self::$group(_) => $crate::operations::TableOptions::default(),)*)?
                    $(Self::$noun(inner) => inner.table(),)*
                }
            }

            /// Returns the pool, and the request.
            ///
            /// # Errors
            ///
            /// The arguments contradict each other, or a confirmation is missing.
            pub fn request(self) -> Result<($crate::operations::PoolSelector, $request), $crate::Failure> {
                use $crate::operations::Verb;
                Ok(match self {
                    $(Self::$verb(arguments) => {
                        let (pool, request) = <$module::$verb>::from_arguments(arguments)?;
                        (pool, $request::$verb(request))
                    })*
                    $(Self::$bare(arguments) => {
                        let (pool, $bare_module::$bare) = <$bare_module::$bare>::from_arguments(arguments)?;
                        (pool, $request::$bare)
                    })*
                    $($(Self::$group(inner) => inner.request()?,)*)?
                    $(Self::$noun(inner) => {
                        let (pool, request) = inner.request()?;
                        (pool, $request::$noun(request))
                    })*
                })
            }
        }

        $($(
            $(#[doc = $group_about])*
            #[derive(Debug, clap::Subcommand)]
            #[allow(missing_docs, reason = "each verb has its own")]
            pub enum $group_command {
                $(#[command(name = $group_word)] $group_verb(<$group_module::$group_verb as $crate::operations::Verb>::Arguments),)*
            }

            impl $group_command {
                fn request(self) -> Result<($crate::operations::PoolSelector, $request), $crate::Failure> {
                    use $crate::operations::Verb;
                    Ok(match self {
                        $(Self::$group_verb(arguments) => {
                            let (pool, request) = <$group_module::$group_verb>::from_arguments(arguments)?;
                            (pool, $request::$group_verb(request))
                        })*
                    })
                }
            }
        )*)?
    };
}
use noun;

/// Generates a verb that reads every pool and has no argument but a pool's name: its help with the attributes of its
/// command, the type, and its resources. `EXAMPLES` is defined next to it.
macro_rules! read_only_verb {
    ($(#[$help:meta])* $verb:ident, $routes:expr) => {
        /// The request, which has no arguments.
        #[derive(Clone, Copy, Debug)]
        pub struct $verb;

        impl $crate::operations::Operation for $verb {
            fn effect(&self, _: &units::PoolName) -> $crate::Effect {
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
            pool: $crate::operations::PoolArgument,
        }

        impl $crate::operations::Verb for $verb {
            type Arguments = Arguments;
            const EXAMPLES: $crate::operations::Examples = EXAMPLES;
            const ROUTES: &'static [$crate::operations::Route] = $routes;

            fn from_arguments(
                arguments: Arguments,
            ) -> Result<($crate::operations::PoolSelector, Self), $crate::Failure> {
                Ok((arguments.pool.into(), Self))
            }
        }
    };
}
use read_only_verb;

/// The requests of a noun.
macro_rules! requests {
    (
        $(#[doc = $about:literal])*
        $request:ident, $path:literal;
        verbs { $($module:ident::$verb:ident),* $(,)? }
        bare { $($bare_module:ident::$bare:ident),* }
        nouns { $($noun_module:ident::$noun:ident($inner:ident)),* $(,)? }
        wire_only { $($wire_module:ident::$wire:ident),* }
        bare_wire_only { $($bare_wire_module:ident::$bare_wire:ident),* }
    ) => {
        $(pub mod $module;)*
        $(pub mod $bare_module;)*
        $(pub mod $noun_module;)*
        $(pub mod $wire_module;)*
        $(pub mod $bare_wire_module;)*

        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "each verb has its own")]
        pub enum $request {
            $($verb($module::$verb),)*
            $($wire($wire_module::$wire),)*
            $($bare,)*
            $($bare_wire,)*
            $($noun($noun_module::$inner),)*
        }

        impl $request {
            /// Returns its properties.
            pub fn operation(&self) -> &dyn $crate::operations::Operation {
                match self {
                    $(Self::$verb(operation) => operation,)*
                    $(Self::$wire(operation) => operation,)*
                    $(Self::$bare => &$bare_module::$bare,)*
                    $(Self::$bare_wire => &$bare_wire_module::$bare_wire,)*
                    $(Self::$noun(inner) => inner.operation(),)*
                }
            }

            /// Returns the names of its verbs, including those of the nouns within it.
            pub fn verbs() -> Vec<&'static str> {
                #[allow(unused_mut, reason = "not every noun has nouns within it")]
                let mut verbs = vec![
                    $(concat!($path, ".", stringify!($module)),)*
                    $(concat!($path, ".", stringify!($bare_module)),)*
                    $(concat!($path, ".", stringify!($wire_module)),)*
                    $(concat!($path, ".", stringify!($bare_wire_module)),)*
                ];
                $(verbs.extend(<$noun_module::$inner>::verbs());)*
                verbs
            }

            /// Returns the examples of its verbs, each with the verb's name.
            pub fn examples() -> Vec<(&'static str, $crate::operations::Examples)> {
                #[allow(unused_mut, reason = "not every noun has nouns within it")]
                let mut examples = vec![
                    $((concat!($path, ".", stringify!($module)), <$module::$verb as $crate::operations::Verb>::EXAMPLES),)*
                    $((concat!($path, ".", stringify!($bare_module)), <$bare_module::$bare as $crate::operations::Verb>::EXAMPLES),)*
                    $((concat!($path, ".", stringify!($wire_module)), <$wire_module::$wire as $crate::operations::WireOnly>::EXAMPLES),)*
                    $((concat!($path, ".", stringify!($bare_wire_module)), <$bare_wire_module::$bare_wire as $crate::operations::WireOnly>::EXAMPLES),)*
                ];
                $(examples.extend(<$noun_module::$inner>::examples());)*
                examples
            }

            /// Returns the resources of its verbs, each with the verb's name.
            pub fn routes() -> Vec<(&'static str, &'static $crate::operations::Route)> {
                let mut routes = Vec::new();
                $(routes.extend($crate::operations::named(concat!($path, ".", stringify!($module)), <$module::$verb as $crate::operations::Verb>::ROUTES));)*
                $(routes.extend($crate::operations::named(concat!($path, ".", stringify!($bare_module)), <$bare_module::$bare as $crate::operations::Verb>::ROUTES));)*
                $(routes.extend($crate::operations::named(concat!($path, ".", stringify!($wire_module)), <$wire_module::$wire as $crate::operations::WireOnly>::ROUTES));)*
                $(routes.extend($crate::operations::named(concat!($path, ".", stringify!($bare_wire_module)), <$bare_wire_module::$bare_wire as $crate::operations::WireOnly>::ROUTES));)*
                $(routes.extend(<$noun_module::$inner>::routes());)*
                routes
            }
        }

        $(impl From<$module::$verb> for $request {
            fn from(operation: $module::$verb) -> Self {
                Self::$verb(operation)
            }
        })*
        $(impl From<$wire_module::$wire> for $request {
            fn from(operation: $wire_module::$wire) -> Self {
                Self::$wire(operation)
            }
        })*
    };
}
use requests;

/// Resources, each with the name of its verb.
pub(crate) fn named(
    verb: &'static str,
    routes: &'static [Route],
) -> impl Iterator<Item = (&'static str, &'static Route)> {
    routes.iter().map(move |route| (verb, route))
}
