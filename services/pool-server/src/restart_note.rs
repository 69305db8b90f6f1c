//! The options of this server for its next start, which the advice to start it again contains.

use ::protocol_list::{ALL, Description};
use pool_access::common::Common;
use pool_access::places;
use units::PoolName;

use super::portals::Addresses;

/// Options with a value that are for one start only.
const ONCE_WITH_VALUE: [&str; 6] = [
    "--ready-fd",
    "--noted-in",
    "--late-device",
    "--leg-faults",
    "--stopped-owner",
    "--fenced-owner",
];
/// Options without a value that are for one start only.
const ONCE: [&str; 5] = [
    "--say-claimed",
    "--until-stdin-closes",
    "--previous-owner-is-stopped",
    "--take-over",
    "--json",
];

/// Where the options are stored, and those that are not about addresses.
pub struct RestartNote {
    common: Common,
    pool: PoolName,
    kept: Vec<String>,
}

impl RestartNote {
    /// The options of this process.
    pub fn of_this_process(common: &Common, pool: &PoolName) -> Self {
        let words = std::env::args_os().skip(1);
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        Self {
            common: common.clone(),
            pool: pool.clone(),
            kept: without_addresses(&words, pool),
        }
    }

    /// Stores the options for a server that listens at `now`.
    pub fn write(&self, now: &Addresses) {
        let mut options = self.kept.clone();
        options.extend(ALL.iter().flat_map(|protocol| of_protocol(now, protocol)));
        places::note_server_options(&self.common, &self.pool, &options);
    }
}

/// The words of a command line without `pool-server`, the pool, its addresses, and the options for one start.
fn without_addresses(words: &[String], pool: &PoolName) -> Vec<String> {
    let mut positional = vec!["pool-server", pool.as_str()];
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, has_value) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word.as_str(), false),
        };
        let is_option = |of: &dyn Fn(&Description) -> &'static str| {
            let bare = name.strip_prefix("--");
            bare.is_some_and(|bare| ALL.iter().any(|protocol| of(protocol) == bare))
        };
        let index = positional.iter().position(|one| one == word);
        let takes_value = is_option(&|one| one.name) || ONCE_WITH_VALUE.contains(&name);
        let is_left_out = is_option(&|one| one.nowhere) || ONCE.contains(&name);
        match index {
            _ if takes_value && !has_value => drop(words.next()),
            _ if takes_value || is_left_out => {}
            Some(index) => drop(positional.remove(index)),
            None => kept.push(word.clone()),
        }
    }
    kept
}

/// The options that have a server listen for `protocol` as now. None are needed for its default addresses.
fn of_protocol(now: &Addresses, protocol: &Description) -> Vec<String> {
    let places: Vec<String> = now.of(protocol.name).map(ToString::to_string).collect();
    let option = |place: &String| [format!("--{}", protocol.name), place.clone()];
    match places.is_empty() {
        _ if places == protocol.places => Vec::new(),
        true => vec![format!("--{}", protocol.nowhere)],
        false => places.iter().flat_map(option).collect(),
    }
}

#[cfg(test)]
mod tests {
    use ::protocol_list::{Place, Places};

    use super::*;

    #[test]
    fn the_next_start_has_the_present_addresses_and_the_other_options() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let pool = "tank".parse().expect("a name");
        let started = words(
            "--search /srv/disks pool-server tank --nfs 10.0.0.1:2050 --nbd=unix:/run/a --no-iscsi \
             --arc-size 1G --ready-fd 5 --stopped-owner tank --nbd-tls-cert /etc/c",
        );
        let kept = without_addresses(&started, &pool);
        assert_eq!(
            kept,
            words("--search /srv/disks --arc-size 1G --nbd-tls-cert /etc/c")
        );
        let at = |protocol: &str, text: &str| {
            (
                protocol.to_owned(),
                vec![text.parse::<Place>().expect("a place")],
            )
        };
        let places = Places([at("nfs", "10.0.0.1:2051"), at("iscsi", "[::1]:3261")].into());
        let now = Addresses::read(&places, ALL).expect("addresses");
        let options = |name: &str| {
            let protocol = ALL.iter().find(|one| one.name == name);
            of_protocol(&now, protocol.expect("a protocol"))
        };
        assert_eq!(options("nfs"), ["--nfs", "10.0.0.1:2051"]);
        assert_eq!(options("iscsi")[..1], ["--iscsi"]);
        assert!(options("iscsi")[1].starts_with("[::1]:3261"));
    }
}
