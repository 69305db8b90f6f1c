//! Tests the server with common clients: libnbd's tools, qemu's, fio's engine, and TLS by GnuTLS.
//! If a tool is not installed, its test reports that and passes.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use block_device::{BlockDevice, MemoryDevice};
use nbd::{Access, DesiredExport, DesiredState, NbdServer, ServerLimits, TlsMode, TlsSettings};
use serving::TlsFiles;
use support::tools::{certificates, installed, run, text, try_run};
use support::*;

const SIZE: u64 = 256 << 20;

/// A server on a Unix socket and on TCP, in a temporary directory.
struct TestServer {
    server: NbdServer,
    folder: tempfile::TempDir,
}

impl TestServer {
    fn new(
        exports: Vec<DesiredExport>,
        tls: Option<TlsSettings>,
        folder: tempfile::TempDir,
    ) -> Self {
        let server = NbdServer::new(ServerLimits::default());
        let mut desired = desired_state(exports);
        desired.listeners.push(
            format!("unix:{}/socket", folder.path().display())
                .parse()
                .unwrap(),
        );
        let desired = DesiredState { tls, ..desired };
        server.apply(desired).unwrap();
        Self { server, folder }
    }

    fn plain() -> Self {
        let device = Arc::new(MemoryDevice::new(SIZE, 512));
        Self::new(
            vec![export("disk", device)],
            None,
            tempfile::tempdir().unwrap(),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn uri(&self) -> String {
        format!(
            "nbd+unix:///disk?socket={}/socket",
            self.folder.path().display()
        )
    }

    fn tcp_uri(&self, scheme: &str) -> String {
        // Certificates are issued for the host name.
        format!(
            "{scheme}://localhost:{}/disk",
            tcp_address(&self.server).port()
        )
    }

    /// An image with data, holes, and an unaligned end of data.
    fn image(&self) -> PathBuf {
        let path = self.path("image");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(SIZE).unwrap();
        use std::os::unix::fs::FileExt;
        for (offset, length) in [(0, 3 << 20), (100 << 20, 5_000_001), (SIZE - 4096, 4096)] {
            let data: Vec<u8> = (0..length).map(|index| ((index * 31) >> 5) as u8).collect();
            file.write_all_at(&data, offset).unwrap();
        }
        path
    }
}

#[test]
fn nbdinfo_lists_and_maps() {
    if !installed("nbdinfo") {
        return;
    }
    let device = Arc::new(MemoryDevice::new(SIZE, 512));
    device
        .write(1 << 20, &[1; 1 << 20], block_device::WaitMode::NoWait)
        .unwrap();
    let exports = vec![
        export("disk", device),
        export("tank/vm/other", Arc::new(MemoryDevice::new(512, 512))),
    ];
    let stand = TestServer::new(exports, None, tempfile::tempdir().unwrap());
    let list = run("nbdinfo", &["--list", "--json", &stand.uri()]);
    for expected in [
        "\"disk\"",
        "\"tank/vm/other\"",
        "\"the disk disk\"",
        "\"base:allocation\"",
    ] {
        assert!(list.contains(expected), "{expected} in {list}");
    }
    let info = run("nbdinfo", &[&stand.uri()]);
    for expected in [
        "can_multi_conn: true",
        "can_fua: true",
        "block_size_maximum: 33554432",
    ] {
        assert!(info.contains(expected), "{expected} in {info}");
    }
    let map = run("nbdinfo", &["--map", "--json", &stand.uri()]);
    let words: String = map.split_whitespace().collect();
    assert_eq!(words.matches("\"type\":3").count(), 2, "{words}");
    assert!(
        words.contains("\"offset\":1048576,\"length\":1048576,\"type\":0"),
        "{words}"
    );
}

#[test]
fn nbdcopy_and_qemu_img_copies_round_trip() {
    let stand = TestServer::plain();
    let (image, back) = (stand.image(), stand.path("back"));
    if installed("nbdcopy") {
        run(
            "nbdcopy",
            &[
                "--flush",
                "--destination-is-zero",
                text(&image),
                &stand.uri(),
            ],
        );
        run("nbdcopy", &[&stand.uri(), text(&back)]);
        run("cmp", &[text(&image), text(&back)]);
        run(
            "nbdcopy",
            &["--synchronous", &stand.tcp_uri("nbd"), text(&back)],
        );
        run("cmp", &[text(&image), text(&back)]);
    }
    if installed("qemu-img") {
        let stand = TestServer::plain();
        let image = stand.image();
        run(
            "qemu-img",
            &[
                "convert",
                "-n",
                "-W",
                "-f",
                "raw",
                "-O",
                "raw",
                text(&image),
                &stand.uri(),
            ],
        );
        run(
            "qemu-img",
            &[
                "compare",
                "-f",
                "raw",
                "-F",
                "raw",
                text(&image),
                &stand.uri(),
            ],
        );
        let info = run("qemu-img", &["info", "-f", "raw", &stand.uri()]);
        assert!(info.contains("256 MiB"), "{info}");
        let map = run(
            "qemu-img",
            &["map", "-f", "raw", "--output=json", &stand.uri()],
        );
        assert!(map.contains("\"start\": 3145728, \"length\": 101711872, \"depth\": 0, \"present\": true, \"zero\": true"), "{map}");
        // A format with metadata of its own on top.
        run("qemu-img", &["create", "-f", "qcow2", &stand.uri(), "64M"]);
        run(
            "qemu-io",
            &[
                "-f",
                "qcow2",
                "-c",
                "write -P 7 1M 3M",
                "-c",
                "flush",
                &stand.uri(),
            ],
        );
        run("qemu-img", &["check", "-f", "qcow2", &stand.uri()]);
    }
}

#[test]
fn qemu_io_write_zero_and_discard_read_back() {
    if !installed("qemu-io") {
        return;
    }
    let stand = TestServer::plain();
    let commands = [
        "write -P 0xaa 0 1M",
        "write -f -P 0xbb 1M 64k",
        "write -z 128k 64k",
        "write -z -u 192k 64k",
        "discard 256k 64k",
        "aio_write -P 0xcc 2M 4M",
        "aio_write -f -P 0xdd 6M 512",
        "aio_flush",
        "flush",
        "read -P 0xaa 0 128k",
        "read -P 0 128k 192k",
        "read -P 0xaa 320k 704k",
        "read -P 0xbb 1M 64k",
        "read -P 0xcc 2M 4M",
        "read -P 0xdd 6M 512",
        "map",
    ];
    let mut arguments = vec!["-f", "raw", "-t", "none"];
    commands
        .iter()
        .for_each(|command| arguments.extend(["-c", *command]));
    let uri = stand.uri();
    arguments.push(&uri);
    let output = run("qemu-io", &arguments);
    for bad in ["failed", "error"] {
        assert!(!output.contains(bad), "{output}");
    }
}

#[test]
fn fio_verify_passes() {
    if !installed("fio")
        || !Command::new("fio")
            .arg("--enghelp=nbd")
            .output()
            .unwrap()
            .status
            .success()
    {
        return;
    }
    let stand = TestServer::plain();
    let uri = format!("--uri={}", stand.uri());
    run(
        "fio",
        &[
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--bsrange=512-128k",
            "--blockalign=512",
            "--iodepth=32",
            "--size=32M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--do_verify=1",
            "--verify_state_save=0",
            "--fsync=16",
        ],
    );
    let counters = stand.server.status().exports[0].counters;
    assert!(
        counters.write_bytes >= 32 << 20 && counters.flushes > 0,
        "{counters:?}"
    );
    assert_eq!(counters.errors, 0);
}

#[test]
fn nbdsh_gets_the_specified_errors() {
    if !installed("nbdsh") {
        return;
    }
    let stand = TestServer::plain();
    let script = r#"
import errno
h.set_strict_mode(0)
h.add_meta_context("base:allocation")
h.connect_uri(uri)
size = h.get_size()
def expect(number, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == number, (call, arguments, error)
    else:
        assert False, (call, arguments)
expect(errno.EINVAL, h.pread, 512, size)
expect(errno.ENOSPC, h.pwrite, b"x" * 512, size)
expect(errno.ENOSPC, h.zero, 512, size)
expect(errno.EINVAL, h.trim, 512, size)
expect(errno.EINVAL, h.block_status, 512, size, lambda *a: 0)
expect(errno.ENOTSUP, h.zero, 4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO)
h.pwrite(b"1" * 70000, 3, nbd.CMD_FLAG_FUA)
assert h.pread(70002, 2) == b"\0" + b"1" * 70000 + b"\0"
chunks = []
h.pread_structured(65536, 1 << 20, lambda buf, offset, status, err: chunks.append(status))
assert chunks == [nbd.READ_HOLE], chunks
h.cache(1 << 20, 0)
h.flush()
runs = []
h.block_status(1 << 20, 0, lambda context, offset, extents, err: runs.extend(extents))
assert runs[:4] == [73728, 0, (1 << 20) - 73728, 3], runs
h.shutdown()
"#;
    let uri = format!("uri = '{}'", stand.uri());
    run("nbdsh", &["-c", &uri, "-c", script]);
}

fn tls(folder: &Path, mode: TlsMode) -> TlsSettings {
    TlsSettings {
        mode,
        files: TlsFiles {
            certificate: folder.join("pki/server-cert.pem"),
            key: folder.join("pki/server-key.pem"),
            authority: Some(folder.join("pki/ca-cert.pem")),
        },
    }
}

#[test]
fn required_tls_serves_known_certificates_only() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates(folder.path()) {
        return;
    }
    let required = tls(folder.path(), TlsMode::Required);
    let device = Arc::new(MemoryDevice::new(SIZE, 512));
    let stand = TestServer::new(vec![export("disk", device)], Some(required), folder);
    let with = |pki: &str, scheme: &str| {
        format!(
            "{}?tls-certificates={}",
            stand.tcp_uri(scheme),
            text(&stand.path(pki))
        )
    };
    if installed("nbdinfo") {
        let info = run("nbdinfo", &[&with("pki", "nbds")]);
        assert!(info.contains("with TLS"), "{info}");
        assert!(
            !try_run("nbdinfo", &[&stand.tcp_uri("nbd")])
                .status
                .success(),
            "no TLS"
        );
        assert!(
            !try_run("nbdinfo", &[&with("stranger", "nbds")])
                .status
                .success(),
            "stranger"
        );
        let (image, back) = (stand.image(), stand.path("back"));
        run("nbdcopy", &[text(&image), &with("pki", "nbds")]);
        run("nbdcopy", &[&with("pki", "nbds"), text(&back)]);
        run("cmp", &[text(&image), text(&back)]);
    }
    if installed("qemu-img") {
        let credentials = format!(
            "tls-creds-x509,id=tls0,endpoint=client,dir={}",
            text(&stand.path("pki"))
        );
        let options = format!(
            "driver=nbd,host=localhost,port={},export=disk,tls-creds=tls0",
            tcp_address(&stand.server).port()
        );
        run(
            "qemu-img",
            &["info", "--object", &credentials, "--image-opts", &options],
        );
    }
    let mut plain = Client::greeted(tcp_address(&stand.server));
    assert_eq!(plain.option(3, &[]), (1 << 31) + 5);
    // Input after STARTTLS is treated neither as encrypted nor as plain input.
    plain.send(b"IHAVEOPT\0\0\0\x05\0\0\0\0IHAVEOPT\0\0\0\x03\0\0\0\0");
    assert!(plain.rest().len() <= 20);
}

#[test]
fn offered_tls_protects_exports_with_identities() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates(folder.path()) || !installed("nbdinfo") {
        return;
    }
    let offered = tls(folder.path(), TlsMode::Offered);
    let listed = |identity: &str| Access::Listed {
        networks: vec![],
        identities: vec![identity.to_owned()],
    };
    let guarded = |name: &str, identity: &str| DesiredExport {
        access: listed(identity),
        ..export(name, Arc::new(MemoryDevice::new(SIZE, 512)))
    };
    let exports = vec![
        guarded("disk", "vm1.example"),
        guarded("other", "vm2.example"),
        export("open", Arc::new(MemoryDevice::new(SIZE, 512))),
    ];
    let stand = TestServer::new(exports, Some(offered), folder);
    let uri = format!(
        "{}?tls-certificates={}",
        stand.tcp_uri("nbds"),
        text(&stand.path("pki"))
    );
    run("nbdinfo", &[&uri]);
    assert!(
        !try_run("nbdinfo", &[&uri.replace("/disk?", "/other?")])
            .status
            .success()
    );
    let plain = stand.tcp_uri("nbd");
    run("nbdinfo", &[&plain.replace("/disk", "/open")]);
    assert!(!try_run("nbdinfo", &[&plain]).status.success());
    let mut client = Client::greeted(tcp_address(&stand.server));
    assert_eq!(client.option(7, b"\0\0\0\x04disk\0\0"), (1 << 31) + 5);
    let list = run("nbdinfo", &["--list", &uri]);
    assert!(
        list.contains("\"disk\"") && list.contains("\"open\"") && !list.contains("\"other\""),
        "{list}"
    );
}
