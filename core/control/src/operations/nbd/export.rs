//! `nbd export`

use clap::Args;
use rustls_pki_types::ServerName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Network, PoolName, VolumeName};

use crate::answer::Done;
use crate::exports::AccessRule;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Longest export name (the NBD protocol's limit on strings, in bytes).
const EXPORT_NAME_BYTES_MAX: usize = 4096 / 16;

/// Export a volume; changes an export of the same name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NbdExport")]
pub struct Export {
    /// Volume.
    pub volume: VolumeName,
    /// Export name; none selects the volume's name.
    pub name: Option<String>,
    /// Writes are refused.
    pub read_only: bool,
    /// The clients that may connect, in addition to loopback and Unix sockets.
    pub access: AccessRule,
}

impl Operation for Export {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            volume: _,
            name: _,
            read_only: _,
            access: _,
        } = self;
        Effect::Change
    }

    fn exporting(&self) -> Option<&VolumeName> {
        Some(&self.volume)
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead nbd export tank/vm0 --name vm0"),
    Example::of("bulkhead nbd export tank/iso --read-only --allow-network 10.0.0.0/24"),
    Example::of("bulkhead nbd export tank/vm0 --allow-certificate hypervisor1"),
]);

/// Export a volume over NBD; changes the export if there is one of that name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume
    volume: VolumeName,
    /// Name of the export [default: the volume's name]
    #[arg(long, value_parser = export_name)]
    name: Option<String>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Let clients of a network connect; may be repeated [default: this host only]
    #[arg(long, value_name = "CIDR", conflicts_with = "allow_everyone")]
    allow_network: Vec<Network>,
    /// Let clients with this name in their certificate connect (DNS name or address); may be
    /// repeated. The server needs --nbd-tls-ca
    #[arg(long, value_name = "NAME", conflicts_with = "allow_everyone",
          value_parser = identity)]
    allow_certificate: Vec<String>,
    /// Let any client connect that reaches the server
    #[arg(long)]
    allow_everyone: bool,
}

fn identity(text: &str) -> Result<String, String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => {
            Err("write a DNS name, or an address, as in the certificate's subjectAltName".into())
        }
    }
}

fn export_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > EXPORT_NAME_BYTES_MAX || text.contains(char::is_control) {
        return Err(format!(
            "use 1 to {EXPORT_NAME_BYTES_MAX} characters without control characters"
        ));
    }
    Ok(text.to_owned())
}

impl Verb for Export {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/nbd",
        "Offer a volume",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"volume": "tank/vm0", "name": "vm0"}"#)
    .with(&[
        ("name", Source::Default("null")),
        ("read_only", Source::Default("false")),
        ("access", Source::Default("{}")),
    ])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let access = AccessRule {
            everyone: arguments.allow_everyone,
            initiators: Vec::new(),
            networks: arguments.allow_network,
            identities: arguments.allow_certificate,
        };
        let export = Self {
            volume: arguments.volume,
            name: arguments.name,
            read_only: arguments.read_only,
            access,
        };
        Ok((PoolSelector::Pool(export.volume.pool()), export))
    }
}
