//! `replicate set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, duration_s, schema_of,
};
use crate::replication::{Fingerprint, ReplicateDocument};
use crate::{Effect, Failure};

/// Replicate a volume, or all below a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReplicateSet")]
pub struct Set {
    /// Which.
    pub dataset: VolumeName,
    /// Where to.
    pub document: ReplicateDocument,
}

impl Operation for Set {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            dataset: _,
            document: _,
        } = self;
        Effect::Govern
    }
}

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead replicate set tank/vm0 --to backup.example.org:8873 --into vault/from-tank/vm0 \\
      --peer 0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9 --every 15m",
)
.elsewhere("needs two servers: tests/head/replication.rs")]);

/// Replicate a volume, or every volume below a dataset, to another appliance
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, or a dataset with volumes below
    dataset: VolumeName,
    /// The receiver, as HOST:PORT
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    to: String,
    /// The receiving pool's fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    peer: Fingerprint,
    /// The volume, or the dataset above the volumes, there
    #[arg(long, value_name = "POOL/NAME")]
    into: VolumeName,
    /// Pause between two runs, such as 30s, 15m, 4h, 1d [default: only on request]
    #[arg(long, value_name = "TIME", value_parser = duration_s)]
    every: Option<u64>,
    /// Number of replicated snapshots to retain on each side
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    keep: u32,
    /// Encrypted volumes stay encrypted in transit and at the receiver, which needs no key
    #[arg(long)]
    raw: bool,
    /// Encrypted volumes leave this pool decrypted: the receiver stores them like any volume
    #[arg(long, conflicts_with = "raw")]
    decrypt: bool,
}

fn host_and_port(text: &str) -> Result<String, String> {
    let valid = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    match valid {
        true => Ok(text.to_owned()),
        false => Err("write it as HOST:PORT, such as backup.example.org:8873".to_owned()),
    }
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/replication/set",
        "Replicate a volume, or all below a dataset",
        schema_of::<Done>,
        Least::Govern,
    )
    .body(r#"{"dataset": "tank/vm0", "document": {"version": 1, "to": "backup.example.org:8873", "peer": "5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3", "into": "vault/from-tank/vm0", "keep": 8}}"#)];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let document = ReplicateDocument {
            version: 1,
            to: arguments.to,
            peer: arguments.peer,
            into: arguments.into,
            every_s: arguments.every,
            keep: arguments.keep,
            raw: arguments.raw,
            decrypt: arguments.decrypt,
        };
        let dataset = arguments.dataset;
        let pool = PoolSelector::Pool(dataset.pool());
        Ok((pool, Self { dataset, document }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_require_a_unit() {
        assert_eq!(duration_s("90s"), Ok(90));
        assert_eq!(duration_s("15m"), Ok(900));
        assert_eq!(duration_s("4h"), Ok(14_400));
        assert_eq!(duration_s("1d"), Ok(86_400));
        for wrong in [
            "",
            "15",
            "m",
            "-1m",
            "99999999999999999999d",
            "18446744073709551615d",
            "1é",
        ] {
            assert!(duration_s(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn address_requires_a_port() {
        assert!(host_and_port("[::1]:8873").is_ok());
        for wrong in ["host", "host:", ":8873", "host:0", "host:70000"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }
}
