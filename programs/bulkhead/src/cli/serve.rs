//! Tests that the options of `bulkhead pool-server` are parsed as agents pass them.

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    #[test]
    fn the_server_searches_the_readable_disks_and_listens_on_the_pools_addresses() {
        use clap::Parser as _;
        use takeover::{Evidence, Label, Peer, judge};

        use super::super::{Command, Program};

        let text = include_str!("../../../../examples/two-pools.toml");
        let first = text
            .split("[pools.")
            .nth(1)
            .and_then(|rest| rest.split(']').next());
        let first = first.expect("a pool");
        let text = format!(
            "{text}\n[pools.{first}.nbd_tls]\ncertificate_file = \"/c\"\nkey_file = \"/k\"\n\
             client_authority_file = \"/a\"\n[pools.{first}.replication]\naddress = \"fd77::1\"\n"
        );
        let appliance = appliance::parse(&text).expect("well formed").appliance;
        for (name, pool) in &appliance.pools {
            let evidence = Evidence {
                pool: name.clone(),
                label: Label::Exported,
                owner: Peer::Unknown,
            };
            let grant = judge(&evidence).expect("a grant");
            let mut pool = pool.clone();
            // Places are divided at colons.
            pool.disks
                .push("/dev/disk/by-path/pci-0000:00:1f.2-ata-1".into());
            let words = agents::server_arguments(&pool, &pool.disks, &grant);
            let words = std::iter::once("bulkhead".to_owned()).chain(words);
            let cli = super::super::Cli::try_parse_from(words).expect("a command line");
            assert_eq!(cli.common.search(), pool.disks);
            let Command::Perform(Program::PoolServer(args)) = cli.command else {
                panic!("another command");
            };
            for protocol in protocol_list::ALL {
                let addresses = (1_u16..).zip(&pool.addresses);
                let expected = addresses.map(|(group, one)| {
                    let address = std::net::SocketAddr::new(one.address, protocol.port);
                    match protocol.has_groups {
                        true => format!("{address},{group}"),
                        false => address.to_string(),
                    }
                });
                let mut expected: Vec<_> = expected.collect();
                expected.sort();
                let places = args.listen.places.0[protocol.name].iter();
                let places: Vec<_> = places.map(ToString::to_string).collect();
                assert_eq!(places, expected);
            }
            assert_eq!(args.arc_size, pool.arc);
            let is_first = name.as_str() == first;
            let files = is_first.then(|| pool_server::listen::TlsFiles {
                certificate: PathBuf::from("/c"),
                key: PathBuf::from("/k"),
                authority: Some(PathBuf::from("/a")),
            });
            assert_eq!(args.listen.tls.get("nbd"), files.as_ref());
            let listener = "[fd77::1]:8873".parse().expect("an address");
            assert_eq!(args.replication, is_first.then_some(listener));
        }
    }
}
