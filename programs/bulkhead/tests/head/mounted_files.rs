//! File systems that the command line mounts on the local host: their behaviour for processes, the state after a kill,
//! and refusals. Where nothing can be mounted, the tests report that and are skipped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::TestHost;
use crate::common::tools::try_run;
use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

/// More than commands need that do not wait for a holder of the pool.
const HOLDER_WAIT: Duration = Duration::from_secs(20);
/// A user other than root.
const ANN: u32 = 4711;
const STAFF: u32 = 4712;

/// Whether a file system can be mounted here; reports a skip.
#[allow(clippy::print_stderr, reason = "shown by the test runner")]
pub fn can_mount() -> bool {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let can = rustix::process::geteuid().is_root() && device.is_ok();
    if !can {
        eprintln!("skipped: no /dev/fuse here, or this is not root");
    }
    can
}

/// A host with file system `tank/home`; `None` where nothing can be mounted.
pub fn machine() -> Option<TestHost> {
    if !can_mount() {
        return None;
    }
    let machine = TestHost::with_disks(&["a", "b"]);
    machine.ok("pool create tank mirror a b");
    machine.ok("filesystem create tank/home");
    fs::create_dir(machine.path("mnt")).expect("a directory");
    // Users other than root traverse it.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(machine.directory.path(), open).expect("permitted");
    Some(machine)
}

/// A running `filesystem mount`; killed and unmounted when dropped.
pub struct Mounted {
    child: Child,
    at: PathBuf,
}

impl Mounted {
    pub fn begin(machine: &TestHost, words: &str) -> Self {
        Self::begin_with(machine, words, Stdio::null())
    }

    fn begin_with(machine: &TestHost, words: &str, input: impl Into<Stdio>) -> Self {
        let errors = fs::File::create(machine.path("errors")).expect("a file");
        let mut child = machine
            .command(&format!("filesystem mount {words}"))
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("readable");
        let at = machine.path("mnt");
        let mounted = Self { child, at };
        let said = fs::read_to_string(machine.path("errors")).unwrap_or_default();
        assert!(line.contains("is mounted at"), "{words}: {line} {said}");
        mounted
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    fn signal(&self, name: &str) {
        crate::common::signal(self.child.id(), name);
    }

    /// It was stopped or unmounted.
    pub fn ends(mut self) {
        let status = self.child.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
        assert!(!is_mounted(&self.at));
    }

    pub fn unmount(self) {
        unmount(&self.at);
        self.ends();
    }

    /// kill -9. The mount stays.
    pub fn kill(mut self) {
        self.child.kill().expect("alive until now");
        self.child.wait().expect("a child of ours");
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if is_mounted(&self.at) {
            let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        }
    }
}

fn is_mounted(at: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let at = at.display().to_string();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(at.as_str()))
}

fn unmount(at: &Path) {
    let done = Command::new("umount").arg(at).status();
    assert!(done.expect("umount runs").success());
}

