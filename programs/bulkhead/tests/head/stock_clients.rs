//! Stock initiators and NBD clients against the whole server: access by identity and address, and
//! the same bytes over both protocols. A tool that is not installed is reported, and its test
//! passes.

use crate::common::tools::{certificates, installed, run, text, try_run};
use crate::common::{TestHost, contains};

const TARGET: &str = "iqn.2026-01.org.example:tank";
const IPV4: &str = "127.0.0.1:";
const IPV6: &str = "[::1]:";

/// A host with volume `tank/v` as unit 0 of [`TARGET`], and the NBD export `v`.
fn machine() -> TestHost {
    let machine = TestHost::with_exported_volume();
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    machine
}

fn secret_file(machine: &TestHost, secret: &str) {
    std::fs::write(machine.path("secret"), secret).expect("a file");
}

/// Returns the unit's URL for libiscsi. `user` is empty, or has a trailing `@`.
fn unit(user: &str, portal: &str, options: &str) -> String {
    format!("iscsi://{user}{portal}/{TARGET}/0{options}")
}

/// Returns whether an initiator gets a response to INQUIRY.
fn is_accepted(url: &str) -> bool {
    try_run("iscsi-inq", &[url]).status.success()
}

#[test]
fn chap_accepts_only_the_current_secret() {
    if !installed("iscsi-inq") {
        return;
    }
    let machine = machine();
    secret_file(&machine, "first-secret-1");
    let set = format!("target chap set {TARGET} --user ann --secret-file secret");
    machine.ok(&set);
    let _server = machine.serve("--iscsi [::1]:0");
    for portal in [IPV4, IPV6].map(|address| machine.portal(address)) {
        assert!(is_accepted(&unit("ann%first-secret-1@", &portal, "")));
        for wrong in [
            "",
            "ann%first-secret-2@",
            "ann%first-secret-@",
            "bob%first-secret-1@",
        ] {
            assert!(!is_accepted(&unit(wrong, &portal, "")), "{wrong} {portal}");
        }
    }
    // A second user, and a new secret of the first, on the running server.
    secret_file(&machine, "bobs-secret-12");
    machine.ok(&set.replace("ann", "bob"));
    secret_file(&machine, "second-secret-2");
    machine.ok(&set);
    let portal = machine.portal(IPV4);
    assert!(is_accepted(&unit("bob%bobs-secret-12@", &portal, "")));
    assert!(is_accepted(&unit("ann%second-secret-2@", &portal, "")));
    assert!(!is_accepted(&unit("ann%first-secret-1@", &portal, "")));
    machine.ok(&format!("target chap clear {TARGET} --all"));
    assert!(is_accepted(&unit("", &portal, "")));
    assert!(
        !contains(&machine.path("log"), "secret-"),
        "{}",
        machine.log()
    );
}

#[test]
fn mutual_chap_authenticates_target_on_request() {
    if !installed("iscsi-inq") {
        return;
    }
    let machine = machine();
    secret_file(&machine, "anns-secret-12");
    machine.ok(&format!(
        "target chap set {TARGET} --user ann --secret-file secret"
    ));
    let _server = machine.serve("");
    let portal = machine.portal(IPV4);
    let mutual = |user: &str, secret: &str| {
        let options = format!("?target_user={user}&target_password={secret}");
        is_accepted(&unit("ann%anns-secret-12@", &portal, &options))
    };
    assert!(
        !mutual("tank", "tanks-secret-1"),
        "a target without a secret cannot prove itself"
    );
    secret_file(&machine, "tanks-secret-1");
    machine.ok(&format!(
        "target chap mutual {TARGET} --user tank --secret-file secret"
    ));
    assert!(mutual("tank", "tanks-secret-1"));
    assert!(!mutual("tank", "tanks-secret-2"));
    assert!(!mutual("thief", "tanks-secret-1"));
    let one_way = unit("ann%anns-secret-12@", &portal, "");
    assert!(is_accepted(&one_way), "mutual authentication is optional");
}

/// Returns the result of discovery, with the user of the URL, or none.
fn discovery_output(user: &str, portal: &str, options: &str) -> String {
    let url = format!("iscsi://{user}{portal}{options}");
    let asked = try_run("iscsi-ls", &[&url]);
    match asked.status.success() {
        true => String::from_utf8_lossy(&asked.stdout).into_owned(),
        false => String::new(),
    }
}

