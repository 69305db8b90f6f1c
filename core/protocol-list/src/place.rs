//! An address at which a protocol listens, in text form and as part of requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ALL, Description};

/// The group of an address without a group.
const FIRST_GROUP: u16 = 1;

/// Where a protocol listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP.
    Tcp(SocketAddr),
    /// TCP, in a group.
    Grouped(SocketAddr, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Place {
    /// Without its group.
    #[must_use]
    pub fn without_group(self) -> Self {
        match self {
            Self::Grouped(address, _) => Self::Tcp(address),
            other => other,
        }
    }

    /// Its address of TCP.
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Grouped(address, _) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.strip_prefix("unix:"), text.rsplit_once(',')) {
            (Some(""), _) => Err("write unix:PATH".to_owned()),
            (Some(path), _) => Ok(Self::Unix(path.into())),
            (None, None) => socket_address(text).map(Self::Tcp),
            (None, Some((address, group))) => match group.parse::<u16>() {
                Ok(group) if group > 0 => Ok(Self::Grouped(socket_address(address)?, group)),
                _ => Err("the portal group is a number from 1 to 65535".to_owned()),
            },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Grouped(address, group) => write!(f, "{address},{group}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Reads `ADDRESS:PORT`.
///
/// # Errors
///
/// The remedy, in a sentence.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write ADDRESS:PORT with a numeric address, such as 10.0.0.1:3260 or [fd00::1]:3260"
            .to_owned()
    })
}

impl Description {
    /// Reads an address of it.
    ///
    /// # Errors
    ///
    /// The remedy, in a sentence.
    pub fn parse(&self, text: &str) -> Result<Place, String> {
        self.check(text.parse()?)
    }

    /// Returns `place` as one of this protocol, in a group if it has them.
    ///
    /// # Errors
    ///
    /// The remedy, in a sentence.
    pub fn check(&self, place: Place) -> Result<Place, String> {
        match place {
            Place::Tcp(address) if self.has_groups => Ok(Place::Grouped(address, FIRST_GROUP)),
            Place::Grouped(_, 0) => Err("portal groups are numbered from 1 on".to_owned()),
            Place::Grouped(..) if !self.has_groups => {
                Err(format!("{} has no groups: write ADDRESS:PORT", self.title))
            }
            Place::Unix(_) if !self.has_unix => {
                let title = self.title;
                Err(format!("{title} has no Unix sockets: write ADDRESS:PORT"))
            }
            other => Ok(other),
        }
    }
}

/// Text, or an object for an address in a group.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "an address as text, or an object with `address` and `group`"
)]
enum Wire {
    Text(String),
    Grouped {
        address: SocketAddr,
        #[serde(default = "first_group")]
        group: u16,
    },
}

const fn first_group() -> u16 {
    FIRST_GROUP
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let wire = match self {
            Self::Grouped(address, group) => Wire::Grouped {
                address: *address,
                group: *group,
            },
            other => Wire::Text(other.to_string()),
        };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Text(text) => text.parse().map_err(serde::de::Error::custom),
            Wire::Grouped { address, group } => Ok(Self::Grouped(address, group)),
        }
    }
}

/// Addresses by the name of the protocol. Each protocol is a member of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Places(pub BTreeMap<String, Vec<Place>>);

impl JsonSchema for Places {
    fn schema_name() -> Cow<'static, str> {
        "Places".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(|protocol| match protocol.has_groups {
            false => json_schema!({"type": "string"}),
            true => json_schema!({
                "type": "object",
                "required": ["address"],
                "properties": {
                    "address": {"type": "string", "description": "Address and port."},
                    "group": {
                        "type": "integer", "format": "uint16", "minimum": 1, "maximum": u16::MAX,
                        "default": FIRST_GROUP, "description": "Portal group tag, from 1 on.",
                    },
                },
            }),
        })
    }
}

/// [`Places`] without groups: their schema.
pub struct PlacesOfNames;

impl JsonSchema for PlacesOfNames {
    fn schema_name() -> Cow<'static, str> {
        "PlacesOfNames".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(|_| json_schema!({"type": "string"}))
    }
}

fn schema(of: impl Fn(&Description) -> Schema) -> Schema {
    let members = ALL.iter().map(|protocol| {
        let forms = match protocol.has_unix {
            true => "`ADDRESS:PORT` or `unix:/PATH`",
            false => "`ADDRESS:PORT`",
        };
        let member = json_schema!({
            "type": "array",
            "items": of(protocol),
            "default": [],
            "description": format!("Addresses of {}: {forms}.", protocol.title),
        });
        (protocol.name.to_owned(), member.to_value())
    });
    let members: serde_json::Map<String, serde_json::Value> = members.collect();
    json_schema!({"type": "object", "properties": members})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{iscsi, nbd};

    #[test]
    fn listen_addresses_parse_per_protocol() {
        let portal = iscsi::PROTOCOL.parse("[::1]:0,7").expect("a portal");
        assert_eq!(portal.to_string(), "[::1]:0,7");
        let portal = iscsi::PROTOCOL.parse("10.0.0.1:3260").expect("a portal");
        assert_eq!(portal.to_string(), "10.0.0.1:3260,1");
        let bad_portals = [
            "host:3260",
            "10.0.0.1:3260,0",
            "10.0.0.1",
            ":3260",
            "unix:/x",
        ];
        for bad in bad_portals {
            assert!(iscsi::PROTOCOL.parse(bad).is_err(), "{bad}");
        }
        let unix = nbd::PROTOCOL.parse("unix:/run/x,y").expect("a listener");
        assert_eq!(unix, Place::Unix("/run/x,y".into()));
        for bad in ["unix:", "10.0.0.1:1,1", "host:1"] {
            assert!(nbd::PROTOCOL.parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn grouped_addresses_serialize_as_objects_others_as_text() {
        let text =
            r#"{"iscsi":[{"address":"10.0.0.1:3260","group":2}],"nbd":["unix:/run/x","[::1]:1"]}"#;
        let places: Places = serde_json::from_str(text).expect("places");
        assert_eq!(serde_json::to_string(&places).expect("JSON"), text);
        let short = r#"{"iscsi":[{"address":"10.0.0.1:3260"}]}"#;
        let places: Places = serde_json::from_str(short).expect("places");
        assert_eq!(places.0["iscsi"][0].to_string(), "10.0.0.1:3260,1");
        let names = Place::Grouped("10.0.0.1:1".parse().expect("an address"), 3).without_group();
        assert_eq!(
            serde_json::to_string(&names).expect("JSON"),
            r#""10.0.0.1:1""#
        );
        for bad in [r#"{"nbd":["host:1"]}"#, r#"{"nbd":[7]}"#, r#"{"nbd":true}"#] {
            assert!(serde_json::from_str::<Places>(bad).is_err(), "{bad}");
        }
    }
}