/// Returns the output of a shell's command that runs as a user other than root.
fn as_ann(script: &str) -> Result<String, String> {
    let output = Command::new("sh")
        .args(["-c", script])
        .uid(ANN)
        .gid(ANN)
        .output()
        .expect("a shell");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

fn errno(error: &std::io::Error) -> Option<Errno> {
    Errno::from_io_error(error)
}

#[test]
fn processes_use_files_of_mounted_file_system() {
    let Some(machine) = machine() else { return };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let path = |name: &str| mounted.path(name);

    fs::create_dir_all(path("a/b")).expect("made");
    fs::write(path("a/text"), "hello").expect("written");
    fs::rename(path("a/text"), path("a/b/text")).expect("renamed");
    symlink("b/text", path("a/link")).expect("made");
    assert_eq!(fs::read_to_string(path("a/link")).expect("read"), "hello");
    fs::hard_link(path("a/b/text"), path("twin")).expect("linked");
    assert_eq!(fs::metadata(path("twin")).expect("known").nlink(), 2);
    let here = rustix::fs::CWD;
    let refused = rustix::fs::renameat_with(
        here,
        path("twin"),
        here,
        path("a/link"),
        RenameFlags::NOREPLACE,
    );
    assert_eq!(refused, Err(Errno::EXIST));
    assert!(
        try_run("mkfifo", &[path("pipe").to_str().expect("text")])
            .status
            .success()
    );
    assert!(
        fs::metadata(path("pipe"))
            .expect("known")
            .file_type()
            .is_fifo()
    );

    // More entries than fit in one response; each must be listed once.
    fs::create_dir(path("many")).expect("made");
    for number in 0..1000 {
        fs::write(path(&format!("many/a file with number {number}")), "").expect("written");
    }
    let listed = fs::read_dir(path("many")).expect("listed");
    let mut names: Vec<_> = listed
        .map(|entry| entry.expect("read").file_name())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1000);
    fs::remove_dir_all(path("many")).expect("removed");

    // An open file remains usable after its name is removed.
    let create = |name: &str| {
        let mut options = fs::File::options();
        let made = options.read(true).write(true).create_new(true);
        made.open(path(name)).expect("made")
    };
    let mut file = create("gone");
    fs::remove_file(path("gone")).expect("removed");
    file.write_all(b"still here").expect("written");
    file.seek(SeekFrom::Start(0)).expect("there");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "still here");

    let sparse = create("sparse");
    sparse.set_len(4 << 20).expect("longer");
    rustix::io::pwrite(&sparse, &[7; 128 << 10], 2 << 20).expect("written");
    sparse.sync_all().expect("durable");
    let data = rustix::fs::seek(&sparse, rustix::fs::SeekFrom::Data(0));
    assert_eq!(data, Ok(2 << 20));
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&sparse, flags, 2 << 20, 64 << 10).expect("a hole");
    let mut byte = [1];
    rustix::io::pread(&sparse, &mut byte, 2 << 20).expect("read");
    assert_eq!(byte, [0]);

    rustix::fs::setxattr(path("twin"), "user.colour", b"red", XattrFlags::CREATE).expect("set");
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(path("twin"), "user.colour", &mut value).expect("got");
    assert_eq!(&value[..length], b"red");
    let length = rustix::fs::listxattr(path("twin"), &mut value[..]).expect("listed");
    assert_eq!(&value[..length], b"user.colour\0");
    let other = rustix::fs::setxattr(path("twin"), "trusted.x", b"", XattrFlags::empty());
    assert_eq!(other, Err(Errno::OPNOTSUPP));

    let space = rustix::fs::statvfs(path("")).expect("known");
    assert!(space.f_blocks > space.f_bavail && space.f_bavail > 0);
    drop((file, sparse));
    mounted.unmount();
    let checked = machine.ok("filesystem check tank/home --json").json();
    assert_eq!(checked["fault_count"], 0, "{checked}");
}

#[test]
fn unprivileged_users_have_access_by_file_mode() {
    let Some(machine) = machine() else { return };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let at = mounted.path("");
    let at = at.display();
    fs::create_dir(mounted.path("closed")).expect("made");
    fs::write(mounted.path("closed/file"), "secret").expect("written");
    let mode = |name: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(mounted.path(name), mode).expect("permitted");
    };
    // The kernel has resolved it for root, and must check again.
    mode("closed", 0o700);
    fs::read(mounted.path("closed/file")).expect("root reads");
    let refused = as_ann(&format!("cat {at}/closed/file")).expect_err("refused");
    assert!(refused.contains("Permission denied"), "{refused}");
    // A group that the kernel does not report.
    mode("closed", 0o750);
    std::os::unix::fs::chown(mounted.path("closed"), None, Some(STAFF)).expect("given");
    let with_group =
        format!("setpriv --reuid {ANN} --regid {ANN} --groups {STAFF} cat {at}/closed/file");
    let read = Command::new("sh").args(["-c", &with_group]).output();
    assert_eq!(read.expect("setpriv runs").stdout, b"secret");

    mode("", 0o1777);
    as_ann(&format!("echo mine > {at}/mine; chmod 4755 {at}/mine")).expect("made");
    fs::write(mounted.path("other"), "").expect("written");
    let refused = as_ann(&format!("rm -f {at}/other")).expect_err("sticky");
    assert!(refused.contains("not permitted"), "{refused}");
    // The writer is not the owner of the set-user-id file.
    mode("mine", 0o4777);
    let script = format!("echo more >> {at}/mine");
    let bob = Command::new("sh")
        .args(["-c", &script])
        .uid(ANN + 9)
        .gid(ANN + 9)
        .status();
    assert!(bob.expect("a shell").success());
    let known = fs::metadata(mounted.path("mine")).expect("known");
    assert_eq!((known.mode() & 0o7777, known.uid()), (0o777, ANN));
    // The kernel opens it by itself.
    assert!(
        try_run("mkfifo", &["-m", "600", &format!("{at}/pipe")])
            .status
            .success()
    );
    let refused = as_ann(&format!("exec 3<> {at}/pipe")).expect_err("refused");
    assert!(refused.contains("Permission denied"), "{refused}");
    // A mode restricts later opens, not existing ones.
    as_ann(&format!("umask 777; echo first > {at}/shut")).expect("open as made");
    let refused = as_ann(&format!("cat {at}/shut")).expect_err("refused");
    assert!(refused.contains("Permission denied"), "{refused}");
    let refused = as_ann(&format!("truncate -s 0 {at}/shut")).expect_err("refused");
    assert!(refused.contains("Permission denied"), "{refused}");
    mounted.unmount();
}

