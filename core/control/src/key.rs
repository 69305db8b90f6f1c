//! Keys of encrypted volumes: responses about them, and their locations.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::exports::DocumentError;

/// Property of an encryption root: the commands that print its key. ZFS's own `keylocation` is
/// `prompt` there, since ZFS supports no commands.
pub const KEY_COMMANDS_PROPERTY: &str = "bulkhead:keycommands";
/// Version of the form of that property.
const VERSION: u64 = 1;
/// Number of commands that one root may name: during a change the old and the new one.
pub const KEY_COMMANDS_MAX: usize = 4;
/// Longest key in its external form, in bytes.
pub const KEY_BYTES_MAX: usize = 514;

/// The command that loads the key of an encryption root, in a sentence. `noun`: `volume` or `filesystem`.
pub fn how_to_load(noun: &str, dataset: &str) -> String {
    let command = match noun {
        "filesystem" => format!("`bulkhead filesystem key load {dataset}`"),
        _ => format!("`bulkhead volume key load {dataset}`"),
    };
    format!("{command} loads it (a passphrase with --prompt)")
}

/// The commands that load the missing key of an encryption root, in a sentence. `format`: `raw`, `hex` or `passphrase`.
/// `locations`: those of the key. A raw key cannot be typed.
pub fn ways_to_load(dataset: &str, format: Option<&str>, locations: &[String]) -> String {
    let load = format!("bulkhead volume key load {dataset}");
    let is_prompt = |location: &String| location == "prompt";
    let contents = match format {
        Some("raw") => "the 32 bytes of the key",
        Some("hex") => "the 64 hex digits of the key",
        _ => "the passphrase",
    };
    let mut ways = Vec::new();
    if let Some(location) = locations.iter().find(|location| !is_prompt(location)) {
        ways.push(match location.strip_prefix("file://") {
            Some(path) => format!("write {contents} to {path}, and run `{load}`"),
            None => format!("`{load}` runs the key command again"),
        });
    }
    ways.push(match format {
        Some("raw") => format!("`{load} --key-location file:///PATH` reads another file once"),
        _ => format!("`{load} --prompt` reads it from the terminal"),
    });
    ways.join("; or ")
}

/// A key in its external form. It is transferred as hex digits, since it can be any bytes. It is
/// wiped when dropped, and never printed.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct KeyBytes(Zeroizing<Vec<u8>>);

impl KeyBytes {
    /// Wraps the bytes.
    pub fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the one caller that uses them.
    pub fn reveal(&self) -> &Zeroizing<Vec<u8>> {
        &self.0
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBytes(hidden)")
    }
}

impl Serialize for KeyBytes {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let digits = self.0.iter().flat_map(|byte| {
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        });
        let text: Zeroizing<String> = Zeroizing::new(digits.collect());
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for KeyBytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = Zeroizing::new(String::deserialize(from)?);
        let wrong = || D::Error::custom("a key is an even number of hex digits, at most 1028");
        if text.len() % 2 != 0 || text.len() > KEY_BYTES_MAX * 2 {
            return Err(wrong());
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
        for pair in text.as_bytes().chunks_exact(2) {
            bytes.push(((digit(pair[0])? << 4) | digit(pair[1])?) as u8);
        }
        Ok(Self(bytes))
    }
}

/// The location of a key. As text: `prompt`, `file:///PATH`, or `command:PROGRAM ARGUMENT...`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum KeyLocation {
    /// A user enters it when it is needed.
    Prompt,
    /// In a file of the head that opens the pool.
    File(PathBuf),
    /// Printed by a command of that head: its name and its arguments.
    Command(Vec<String>),
}

/// Why a text is not a valid key location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyLocationError {
    /// None of the three.
    #[error("a key's location is prompt, file:///PATH, or 'command:PROGRAM ARGUMENT...'")]
    Unknown,
    /// A path or an address instead of a name.
    #[error(
        "{0:?} is no valid key program: name one in the directory of key programs, with letters, \
         digits, '-', '_' and '.' only"
    )]
    Program(String),
    /// More than a property holds.
    #[error("the arguments of the key program are too long: 1000 bytes in all at most")]
    TooLong,
}

