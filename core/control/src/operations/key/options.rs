//! Options for the key of a dataset.

use clap::Args;

use crate::Failure;
use crate::key::{KeyBytes, KeyLocation, KeySettings};
use crate::operations::secret_input;

/// A key and its location.
#[derive(Debug, Args)]
pub struct NewKeyOptions {
    /// The location of the key: prompt, file:///PATH (on every head), or 'command:PROGRAM
    /// ARGUMENT...', a command in /etc/bulkhead/key-programs that prints it [default: prompt]
    #[arg(long, value_name = "PLACE")]
    key_location: Option<KeyLocation>,
    /// Its form: raw (32 bytes), hex (64 digits) or passphrase; required unless it is prompted for
    #[arg(long, value_name = "FORM", value_parser = ["raw", "hex", "passphrase"])]
    key_format: Option<String>,
    /// Read the key from the standard input now
    #[arg(long)]
    key_stdin: bool,
    /// Number of iterations that protect a passphrase from guessing [default: 350000]
    #[arg(long, value_name = "COUNT")]
    key_iterations: Option<u64>,
}

/// A suite, a key and its location.
#[derive(Debug, Args)]
pub struct KeyOptions {
    /// Encrypt it: on, aes-256-gcm, aes-192-gcm, aes-128-gcm, or the slower -ccm
    #[arg(long, value_name = "SUITE", value_parser = SUITES)]
    encryption: Option<String>,
    /// Its key.
    #[command(flatten)]
    key: NewKeyOptions,
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

impl KeyOptions {
    /// Returns whether any option of encryption was given.
    fn is_given(&self) -> bool {
        self.encryption.is_some()
            || self.key.key_location.is_some()
            || self.key.key_format.is_some()
            || self.key.key_stdin
            || self.key.key_iterations.is_some()
    }

    /// Returns the key of a new volume, if it shall have one of its own. Prompts for it.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn settings_if_given(self) -> Result<Option<KeySettings>, Failure> {
        match self.is_given() {
            true => self.settings().map(Some),
            false => Ok(None),
        }
    }

    /// Returns the key. Prompts for it unless another source was given.
    ///
    /// # Errors
    ///
    /// The options contradict each other, or the key cannot be read.
    pub fn settings(self) -> Result<KeySettings, Failure> {
        Ok(KeySettings {
            encryption: self.encryption,
            ..self.key.settings()?
        })
    }
}

impl NewKeyOptions {
    /// Returns the desired key. Prompts for it unless another source was given.
    ///
    /// # Errors
    ///
    /// The options contradict each other, or the key cannot be read.
    pub fn settings(self) -> Result<KeySettings, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn args(location: &str, format: Option<&str>) -> NewKeyOptions {
        NewKeyOptions {
            key_location: Some(location.parse().expect("a place")),
            key_format: format.map(str::to_owned),
            key_stdin: false,
            key_iterations: None,
        }
    }

    #[test]
    fn key_with_a_location_needs_a_format() {
        let settings = args("file:///k", Some("raw")).settings().expect("complete");
        assert_eq!((settings.key, settings.format.as_str()), (None, "raw"));
        let failure = args("file:///k", None).settings().expect_err("no form");
        assert!(failure.advice.expect("advice").contains("--key-format"));
        let failure = args("prompt", Some("raw")).settings().expect_err("typed");
        assert!(failure.message.contains("typed"));
    }
}
