//! The server of a pool with NFS clients that use Kerberos: an unusable keytab is reported, and clients continue after
//! a kill.

#[path = "../../../../protocols/nfs/tests/kerberos/client.rs"]
#[allow(dead_code, reason = "further tests use the rest")]
mod client;
#[path = "../../../../protocols/nfs/tests/kerberos/realm.rs"]
#[allow(dead_code, reason = "further tests use the rest")]
mod realm;

use std::net::SocketAddr;

use crate::common::TestHost;
use client::{Caller, Client, MOUNT, NFS, ReplyContent, SERVER, credential};
use nfs::xdr::{Reader, Writer};

/// `auth_stat` of an unknown context.
const NO_CONTEXT: u32 = 13;
/// Procedures of version 3.
const LOOKUP: u32 = 3;
const CREATE: u32 = 8;
const MNT: u32 = 1;
/// The service `krb5p`.
const PRIVACY: u32 = 3;

fn address(machine: &TestHost) -> SocketAddr {
    let status = machine.ok("status tank --json").json();
    let listeners = &status["server"]["listeners"]["nfs"];
    let address = listeners[0].as_str().and_then(|text| text.parse().ok());
    address.unwrap_or_else(|| panic!("{status}"))
}

#[test]
fn client_resumes_after_kill_and_foreign_keytab_is_reported() {
    realm::within(
        "client_resumes_after_kill_and_foreign_keytab_is_reported",
        |realm| {
            let machine = TestHost::with_disks(&["a", "b"]);
            machine.ok("pool create tank mirror a b");
            let share = "rw=127.0.0.0/8,insecure,sec=krb5p";
            machine.ok(&format!(
                "filesystem create tank/home --share {share} --mode 777"
            ));
            let options = |keytab| {
                let keytab = realm.path(keytab);
                format!("--nfs 127.0.0.1:0 --nfs-keytab {}", keytab.display())
            };
            for keytab in ["host.keytab", "missing.keytab"] {
                let words = format!("pool-server tank {}", options(keytab));
                machine.refused(&words, 2, "put the keys of nfs/NAME@REALM there");
            }

            let server = machine.serve(&options("nfs.keytab"));
            let mut client = Client::log_in(address(&machine), "daemon", PRIVACY);
            let mut arguments = Writer::new();
            arguments.opaque(b"/tank/home");
            let mounted = client.call((MOUNT, 3, MNT), arguments.bytes()).results();
            let mut reader = Reader::new(&mounted);
            assert_eq!(reader.u32(), Ok(0));
            let mut name = Writer::new();
            name.opaque(reader.opaque(64).expect("a handle"));
            name.opaque(b"f");
            let mut create = Writer::new();
            create.append(name.bytes());
            (0..7).for_each(|_| create.u32(0));
            let created = client.call((NFS, 3, CREATE), create.bytes()).results();
            assert_eq!(created[..4], [0; 4]);
            server.kill();

            let _server = machine.serve(&options("nfs.keytab"));
            let before = std::mem::replace(&mut client.caller, Caller::Nobody);
            let mut client = Client::connect(address(&machine), before);
            let looked = client.call((NFS, 3, LOOKUP), name.bytes());
            assert_eq!(looked, ReplyContent::Denied(NO_CONTEXT));
            let begun = client.begin(&credential("daemon"), SERVER, PRIVACY);
            begun.expect("let in");
            let looked = client.call((NFS, 3, LOOKUP), name.bytes()).results();
            assert_eq!(looked[..4], [0; 4]);
        },
    );
}
