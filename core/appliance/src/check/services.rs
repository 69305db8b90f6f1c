//! What a pool serves beside iSCSI: NBD with TLS, and replication from elsewhere.

use units::{HeadName, PoolName};

use super::{Checker, Code, head_key, pool_key};
use crate::facts::HeadFacts;
use crate::file::{NbdTls, Pool, Replication};
use crate::ports::{ISCSI_PORT, NBD_PORT};

/// A certificate that ends sooner is told of.
const VALID_DAYS_MIN: i64 = 30;
const SECONDS_PER_DAY: i64 = 24 * 3600;

pub(super) fn check(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    for (name, pool) in &appliance.pools {
        if let Some(replication) = &pool.replication {
            check_replication(checker, name, pool, replication);
        }
        if let Some(tls) = &pool.nbd_tls {
            check_paths(checker, name, tls);
            check_heads(checker, pool, tls);
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
    let taken = [(ISCSI_PORT, "iSCSI"), (NBD_PORT, "NBD")];
    let taken = taken.iter().find(|(port, _)| *port == replication.port);
    let what = match taken {
        Some((port, by)) => format!("port {port} is that of {by}"),
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

fn check_paths(checker: &mut Checker<'_>, name: &PoolName, tls: &NbdTls) {
    for path in tls.files().filter(|path| !path.is_absolute()) {
        checker.find(
            Code::TlsPath,
            &pool_key(name).field("nbd_tls"),
            format!("{} does not begin with /", path.display()),
            "write the whole path, such as /etc/bulkhead/nbd/cert.pem",
        );
    }
}

fn check_heads(checker: &mut Checker<'_>, pool: &Pool, tls: &NbdTls) {
    let facts = checker.facts;
    for head in checker.appliance.heads_of(pool) {
        if let Some(known) = facts.heads.get(&head) {
            check_certificate(checker, &head, known, tls);
        }
    }
}

fn check_certificate(checker: &mut Checker<'_>, head: &HeadName, known: &HeadFacts, tls: &NbdTls) {
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