#[test]
fn synced_data_survives_kill() {
    let Some(machine) = machine() else { return };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let at = mounted.at.clone();
    for number in 0..20 {
        let mut file = fs::File::create(mounted.path(&number.to_string())).expect("made");
        file.write_all(&[number; 5000]).expect("written");
        file.sync_all().expect("durable");
    }
    fs::rename(mounted.path("0"), mounted.path("moved")).expect("renamed");
    fs::File::open(&at)
        .expect("open")
        .sync_all()
        .expect("durable");
    let mut synchronous = fs::File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut synchronous,
        rustix::fs::OFlags::SYNC.bits() as i32,
    );
    let mut log = synchronous
        .create(true)
        .append(true)
        .open(mounted.path("log"))
        .expect("open");
    log.write_all(b"a line\n").expect("written");
    mounted.kill();
    let error = fs::metadata(&at).expect_err("nobody answers");
    assert_eq!(errno(&error), Some(Errno::NOTCONN));
    drop(log);
    machine.refused("filesystem mount tank/home mnt", 5, "umount mnt");
    unmount(&at);

    // A read-only mount replays nothing, and reports so.
    let mounted = Mounted::begin(&machine, "tank/home mnt --read-only");
    assert!(crate::common::contains(
        &machine.path("errors"),
        "intent log"
    ));
    mounted.unmount();

    let mounted = Mounted::begin(&machine, "tank/home mnt");
    for number in 1..20 {
        let bytes = fs::read(mounted.path(&number.to_string())).expect("read");
        assert_eq!(bytes, [number; 5000]);
    }
    assert_eq!(fs::read(mounted.path("moved")).expect("read"), [0; 5000]);
    assert!(!mounted.path("0").exists());
    assert_eq!(fs::read(mounted.path("log")).expect("read"), b"a line\n");
    mounted.unmount();
}

#[test]
fn snapshots_and_read_only_mounts_are_not_changed() {
    let Some(machine) = machine() else { return };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    fs::write(mounted.path("file"), "before").expect("written");
    mounted.unmount();
    machine.ok("snapshot create tank/home@monday");
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    fs::write(mounted.path("file"), "after").expect("written");
    mounted.unmount();
    for (words, text) in [
        ("tank/home@monday mnt", "before"),
        ("tank/home mnt --read-only", "after"),
    ] {
        let labels =
            |disk: &str| fs::read(machine.path(disk)).expect("a disk")[..512 << 10].to_vec();
        let before = (labels("a"), labels("b"));
        let mounted = Mounted::begin(&machine, words);
        assert_eq!(
            fs::read_to_string(mounted.path("file")).expect("read"),
            text
        );
        let error = fs::write(mounted.path("file"), "changed").expect_err("refused");
        assert_eq!(errno(&error), Some(Errno::ROFS));
        mounted.signal("-INT");
        mounted.ends();
        assert!(before == (labels("a"), labels("b")), "nothing was written");
    }
}

/// A mount has the pool for as long as its user wants.
#[test]
fn commands_on_the_pool_of_a_mount_name_the_mount_at_once() {
    let Some(machine) = machine() else { return };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let holder = "`bulkhead filesystem mount` of tank/home at";
    let unmount = format!("with `umount {}`", machine.path("mnt").display());
    let began = Instant::now();
    for words in [
        "pool status tank",
        "volume list tank",
        "volume create tank/v --size 8M",
    ] {
        machine.refused(words, 5, holder);
        machine.refused(words, 5, &unmount);
    }
    assert!(began.elapsed() < HOLDER_WAIT, "{:?}", began.elapsed());
    let serve = "pool-server tank --iscsi 127.0.0.1:0 --nbd 127.0.0.1:0";
    machine.refused(serve, 5, holder);
    mounted.unmount();
    machine.ok("volume create tank/v --size 8M --sparse");
}

