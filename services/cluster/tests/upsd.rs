//! A session with the real `upsd` of Network UPS Tools, and with its simulated UPS. Skipped where it is not installed
//! (packages nut-server and nut-client).

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use appliance::{Feed, UpsAddress};
use cluster::power::{Judge, Limits, Reading, Session, Silence, Supply};

/// The binaries themselves: Debian's `upsd` is a script around one.
const UPSD: &str = "/lib/nut/upsd";
const DRIVER: &str = "/lib/nut/dummy-ups";
/// The driver reads its file every two seconds.
const PATIENCE: Duration = Duration::from_secs(30);

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &str, arguments: &[&str], directory: &Path) -> Killed {
    let child = Command::new(program)
        .args(arguments)
        .env("NUT_CONFPATH", directory)
        .env("NUT_STATEPATH", directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Killed(child.expect("it starts"))
}

/// A free port of the loopback interface.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn write(directory: &Path, file: &str, text: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let path = directory.join(file);
    std::fs::write(&path, text).expect("written");
    // The driver reads a file again when its time has changed, in seconds.
    let count = COUNT.fetch_add(2, Ordering::Relaxed);
    let written = std::fs::File::options()
        .append(true)
        .open(&path)
        .expect("it exists");
    let time = SystemTime::now() + Duration::from_secs(count);
    written.set_modified(time).expect("changed");
    path
}

fn poll_until(
    session: &mut Session,
    wanted: impl Fn(&Result<Reading, String>) -> bool,
) -> Result<Reading, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply = session.poll();
        if wanted(&reply) || Instant::now() > deadline {
            return reply;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn simulated_power_failure_is_seen_through_the_real_server() {
    if ![UPSD, DRIVER]
        .into_iter()
        .all(|file| Path::new(file).exists())
    {
        eprintln!("skipped: there is no {UPSD} (package nut-server)");
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    let port = port();
    write(
        folder,
        "ups.conf",
        "[rack-a]\ndriver = dummy-ups\nport = rack-a.dev\n",
    );
    write(folder, "upsd.conf", &format!("LISTEN 127.0.0.1 {port}\n"));
    write(
        folder,
        "upsd.users",
        "[bulkhead]\npassword = \"a secret\"\nupsmon secondary\n",
    );
    write(
        folder,
        "rack-a.dev",
        "ups.status: OL CHRG\nbattery.charge: 100\nbattery.runtime: 1800\n",
    );
    let password = write(folder, "password", "a secret\n");
    let _upsd = start(UPSD, &["-u", "root", "-F"], folder);
    let feed = |name: &str| Feed {
        ups: UpsAddress::try_from(format!("{name}@127.0.0.1:{port}")).expect("an address"),
        heads: None,
        user: Some("bulkhead".to_owned()),
        password_file: Some(password.clone()),
    };
    let mut session = Session::new(&feed("rack-a"));
    // upsd receives the values one after the other.
    let is_known = |reply: &Result<Reading, String>| {
        reply
            .as_ref()
            .is_ok_and(|reading| reading.runtime_s.is_some())
    };
    let has = |text: &'static str| {
        move |reply: &Result<Reading, String>| reply.as_ref().is_err_and(|why| why.contains(text))
    };
    let why = poll_until(&mut session, has("driver")).expect_err("no driver runs");
    assert!(why.contains("the driver of the UPS does not run"), "{why}");
    let driver = start(DRIVER, &["-a", "rack-a", "-u", "root", "-F"], folder);
    let reading = poll_until(&mut session, is_known).expect("it is simulated");
    assert_eq!(
        (reading.charge_percent, reading.runtime_s),
        (Some(100), Some(1_800))
    );
    assert!(reading.is_online && !reading.is_on_battery);

    write(
        folder,
        "rack-a.dev",
        "ups.status: OB LB DISCHRG\nbattery.charge: 7\nbattery.runtime: 90\n",
    );
    let is_low =
        |reply: &Result<Reading, String>| reply.as_ref().is_ok_and(|reading| reading.is_low);
    let reading = poll_until(&mut session, is_low);
    let limits = Limits {
        charge_percent: 30,
        runtime_s: 60,
    };
    let mut judge = Judge::default();
    for seconds in [0, 30] {
        let why = |why| Silence {
            why,
            is_refused: false,
        };
        let now = Duration::from_secs(seconds);
        judge.note("a", reading.clone().map_err(why), limits, now);
    }
    assert_eq!(judge.supply("a"), Supply::Low);

    // Another login, and another name.
    let wrong = write(folder, "wrong", "guess\n");
    let intruder = Feed {
        password_file: Some(wrong),
        ..feed("rack-a")
    };
    let why = Session::new(&intruder).poll().expect_err("refused");
    assert!(why.contains("refuses the user or the password"), "{why}");
    let why = Session::new(&feed("rack-z")).poll().expect_err("unknown");
    assert!(why.contains("no UPS of this name"), "{why}");

    // The UPS lies.
    write(
        folder,
        "rack-a.dev",
        "ups.status: OL\nbattery.charge: 300\nbattery.runtime: soon\n",
    );
    let lies = |reply: &Result<Reading, String>| {
        reply
            .as_ref()
            .is_ok_and(|reading| reading.problems.len() == 2)
    };
    let reading = poll_until(&mut session, lies).expect("a reply");
    assert_eq!(
        (reading.charge_percent, reading.runtime_s),
        (None, None),
        "{reading:?}"
    );

    drop(driver);
    let why = poll_until(&mut session, |reply| reply.is_err()).expect_err("the driver is gone");
    assert!(why.contains("driver"), "{why}");
}