/// Longest command with arguments, in bytes: two of them fit a property.
const COMMAND_BYTES_MAX: usize = 1000;

impl KeyLocation {
    /// Returns the `keylocation` that ZFS itself stores.
    pub fn for_zfs(&self) -> String {
        match self {
            Self::Prompt | Self::Command(_) => "prompt".to_owned(),
            Self::File(_) => self.to_string(),
        }
    }

    /// Returns a command location, if the name is allowed.
    pub fn command(words: Vec<String>) -> Result<Self, KeyLocationError> {
        let program = words.first().ok_or(KeyLocationError::Unknown)?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if program.is_empty() || program.starts_with('.') || !program.bytes().all(is_plain) {
            return Err(KeyLocationError::Program(program.clone()));
        }
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > COMMAND_BYTES_MAX {
            return Err(KeyLocationError::TooLong);
        }
        Ok(Self::Command(words))
    }
}

impl FromStr for KeyLocation {
    type Err = KeyLocationError;
    fn from_str(text: &str) -> Result<Self, KeyLocationError> {
        if text == "prompt" {
            return Ok(Self::Prompt);
        }
        if let Some(command) = text.strip_prefix("command:") {
            return Self::command(command.split_whitespace().map(str::to_owned).collect());
        }
        let path = text.strip_prefix("file://").filter(|path| {
            path.starts_with('/') && path.len() > 1 && path.bytes().all(|byte| byte >= b' ')
        });
        path.map(|path| Self::File(path.into()))
            .ok_or(KeyLocationError::Unknown)
    }
}

impl fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prompt => f.write_str("prompt"),
            Self::File(path) => write!(f, "file://{}", path.display()),
            Self::Command(words) => write!(f, "command:{}", words.join(" ")),
        }
    }
}

impl TryFrom<String> for KeyLocation {
    type Error = KeyLocationError;
    fn try_from(text: String) -> Result<Self, KeyLocationError> {
        text.parse()
    }
}

impl From<KeyLocation> for String {
    fn from(location: KeyLocation) -> Self {
        location.to_string()
    }
}

/// The property that names key programs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandsDocument {
    version: u64,
    commands: Vec<Vec<String>>,
}

/// Returns the value of [`KEY_COMMANDS_PROPERTY`] for these commands.
pub fn encode_commands(commands: &[Vec<String>]) -> String {
    let commands = commands.iter().take(KEY_COMMANDS_MAX).cloned().collect();
    let document = CommandsDocument {
        version: VERSION,
        commands,
    };
    serde_json::to_string(&document).expect("words are JSON")
}

/// Returns the commands that the property names, in the order in which they are tried.
pub fn decode_commands(value: &str) -> Result<Vec<Vec<String>>, DocumentError> {
    let malformed = |cause: serde_json::Error| DocumentError::Malformed {
        property: KEY_COMMANDS_PROPERTY.to_owned(),
        cause,
    };
    let document: CommandsDocument = serde_json::from_str(value).map_err(malformed)?;
    if document.version != VERSION {
        return Err(DocumentError::UnknownVersion {
            property: KEY_COMMANDS_PROPERTY.to_owned(),
            version: document.version,
        });
    }
    for words in document.commands.iter().take(KEY_COMMANDS_MAX) {
        let checked = KeyLocation::command(words.clone());
        checked.map_err(|error| malformed(serde::de::Error::custom(error)))?;
    }
    let mut commands = document.commands;
    commands.truncate(KEY_COMMANDS_MAX);
    Ok(commands)
}