#[test]
fn discovery_requires_its_secret_and_login_none() {
    if !installed("iscsi-ls") || !installed("iscsi-inq") {
        return;
    }
    let machine = machine();
    let set = |user: &str, secret: &str| {
        secret_file(&machine, secret);
        let words = format!("target discovery set tank --user {user} --secret-file secret");
        machine.ok(&words);
    };
    let server = machine.serve("--iscsi [::1]:0");
    let portals = || [IPV4, IPV6].map(|address| machine.portal(address));
    let is_told = |user: &str| {
        let discovery_output =
            portals().map(|portal| discovery_output(user, &portal, "").contains(TARGET));
        assert_eq!(discovery_output[0], discovery_output[1], "{user}");
        discovery_output[0]
    };
    assert!(is_told(""));
    set("finder", "first-secret-1");
    assert!(is_told("finder%first-secret-1@"));
    for wrong in ["", "finder%first-secret-2@", "bob%first-secret-1@"] {
        assert!(!is_told(wrong), "{wrong}");
    }
    assert!(is_accepted(&unit("", &machine.portal(IPV4), "")));
    // Another user, another secret, and the pool's own proof are set in between.
    set("other", "others-secret-1");
    set("finder", "second-secret-2");
    assert!(is_told("finder%second-secret-2@") && is_told("other%others-secret-1@"));
    assert!(!is_told("finder%first-secret-1@"));
    machine.ok("target discovery clear tank --user other");
    assert!(!is_told("other%others-secret-1@"));
    secret_file(&machine, "tanks-secret-1");
    machine.ok("target discovery mutual tank --user tank --secret-file secret");
    for (secret, right) in [("tanks-secret-1", true), ("tanks-secret-2", false)] {
        let options = format!("?target_user=tank&target_password={secret}");
        let discovery_output =
            discovery_output("finder%second-secret-2@", &machine.portal(IPV4), &options);
        assert_eq!(
            discovery_output.contains(TARGET),
            right,
            "{discovery_output}"
        );
    }
    // It is stored in the pool, and is shown and removed without a server.
    assert_eq!(server.stop(), 0);
    let shown = machine.ok("target discovery show tank --json").json();
    assert_eq!(shown["chap_users"][0], "finder");
    assert_eq!(shown["mutual_user"], "tank");
    let server = machine.serve("--iscsi [::1]:0");
    assert!(!is_told("") && is_told("finder%second-secret-2@"));
    assert_eq!(server.stop(), 0);
    machine.ok("target discovery clear tank --all");
    let _server = machine.serve("--iscsi [::1]:0");
    assert!(is_told(""));
    assert!(!contains(&machine.path("log"), "secret-"));
}

#[test]
fn discovery_lists_portals_of_both_families() {
    if !installed("iscsi-ls") {
        return;
    }
    let machine = machine();
    let _server = machine.serve("--iscsi [::1]:0");
    let portals = [IPV4, IPV6].map(|address| machine.portal(address));
    for portal in &portals {
        let list = run("iscsi-ls", &["--show-luns", &format!("iscsi://{portal}")]);
        assert!(list.contains(TARGET) && list.contains("Lun:0"), "{list}");
        for found in &portals {
            assert!(list.contains(found.as_str()), "{found} in {list}");
        }
    }
}

#[test]
fn nbd_is_served_on_both_families_and_a_unix_socket() {
    if !installed("nbdinfo") {
        return;
    }
    let machine = machine();
    let _server = machine.serve("--nbd 127.0.0.1:0 --nbd [::1]:0");
    let unix = format!("nbd+unix:///v?socket={}", text(&machine.nbd_socket()));
    let tcp = |address| format!("nbd://{}/v", machine.nbd_listener(address));
    for uri in [tcp(IPV4), tcp(IPV6), unix] {
        assert_eq!(
            run("nbdinfo", &["--size", &uri]).trim(),
            "33554432",
            "{uri}"
        );
    }
}

/// Its iSCSI is a separate package.
fn qemu_speaks_iscsi() -> bool {
    if !installed("qemu-io") {
        return false;
    }
    let formats = try_run("qemu-img", &["--help"]).stdout;
    let has_iscsi = String::from_utf8_lossy(&formats).contains(" iscsi");
    if !has_iscsi {
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "skipped: qemu-block-extra is not installed"
        );
    }
    has_iscsi
}

