//! `bulkhead volume key …`, and the options of `volume create` about encryption.

use clap::{Args, Subcommand};
use control::Failure;
use control::key::{KeyBytes, KeyLocation, KeyRequest, KeySettings};
use control::request::Request;
use units::{PoolName, VolumeName};

use super::{Plan, PoolSelector};
use control::operations::{PoolOption, secret_input};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make an encrypted parent: volumes that are made below it share its key
    #[command(after_help = CREATE_EXAMPLES)]
    Create {
        /// The parent, as POOL/NAME
        parent: VolumeName,
        /// What it is encrypted with
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Load keys, so that what they open can be served
    #[command(after_help = LOAD_EXAMPLES)]
    Load {
        /// The volume, or the pool for all keys that are missing and can be found
        #[arg(value_name = "VOLUME|POOL", value_parser = control::operations::dataset)]
        of: String,
        /// Look there this time: file:///PATH or 'command:PROGRAM ARGUMENT...'
        #[arg(long, value_name = "PLACE", conflicts_with_all = ["prompt", "key_stdin"])]
        key_location: Option<KeyLocation>,
        /// Ask for it on this terminal
        #[arg(long)]
        prompt: bool,
        /// Read it from the standard input
        #[arg(long, conflicts_with = "prompt")]
        key_stdin: bool,
    },
    /// Forget a loaded key; refused while a volume that it opens is in use
    #[command(after_help = "Example:\n  bulkhead volume key unload tank/vm0")]
    Unload {
        /// The volume
        volume: VolumeName,
    },
    /// Give an encrypted volume another key, also while it is in use; nothing is written again
    #[command(after_help = CHANGE_EXAMPLES)]
    Change {
        /// The volume, or an encrypted parent
        volume: VolumeName,
        /// Share the key of the parent again
        #[arg(long, conflicts_with_all = ["key_location", "key_format", "key_stdin", "key_iterations"])]
        inherit: bool,
        /// The new key
        #[command(flatten)]
        key: NewKeyArgs,
    },
    /// Show which keys there are, which are missing, and where they are kept
    #[command(after_help = "Example:\n  bulkhead volume key status tank --json")]
    Status {
        /// The volume or the pool [default: the only pool that is served or known here]
        #[arg(value_name = "VOLUME|POOL", value_parser = control::operations::dataset)]
        of: Option<String>,
        /// The pool
        #[command(flatten)]
        pool: PoolOption,
    },
}

const CREATE_EXAMPLES: &str = "Examples:
  bulkhead volume key create tank/secret
  bulkhead volume key create tank/vms --key-format raw --key-location file:///etc/bulkhead/keys/vms
  bulkhead volume create tank/vms/vm0 --size 10G --sparse";

const LOAD_EXAMPLES: &str = "Examples:
  bulkhead volume key load tank
  bulkhead volume key load tank/vm0 --prompt
  bulkhead volume key load tank/vm0 --key-location file:///mnt/stick/vm0.key";

const CHANGE_EXAMPLES: &str = "Examples:
  bulkhead volume key change tank/vm0
  bulkhead volume key change tank/vm0 --key-format hex --key-location command:vault
  bulkhead volume key change tank/vms/vm0 --inherit";

/// A key and its place.
#[derive(Debug, Args)]
pub struct NewKeyArgs {
    /// Where the key is kept: prompt, file:///PATH (on every head), or 'command:PROGRAM
    /// ARGUMENT...', a program in /etc/bulkhead/key-programs that prints it [default: prompt]
    #[arg(long, value_name = "PLACE")]
    pub key_location: Option<KeyLocation>,
    /// Its form: raw (32 bytes), hex (64 digits) or passphrase; needed unless it is asked for
    #[arg(long, value_name = "FORM", value_parser = ["raw", "hex", "passphrase"])]
    pub key_format: Option<String>,
    /// Read the key from the standard input now
    #[arg(long)]
    pub key_stdin: bool,
    /// How laborious it is to guess a passphrase [default: 350000]
    #[arg(long, value_name = "COUNT")]
    pub key_iterations: Option<u64>,
}

/// A suite, a key and its place.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Encrypt it: on, aes-256-gcm, aes-192-gcm, aes-128-gcm, or the slower -ccm
    #[arg(long, value_name = "SUITE", value_parser = SUITES)]
    pub encryption: Option<String>,
    /// Its key.
    #[command(flatten)]
    pub key: NewKeyArgs,
}

const SUITES: [&str; 7] = [
    "on",
    "aes-128-ccm",
    "aes-192-ccm",
    "aes-256-ccm",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
];

impl KeyArgs {
    /// Whether anything was said about encryption.
    fn is_given(&self) -> bool {
        self.encryption.is_some()
            || self.key.key_location.is_some()
            || self.key.key_format.is_some()
            || self.key.key_stdin
            || self.key.key_iterations.is_some()
    }

    /// The key of a new volume, if it shall have one of its own. Asks for it.
    pub fn settings_if_given(self) -> Result<Option<KeySettings>, Failure> {
        match self.is_given() {
            true => self.settings().map(Some),
            false => Ok(None),
        }
    }