#[test]
fn busy_mount_ends_on_close_or_second_signal() {
    let Some(machine) = machine() else { return };
    let says = |what: &str| {
        let errors = machine.path("errors");
        crate::common::eventually(what, || crate::common::contains(&errors, what));
    };
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let mut file = fs::File::create(mounted.path("file")).expect("made");
    mounted.signal("-TERM");
    says("is in use");
    file.write_all(b"as before").expect("written");
    drop(file);
    mounted.ends();

    let mounted = Mounted::begin(&machine, "tank/home mnt");
    let file = fs::File::open(mounted.path("file")).expect("open");
    mounted.signal("-INT");
    says("is in use");
    mounted.signal("-INT");
    mounted.ends();
    let error = file.metadata().expect_err("nobody answers");
    assert_eq!(errno(&error), Some(Errno::NOTCONN));
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    assert_eq!(fs::read(mounted.path("file")).expect("read"), b"as before");
    mounted.unmount();
}

/// Only the command has a key from a prompt, and needs it before the pool is accessible to other
/// processes.
#[test]
fn an_encrypted_file_system_is_mounted_with_its_key() {
    let Some(machine) = machine() else { return };
    fs::write(machine.path("key"), "a long passphrase").expect("written");
    fs::write(machine.path("other"), "another passphrase").expect("written");
    let given = |name: &str| fs::File::open(machine.path(name)).expect("a file");
    let with = |words: &str, key: &str| {
        let output = machine.command(words).stdin(given(key)).output();
        let output = output.expect("the program runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let made = with(
        "filesystem create tank/private --encryption on --key-stdin",
        "key",
    );
    assert_eq!(made.0, Some(0), "{made:?}");
    machine.refused("filesystem mount tank/private mnt", 8, "--key-stdin");
    let wrong = with("filesystem mount tank/private mnt --key-stdin", "other");
    assert_eq!(wrong.0, Some(10), "{wrong:?}");
    let needless = with("filesystem mount tank/home mnt --key-stdin", "key");
    assert_eq!(needless.0, Some(2), "{needless:?}");
    let words = "tank/private mnt --key-stdin";
    let mounted = Mounted::begin_with(&machine, words, given("key"));
    fs::write(mounted.path("file"), "secret").expect("written");
    mounted.unmount();
    let words = format!("{words} --read-only");
    let mounted = Mounted::begin_with(&machine, &words, given("key"));
    assert_eq!(fs::read(mounted.path("file")).expect("read"), b"secret");
    mounted.unmount();
}

#[test]
fn unmountable_datasets_are_refused_with_advice() {
    let Some(machine) = machine() else { return };
    machine.ok("volume create tank/v --size 8M --sparse");
    fs::create_dir(machine.path("full")).expect("made");
    fs::write(machine.path("full/file"), "").expect("written");
    for (words, code, part) in [
        ("tank/home missing", 3, "mkdir -p missing"),
        ("tank/home a", 2, "it is no directory"),
        ("tank/home full", 2, "not empty"),
        ("tank/home /proc", 5, "mounted there already"),
        ("tank/other mnt", 3, "no such"),
        ("tank/v mnt", 2, "it is not a file system"),
        ("tank/home@never mnt", 3, "no such"),
        ("pond/home mnt", 3, "pond"),
    ] {
        machine.refused(&format!("filesystem mount {words}"), code, part);
    }
    let mounted = Mounted::begin(&machine, "tank/home mnt");
    fs::write(mounted.path("file"), vec![1; 4 << 20]).expect("written");
    machine.refused("filesystem mount tank/home mnt", 5, "mounted there already");
    mounted.unmount();
    machine.ok("snapshot create tank/home@all");
    let sent = machine.command("snapshot send tank/home@all").output();
    let sent = sent.expect("the program runs").stdout;
    fs::write(machine.path("half"), &sent[..sent.len() / 2]).expect("written");
    let half = fs::File::open(machine.path("half")).expect("a file");
    let mut receive = machine.command("snapshot receive tank/half --resumable");
    let received = receive.stdin(half).output().expect("the program runs");
    assert_eq!(received.status.code(), Some(1));
    machine.refused("filesystem mount tank/half mnt", 5, "tank/half --abort");
    let server = machine.serve("");
    machine.refused("filesystem mount tank/home mnt", 5, "mount -t nfs");
    assert_eq!(server.stop(), 0);
}