#[test]
fn qemu_writes_over_iscsi_what_it_reads_over_nbd() {
    if !qemu_speaks_iscsi() {
        return;
    }
    let machine = machine();
    let _server = machine.serve("--iscsi [::1]:0 --nbd [::1]:0");
    let unit = unit("", &machine.portal(IPV6), "");
    let nbd = format!("nbd://{}/v", machine.nbd_listener(IPV6));
    let commands = [
        "write -P 0xaa 0 1M",
        "write -f -P 0xbb 1M 64k",
        "write -z 128k 64k",
        "discard 256k 64k",
        "aio_write -P 0xcc 2M 4M",
        "aio_write -P 0xdd 6M 512",
        "aio_flush",
        "flush",
        "read -P 0xaa 0 128k",
        "read -P 0 128k 64k",
        "read -P 0 256k 64k",
        "read -P 0xbb 1M 64k",
        "read -P 0xcc 2M 4M",
        "read -P 0xdd 6M 512",
    ];
    let mut arguments = vec!["-f", "raw", "-t", "none"];
    for command in commands {
        arguments.extend(["-c", command]);
    }
    arguments.push(&unit);
    let output = run("qemu-io", &arguments);
    assert!(!output.contains("failed"), "{output}");
    let compare = |one: &str, other: &str| {
        run(
            "qemu-img",
            &["compare", "-f", "raw", "-F", "raw", one, other],
        );
    };
    compare(&unit, &nbd);
    let copy = machine.path("copy");
    run(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "raw", &unit, text(&copy)],
    );
    compare(text(&copy), &nbd);
    let there = [
        "convert",
        "-n",
        "-f",
        "raw",
        "-O",
        "raw",
        text(&copy),
        &unit,
    ];
    run("qemu-img", &there);
    compare(text(&copy), &nbd);
}

#[test]
fn tls_serves_clients_with_a_known_certificate_only() {
    let machine = machine();
    let folder = machine.directory.path();
    if !certificates(folder) || !installed("nbdcopy") {
        return;
    }
    let _server = machine.serve(
        "--nbd 127.0.0.1:0 --nbd-tls-cert pki/server-cert.pem \
         --nbd-tls-key pki/server-key.pem --nbd-tls-ca pki/ca-cert.pem",
    );
    let listener = machine.nbd_listener(IPV4);
    let port = listener.rsplit_once(':').expect("a port").1;
    // The certificate is issued for the name.
    let uri = |scheme: &str, pki: &str| {
        let certificates = text(&machine.path(pki)).to_owned();
        format!("{scheme}://localhost:{port}/v?tls-certificates={certificates}")
    };
    let info = run("nbdinfo", &[&uri("nbds", "pki")]);
    assert!(info.contains("with TLS"), "{info}");
    let is_accepted = |uri: &str| try_run("nbdinfo", &[uri]).status.success();
    assert!(!is_accepted(&uri("nbds", "stranger")), "another authority");
    assert!(!is_accepted(&format!("nbd://localhost:{port}/v")), "no TLS");
    let no_certificate = machine.path("nobody");
    std::fs::create_dir(&no_certificate).expect("a folder");
    std::fs::copy(
        machine.path("pki/ca-cert.pem"),
        no_certificate.join("ca-cert.pem"),
    )
    .expect("copied");
    assert!(!is_accepted(&uri("nbds", "nobody")), "no certificate");

    // By the name in the certificate; both are signed by the required authority.
    machine.ok("nbd export tank/v --name v --allow-certificate other.example");
    assert!(!is_accepted(&uri("nbds", "pki")), "another name");
    machine.ok("nbd export tank/v --name v --allow-certificate vm1.example");
    assert!(is_accepted(&uri("nbds", "pki")));
    let listed = machine.ok("nbd list tank").out;
    assert!(listed.contains("certificate:vm1.example"), "{listed}");

    let (image, back) = (machine.path("image"), machine.path("back"));
    let data: Vec<u8> = (0..32 << 20).map(|at: u32| (at / 9) as u8).collect();
    std::fs::write(&image, data).expect("an image");
    run("nbdcopy", &["--flush", text(&image), &uri("nbds", "pki")]);
    run("nbdcopy", &[&uri("nbds", "pki"), text(&back)]);
    run("cmp", &[text(&image), text(&back)]);
}