    fn settings(self) -> Result<KeySettings, Failure> {
        Ok(KeySettings {
            encryption: self.encryption,
            ..self.key.settings()?
        })
    }
}

impl NewKeyArgs {
    /// The key that is wished for. Asks for it where nothing else is said.
    fn settings(self) -> Result<KeySettings, Failure> {
        let location = self.key_location.unwrap_or(KeyLocation::Prompt);
        let is_asked_for = location == KeyLocation::Prompt && !self.key_stdin;
        let format = match (self.key_format, &location) {
            (Some(format), _) => format,
            (None, KeyLocation::Prompt) => "passphrase".to_owned(),
            (None, _) => {
                let message = format!("the form of the key at {location} is not known");
                return Err(Failure::usage(message)
                    .advise("add --key-format raw, --key-format hex or --key-format passphrase"));
            }
        };
        if is_asked_for && format == "raw" {
            return Err(Failure::usage("a raw key cannot be typed")
                .advise("use --key-stdin, or --key-location file:///PATH"));
        }
        let key = match (is_asked_for, self.key_stdin) {
            (true, _) => Some(typed(&format)?),
            (false, true) => Some(KeyBytes::new(secret_input::key_from_stdin()?)),
            (false, false) => None,
        };
        Ok(KeySettings {
            encryption: None,
            format,
            iterations: self.key_iterations,
            location,
            key,
        })
    }
}

/// A new key that is typed.
fn typed(format: &str) -> Result<KeyBytes, Failure> {
    let what = if format == "hex" {
        "hex key"
    } else {
        "passphrase"
    };
    secret_input::new_key_from_prompt(what).map(KeyBytes::new)
}

fn ask(pool: PoolSelector, request: KeyRequest) -> Plan {
    Plan::Ask {
        pool,
        request: Request::Key(request),
    }
}

/// A pool, or a volume in it.
fn parts(of: &str) -> Result<(PoolName, Option<VolumeName>), Failure> {
    let usage = |error: units::NameError| Failure::usage(error.to_string());
    match of.contains('/') {
        true => {
            let volume: VolumeName = of.parse().map_err(usage)?;
            Ok((volume.pool(), Some(volume)))
        }
        false => Ok((of.parse().map_err(usage)?, None)),
    }
}

impl KeyCommand {
    /// What to do. Reads the key, for the verbs that take one.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Create { parent: name, key } => {
                let key = key.settings()?;
                Ok(ask(
                    PoolSelector::Pool(name.pool()),
                    KeyRequest::Create { name, key },
                ))
            }
            Self::Load {
                of,
                key_location: location,
                prompt,
                key_stdin,
            } => {
                let (pool, name) = parts(&of)?;
                let Some(name) = name else {
                    if location.is_some() || prompt || key_stdin {
                        return Err(Failure::usage("name the volume whose key this is"));
                    }
                    return Ok(ask(PoolSelector::Pool(pool), KeyRequest::LoadAll));
                };
                let key = match (prompt || location == Some(KeyLocation::Prompt), key_stdin) {
                    (true, _) => Some(secret_input::key_from_prompt(&format!("key of {name}: "))?),
                    (false, true) => Some(secret_input::key_from_stdin()?),
                    (false, false) => None,
                };
                let load = KeyRequest::Load {
                    name,
                    location,
                    key: key.map(KeyBytes::new),
                };
                Ok(ask(PoolSelector::Pool(pool), load))
            }
            Self::Unload { volume: name } => Ok(ask(
                PoolSelector::Pool(name.pool()),
                KeyRequest::Unload { name },
            )),
            Self::Change {
                volume: name,
                inherit,
                key,
            } => {
                let pool = PoolSelector::Pool(name.pool());
                let change = match inherit {
                    true => KeyRequest::Inherit { name },
                    false => KeyRequest::Change {
                        name,
                        key: key.settings()?,
                    },
                };
                Ok(ask(pool, change))
            }
            Self::Status { of, pool } => {
                let (pool, name) = match pool.or(of) {
                    None => (PoolSelector::TheOnlyOne, None),
                    Some(of) => {
                        let (pool, name) = parts(&of)?;
                        (PoolSelector::Pool(pool), name)
                    }
                };
                Ok(ask(pool, KeyRequest::Status { name }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(location: &str, format: Option<&str>) -> NewKeyArgs {
        NewKeyArgs {
            key_location: Some(location.parse().expect("a place")),
            key_format: format.map(str::to_owned),
            key_stdin: false,
            key_iterations: None,
        }
    }

    #[test]
    fn a_key_that_is_kept_somewhere_is_read_there_and_needs_its_form() {
        let settings = args("file:///k", Some("raw")).settings().expect("complete");
        assert_eq!((settings.key, settings.format.as_str()), (None, "raw"));
        let failure = args("file:///k", None).settings().expect_err("no form");
        assert!(failure.advice.expect("advice").contains("--key-format"));
        let failure = args("prompt", Some("raw")).settings().expect_err("typed");
        assert!(failure.message.contains("typed"));
    }
}
