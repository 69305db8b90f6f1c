//! A realm of MIT Kerberos with its key distribution center, for one test.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The directory of the realm, set in the test process of the realm.
const DIRECTORY: &str = "REALM_FOLDER";
/// Time-out of the start of a center.
const START: Duration = Duration::from_secs(20);
/// The one password.
pub const PASSWORD: &str = "open sesame";

/// The directory of a running realm.
pub struct Realm {
    folder: PathBuf,
}

struct Center(Child);

impl Drop for Center {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test in a realm of its own. It uses a process with this directory in its environment,
/// because the library reads the environment at any time.
pub fn within(test: &str, run: impl FnOnce(&Realm)) {
    if let Some(folder) = std::env::var_os(DIRECTORY) {
        let folder = folder.into();
        return run(&Realm { folder });
    }
    let folder = tempfile::tempdir().expect("a folder");
    let realm = Realm {
        folder: folder.path().to_owned(),
    };
    let _center = realm.start();
    for name in ["nfs/localhost", "host/localhost"] {
        realm.administrate(&format!("addprinc -randkey {name}"));
    }
    for name in ["root", "daemon", "stranger", "short", "root/admin"] {
        realm.administrate(&format!("addprinc -pw \"{PASSWORD}\" {name}"));
    }
    realm.administrate("modprinc -maxlife \"1 second\" short");
    realm.take_keys("nfs.keytab", "nfs/localhost");
    realm.take_keys("host.keytab", "host/localhost");
    let itself = std::env::current_exe().expect("a path");
    let mut again = realm.command(itself);
    let again = again.args([test, "--exact", "--nocapture"]);
    let status = again.env(DIRECTORY, folder.path()).status();
    assert!(
        status.expect("it ran").success(),
        "{test} failed in its realm"
    );
}

impl Realm {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("KRB5_CONFIG", self.path("krb5.conf"))
            .env("KRB5_KDC_PROFILE", self.path("kdc.conf"))
            .env("KRB5CCNAME", "MEMORY:")
            .stdin(Stdio::null());
        command
    }

    /// Changes the center's database.
    pub fn administrate(&self, what: &str) {
        let mut command = self.command("/usr/sbin/kadmin.local");
        let output = command.args(["-q", what]).output().expect("kadmin.local");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{what}: {told}");
    }

    /// Adds keys of a service to a keytab. Existing ones remain.
    pub fn take_keys(&self, keytab: &str, service: &str) {
        let keytab = self.path(keytab);
        self.administrate(&format!("ktadd -k {} {service}", keytab.display()));
        assert!(keytab.exists(), "kadmin.local made no keytab");
    }

    /// Creates the database and starts the center on a free port.
    fn start(&self) -> Center {
        for _ in 0..8 {
            let port = free_port();
            self.configure(port);
            let database = self.path("principal");
            if !database.exists() {
                let mut create = self.command("/usr/sbin/kdb5_util");
                let output = create.args(["create", "-s", "-P", "master"]).output();
                let output = output.expect("kdb5_util: apt-get install krb5-kdc");
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{told}");
            }
            let mut center = self.command("/usr/sbin/krb5kdc");
            let center = center.arg("-n").stdout(Stdio::null()).stderr(Stdio::null());
            let mut center = Center(center.spawn().expect("krb5kdc"));
            if answers(&mut center.0, port) {
                return center;
            }
        }
        panic!("no key distribution center started");
    }

    fn configure(&self, port: u16) {
        let write = |name: &str, text: String| {
            std::fs::write(self.path(name), text).expect("written");
        };
        let folder = self.folder.display();
        write(
            "krb5.conf",
            format!(
                "[libdefaults]\n default_realm = TEST.EXAMPLE\n dns_lookup_kdc = false\n dns_lookup_realm = false\n \
                 dns_canonicalize_hostname = false\n rdns = false\n clockskew = 2\n\
                 [realms]\n TEST.EXAMPLE = {{\n  kdc = 127.0.0.1:{port}\n }}\n\
                 [domain_realm]\n localhost = TEST.EXAMPLE\n\
                 [logging]\n kdc = FILE:{folder}/kdc.log\n"
            ),
        );
        write(
            "kdc.conf",
            format!(
                "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
                 [realms]\n TEST.EXAMPLE = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n \
                 acl_file = {folder}/kadm5.acl\n  max_life = 10h\n }}\n"
            ),
        );
    }
}

fn free_port() -> u16 {
    loop {
        let stream = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = stream.local_addr().expect("an address");
        if UdpSocket::bind(address).is_ok() {
            return address.port();
        }
    }
}

/// Whether a center accepts connections, which is the only sign that it is ready.
fn answers(center: &mut Child, port: u16) -> bool {
    let deadline = Instant::now() + START;
    while Instant::now() < deadline && center.try_wait().expect("a child").is_none() {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// The directory of a realm.
impl AsRef<Path> for Realm {
    fn as_ref(&self) -> &Path {
        &self.folder
    }
}