/// The key of a new dataset, or the new key of an existing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeySettings {
    /// `aes-256-gcm` or another suite; none selects ZFS's default. Ignored in a change.
    #[serde(default)]
    pub encryption: Option<String>,
    /// `raw` (32 bytes), `hex` (64 digits) or `passphrase`.
    pub format: String,
    /// Of a passphrase.
    #[serde(default)]
    pub iterations: Option<u64>,
    /// Its location for later loads.
    pub location: KeyLocation,
    /// The key; none reads it at its location now.
    #[serde(default)]
    pub key: Option<KeyBytes>,
}

/// The key of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyView {
    /// The dataset.
    pub dataset: String,
    /// `aes-256-gcm`, ..., or `off`.
    pub encryption: String,
    /// The dataset that shares its key; none if the key is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_with: Option<String>,
    /// `raw`, `hex`, `passphrase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Whether the key is loaded.
    pub loaded: bool,
    /// The locations of the key, in the order in which they are tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<KeyLocation, KeyLocationError> {
        text.parse()
    }

    #[test]
    fn missing_key_is_loaded_by_commands_that_its_format_permits() {
        let ways = |format: &str, location: &str| {
            ways_to_load("tank/v", Some(format), &[location.to_owned()])
        };
        assert_eq!(
            ways("raw", "file:///etc/keys/v"),
            "write the 32 bytes of the key to /etc/keys/v, and run `bulkhead volume key load tank/v`; or `bulkhead volume key \
             load tank/v --key-location file:///PATH` reads another file once"
        );
        let typed = "`bulkhead volume key load tank/v --prompt` reads it from the terminal";
        assert_eq!(ways("passphrase", "prompt"), typed);
        assert!(ways("hex", "file:///k").ends_with(typed));
        let command = ways("raw", "command:vault kv/v");
        assert!(command.starts_with("`bulkhead volume key load tank/v` runs the key command"));
        assert!(!command.contains("--prompt"), "{command}");
    }

    #[test]
    fn key_locations_round_trip() {
        for text in [
            "prompt",
            "file:///etc/keys/tank",
            "command:vault secret/tank -x",
        ] {
            assert_eq!(parsed(text).expect(text).to_string(), text);
        }
        assert_eq!(parsed("file:///k").expect("a file").for_zfs(), "file:///k");
        assert_eq!(
            parsed("command:vault").expect("a program").for_zfs(),
            "prompt"
        );
    }

    #[test]
    fn key_location_refuses_paths_and_shell_commands() {
        for text in [
            "command:/bin/sh -c x",
            "command:../sh",
            "command:.sh",
            "command:a;b",
        ] {
            assert!(
                matches!(parsed(text), Err(KeyLocationError::Program(_))),
                "{text}"
            );
        }
        for text in ["command:", "", "file://relative", "file:///", "https://x/y"] {
            assert_eq!(parsed(text), Err(KeyLocationError::Unknown), "{text}");
        }
        let evil = r#"{"version":1,"commands":[["/bin/sh","-c","x"]]}"#;
        assert!(decode_commands(evil).is_err());
        assert!(decode_commands(r#"{"version":2,"commands":[]}"#).is_err());
    }

    #[test]
    fn key_commands_round_trip_the_property() {
        let commands = vec![
            vec!["vault".to_owned(), "a b".to_owned()],
            vec!["old".to_owned()],
        ];
        let value = encode_commands(&commands);
        assert_eq!(
            value,
            r#"{"version":1,"commands":[["vault","a b"],["old"]]}"#
        );
        assert_eq!(decode_commands(&value).expect("decoded"), commands);
    }

    #[test]
    fn key_serializes_as_hex_and_is_never_printed() {
        let key = KeyBytes::new(vec![0, 255, 10, 65].into());
        let text = serde_json::to_string(&key).expect("JSON");
        assert_eq!(text, "\"00ff0a41\"");
        assert_eq!(serde_json::from_str::<KeyBytes>(&text).expect("back"), key);
        assert!(serde_json::from_str::<KeyBytes>("\"0\"").is_err());
        assert!(serde_json::from_str::<KeyBytes>("\"0g\"").is_err());
        assert_eq!(format!("{key:?}"), "KeyBytes(hidden)");
    }
}
