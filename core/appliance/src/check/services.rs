//! Checks how a pool is served: protocols with TLS, and replication from other appliances.

use units::{HeadName, PoolName};

use super::{Checker, Code, head_key, pool_key};
use crate::facts::HeadFacts;
use crate::file::{Pool, Replication, Tls};

/// A certificate that expires sooner is reported.
const VALID_DAYS_MIN: i64 = 30;
const SECONDS_PER_DAY: i64 = 24 * 3600;

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        if let Some(replication) = &pool.replication {
            check_replication(checker, name, pool, replication);
        }
        let mut seen = Vec::new();
        for (key, protocol, tls) in pool.all_tls() {
            check_paths(checker, name, &key, tls);
            check_heads(checker, pool, tls);
            if seen.contains(&protocol) {
                checker.find(
                    Code::TlsTwice,
                    &pool_key(name).field(&key),
                    format!("the TLS of {} is configured twice", protocol.title),
                    "leave one of them out",
                );
            }
            seen.push(protocol);
        }
    }
}

fn check_replication(
    checker: &mut Checker<'_>,
    name: &PoolName,
    pool: &Pool,
    replication: &Replication,
) {
    let key = pool_key(name).field("replication");
    let address = replication.address;
    if !pool.addresses.iter().any(|one| one.address == address) {
        checker.find(
            Code::ReplicationAddress,
            &key.field("address"),
            format!("{address} is no address of {name}"),
            "write one of its addresses",
        );
    }
    let mut all = protocol_list::ALL.iter();
    let what = match all.find(|protocol| protocol.port == replication.port) {
        Some(by) => format!("port {} is that of {}", by.port, by.title),
        None if replication.port == 0 => "port 0 is none".to_owned(),
        None => return,
    };
    checker.find(
        Code::PortTaken,
        &key.field("port"),
        what,
        "leave port out, or write another",
    );
}

fn check_paths(checker: &mut Checker<'_>, name: &PoolName, key: &str, tls: &Tls) {
    for path in tls.files().filter(|path| !path.is_absolute()) {
        checker.find(
            Code::TlsPath,
            &pool_key(name).field(key),
            format!("{} does not begin with /", path.display()),
            "write the whole path, such as /etc/bulkhead/cert.pem",
        );
    }
}

fn check_heads(checker: &mut Checker<'_>, pool: &Pool, tls: &Tls) {
    let facts = checker.facts;
    for head in checker.appliance.heads_of(pool) {
        if let Some(known) = facts.heads.get(&head) {
            check_certificate(checker, &head, known, tls);
        }
    }
}

fn check_certificate(checker: &mut Checker<'_>, head: &HeadName, known: &HeadFacts, tls: &Tls) {
    let shown = tls.certificate_file.display();
    let Some(found) = known.tls.get(&tls.certificate_file) else {
        return;
    };
    if let Some(why) = &found.refused {
        checker.find(
            Code::TlsUnusable,
            &head_key(head),
            format!("{head} cannot use {shown}: {why}"),
            "put certificate, key and authorities there, as PEM files that fit together",
        );
        return;
    }
    let days = found
        .valid_for_s
        .map(|seconds| seconds.div_euclid(SECONDS_PER_DAY));
    let what = match days {
        Some(days) if days < 0 => format!("{shown} on {head} is not valid now"),
        Some(days) if days < VALID_DAYS_MIN => {
            format!("{shown} on {head} is valid for {days} days only")
        }
        _ => return,
    };
    checker.find(
        Code::TlsExpires,
        &head_key(head),
        what,
        "put a new certificate and its key there, and send the pool's server SIGHUP",
    );
}
