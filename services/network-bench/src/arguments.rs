//! The arguments of `bulkhead bench network`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

/// The examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead bench network --serve --bind 10.77.1.11
  bulkhead bench network 10.77.1.11
  bulkhead bench network 10.77.1.11 --connections 16 --reverse --svg network.svg

Needs iperf3 on both hosts (Debian: iperf3). The server listens on a port for each connection, 5201 and the following
ones, without a password, and stops by itself. The test fills the link: clients of pools on it are slowed down.";

/// Most connections.
const CONNECTIONS_MAX: i64 = 64;

/// `bench network`
#[derive(Clone, Debug, Args)]
pub struct NetworkArgs {
    /// Address of the host where the server runs
    #[arg(required_unless_present = "serve", conflicts_with = "serve")]
    pub address: Option<IpAddr>,
    /// Be the server
    #[arg(long)]
    pub serve: bool,
    /// Listen on this address only [default: all]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "address")]
    pub bind: Option<IpAddr>,
    /// Stop the server after so many minutes
    #[arg(long, value_name = "MINUTES", conflicts_with = "address", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub minutes: u64,
    /// Most connections: 1, 2, 4 and so on are measured
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=CONNECTIONS_MAX))]
    pub connections: u16,
    /// Port of the first connection
    #[arg(long, value_name = "PORT", default_value_t = 5201, value_parser = clap::value_parser!(u16).range(1..=65_000))]
    pub port: u16,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub seconds: u64,
    /// Receive instead of send
    #[arg(long, conflicts_with = "serve")]
    pub reverse: bool,
    /// Also draw the throughput into this file
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    pub svg: Option<PathBuf>,
}

impl NetworkArgs {
    /// The numbers of connections to measure.
    pub fn steps(&self) -> Vec<u16> {
        let doubled = std::iter::successors(Some(1_u16), |count| count.checked_mul(2));
        let mut steps: Vec<u16> = doubled
            .take_while(|count| *count < self.connections)
            .collect();
        steps.push(self.connections);
        steps
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: NetworkArgs,
    }

    #[test]
    fn connections_double_up_to_the_requested_number() {
        let steps = |connections: &str| {
            let line = ["x", "10.0.0.1", "--connections", connections];
            Line::try_parse_from(line).expect("valid").args.steps()
        };
        assert_eq!(steps("1"), [1]);
        assert_eq!(steps("8"), [1, 2, 4, 8]);
        assert_eq!(steps("6"), [1, 2, 4, 6]);
    }

    #[test]
    fn server_and_client_have_options_of_their_own() {
        for line in [
            "x",
            "x --serve 10.0.0.1",
            "x --serve --reverse",
            "x 10.0.0.1 --bind 10.0.0.2",
            "x 10.0.0.1 --connections 65",
            "x left.example",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        for line in [
            "x --serve --bind fd00::1 --minutes 5",
            "x fd00::1 --reverse",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
