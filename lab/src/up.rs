//! Starts a lab: creates its directory, starts its first process, creates pools, sets the heads up by the same code as
//! `bulkhead appliance apply`, and blocks until all pools are served.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use appliance::facts::{passwords_required, tls_required};
use appliance::plan::{Change, DesiredState, HEAD_UNIT, LEG_UNIT, Plan, empty_cib, merged};
use appliance::render::LEGS_PATH;
use appliance::{Appliance, Layout, Pool, Severity, Witness};
use cluster::host::write_file;
use rustix::fs::{FlockOperation, flock};
use units::{ByteCount, HeadName, PoolName};

use crate::clock;
use crate::directory::{LabDirectory, PROGRAM_IN_NODE, Setup, disk_files, imitated};
use crate::error::LabError;
use crate::handle::{Lab, Node};
use crate::inside;
use crate::keys::Keys;
use crate::needs;

/// The parameters of a lab.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// The text of the appliance file.
    pub file_text: String,
    /// Where labs are.
    pub base: PathBuf,
    /// The lab's name; none: the appliance's.
    pub name: Option<String>,
    /// The `bulkhead` binary.
    pub program: PathBuf,
    /// The apparent size of each disk. Only written data uses space.
    pub disk_bytes: ByteCount,
    /// The maximum cache of a pool, regardless of the file: the heads share this host.
    pub arc_bytes_max: ByteCount,
    /// Whether each head has a separate wall clock, for [`Lab::set_clock`]. It costs a few nanoseconds for each query
    /// of the time.
    pub has_clocks: bool,
    /// Whether pools are created: mirrors of two disks, of three where the number is odd.
    pub creates_pools: bool,
    /// Whether each head serves its API and console, as `bulkhead-head.service` does.
    pub has_console: bool,
    /// Whether the heads stay as they were installed: with consoles and ssh, without an appliance.
    pub is_bare: bool,
    /// Whether root of a head reaches the remaining heads by ssh also where there are no consoles.
    pub has_ssh: bool,
    /// The file for setting up the heads, if that is not the whole file. Heads that it does not name stay in the state
    /// after their installation.
    pub applied_text: Option<String>,
    /// How long until all pools must be served.
    pub time_limit: Duration,
    /// Whether the state of a lab that failed to start is left for an analysis.
    pub keeps_failed: bool,
}

impl UpOptions {
    /// The usual lab of an appliance.
    pub fn new(file_text: String, base: PathBuf, program: PathBuf) -> Self {
        Self {
            file_text,
            base,
            name: None,
            program,
            disk_bytes: ByteCount::gib(1),
            arc_bytes_max: ByteCount::mib(256),
            has_clocks: false,
            creates_pools: true,
            has_console: true,
            is_bare: false,
            has_ssh: false,
            applied_text: None,
            time_limit: Duration::from_secs(180),
            keeps_failed: false,
        }
    }
}

/// Bytes of a random password, in hex twice as long: IPMI 1.5 allows 16 characters.
const PASSWORD_BYTES: usize = 8;
/// The path of Pacemaker's configuration, with which the heads start: waiting for an empty one and changing it then
/// would need three times as long.
const CIB_PATH: &str = "/var/lib/pacemaker/cib/cib.xml";
/// Its owner.
const CIB_OWNER: &str = "hacluster:haclient";
/// Longest path of a socket (unix(7), `sun_path` without its end).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The last lines of a log that are reported with a failure.
const LOG_LINES_SHOWN: usize = 5;

impl Lab {
    /// Starts a lab. `progress` receives the current step.
    ///
    /// # Errors
    ///
    /// This host or the file does not allow it; or the start failed, and then nothing is left, unless the options say
    /// otherwise.
    pub fn up(options: &UpOptions, progress: &mut dyn FnMut(&str)) -> Result<Self, LabError> {
        let appliance = match &options.applied_text {
            None => understood(&options.file_text, progress)?,
            Some(text) => {
                understood(text, progress)?;
                nodes_of(&options.file_text)?
            }
        };
        let missing = needs::missing(&appliance, options.is_bare || options.has_ssh);
        if !missing.is_empty() {
            return Err(LabError::Missing(missing));
        }
        let name = options.name.clone().unwrap_or(appliance.name.clone());
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(LabError::File(format!("{name:?} is no name for a lab")));
        }
        let folder = LabDirectory::new(&options.base, &name);
        refuse_path(&folder)?;
        let lock = create_directory(&folder, &name)?;
        let keys = Keys::make(&appliance)?;
        let options = &UpOptions {
            file_text: keys.own_text(&options.file_text),
            applied_text: options
                .applied_text
                .as_ref()
                .map(|text| keys.own_text(text)),
            ..options.clone()
        };
        let up = begin(&folder, lock, options, (&appliance, keys), progress)
            .and_then(|()| Self::open(&options.base, &name))
            .and_then(|lab| lab.set_up(options, progress).map(|()| lab));
        if up.is_err() && !options.keeps_failed {
            // The first failure is reported.
            let _ = Self::down(&options.base, &name);
        }
        up
    }

    fn set_up(&self, options: &UpOptions, progress: &mut dyn FnMut(&str)) -> Result<(), LabError> {
        if options.is_bare {
            return self.leave_unconfigured(progress);
        }
        if options.creates_pools {
            let pools = self.appliance().pools.iter();
            for (name, pool) in pools.filter(|(_, pool)| !pool.has_legs()) {
                progress(&format!("create the pool {name}"));
                self.create_pool(name, pool)?;
            }
        }
        if let Some(witness) = self.witness() {
            self.await_witness(witness)?;
        }
        let text = options.applied_text.as_ref().unwrap_or(&options.file_text);
        let desired = desired_of(self.appliance(), text);
        if options.creates_pools && self.appliance().has_legs() {
            self.create_pools_of_legs(&desired, progress)?;
        }
        self.apply(&desired, progress)?;
        if options.has_console {
            self.open_head_consoles(progress)?;
        }
        progress("wait until all heads are members and all pools are served");
        match options.creates_pools {
            true => self.wait_complete(options.time_limit).map(|_| ()),
            false => {
                let all = self.heads();
                let online =
                    |head: &HeadName, of: &crate::ClusterState| of.online.contains(head.as_str());
                let wanted = |state: &crate::ClusterState| all.iter().all(|h| online(h, state));
                self.wait_until("all heads are members", options.time_limit, wanted)
                    .map(|_| ())
            }
        }
    }

    fn open_head_consoles(&self, progress: &mut dyn FnMut(&str)) -> Result<(), LabError> {
        progress("give the heads certificates and a user, for their consoles");
        let password = random_password()?;
        let path = self.place().console_password();
        write_secret(&path, &password)
            .map_err(LabError::io(format!("write {}", path.display())))?;
        self.open_consoles(&password)
    }

    /// Heads in the state after their installation: their consoles run, and the rest is left to the administrator.
    fn leave_unconfigured(&self, progress: &mut dyn FnMut(&str)) -> Result<(), LabError> {
        self.open_head_consoles(progress)?;
        for head in self.heads() {
            let words = ["enable", "--now", HEAD_UNIT];
            self.must(&Node::Head(head), "systemctl", &words)?;
        }
        Ok(())
    }

    /// Sets the heads up and starts the cluster.
    fn apply(
        &self,
        desired: &DesiredState,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), LabError> {
        let machines = self.machines()?;
        if self.witness().is_some_and(|witness| witness.tls) {
            progress("give the heads and the witness their certificates");
            self.certify()?;
        }
        let actual = cluster::observe(&machines, desired)?;
        let plan = appliance::plan(desired, &actual);
        let cib = plan.changes.iter().find_map(|change| match change {
            Change::ConfigurePacemaker { cib, .. } => Some(cib.as_ref()),
            _ => None,
        });
        let cib = merged(&empty_cib(), cib.unwrap_or(&desired.cib)).to_string();
        for (head, machine) in &machines {
            let path = Path::new(CIB_PATH);
            write_file(machine.as_ref(), path, cib.as_bytes(), 0o600)
                .map_err(|error| LabError::Supervisor(format!("write {CIB_PATH}: {error}")))?;
            self.must(&Node::Head(head.clone()), "chown", &[CIB_OWNER, CIB_PATH])?;
        }
        let mut step = |change: &Change| {
            let text = change.to_string();
            progress(text.lines().next().unwrap_or_default());
        };
        Ok(cluster::apply(&machines, &plan, &mut step)?)
    }

    /// Applies a changed appliance file to the running heads, as `bulkhead appliance apply` does, and returns the
    /// remaining changes of a second plan. The lab's nodes, networks and disks stay those of its first file.
    ///
    /// # Errors
    ///
    /// The file has errors, or a head does not take a change.
    pub fn apply_file(&self, text: &str) -> Result<Plan, LabError> {
        let setup = Setup::load(self.place()).map_err(LabError::io("read the lab's setup"))?;
        let text = setup.keys.own_text(text);
        let desired = desired_of(&understood(&text, &mut |_| {})?, &text);
        let machines = self.machines()?;
        let plan = appliance::plan(&desired, &cluster::observe(&machines, &desired)?);
        cluster::apply(&machines, &plan, &mut |_| {})?;
        Ok(appliance::plan(
            &desired,
            &cluster::observe(&machines, &desired)?,
        ))
    }

    /// Starts the lenders of the heads' disks, and creates the pools by their record: before Pacemaker monitors them.
    fn create_pools_of_legs(
        &self,
        desired: &DesiredState,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), LabError> {
        progress("start the leg-servers");
        let machines = self.machines()?;
        let mut plan = appliance::plan(desired, &cluster::observe(&machines, desired)?);
        plan.changes.retain(|change| match change {
            Change::WriteFile { path, .. } => path == Path::new(LEGS_PATH),
            Change::StartUnit { unit, .. } => unit == LEG_UNIT,
            _ => false,
        });
        cluster::apply(&machines, &plan, &mut |_| {})?;
        for pool in &plan.pools_to_make {
            progress(&format!(
                "create the pool {} on legs of several heads",
                pool.pool
            ));
            let words: Vec<&str> = pool.words.iter().map(String::as_str).collect();
            self.must(&Node::Head(pool.head.clone()), "bulkhead", &words)?;
        }
        Ok(())
    }

    fn create_pool(&self, name: &PoolName, pool: &Pool) -> Result<(), LabError> {
        let heads = self.appliance().heads_of(pool);
        let head = heads
            .first()
            .ok_or_else(|| LabError::File(format!("no head may serve {name}")))?;
        let words = create_arguments(name, pool);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.must(&Node::Head(head.clone()), "bulkhead", &words)
            .map(|_| ())
    }

    fn witness(&self) -> Option<&Witness> {
        self.appliance().quorum.as_ref()?.witness.as_ref()
    }

    /// Blocks until each head reaches the witness. Its certificates are complete by then.
    fn await_witness(&self, witness: &Witness) -> Result<(), LabError> {
        const PROBE: &str = "for try in $(seq 600); do bash -c ': </dev/tcp/\"$0\"/\"$1\"' \"$1\" \"$2\" && exit; sleep 0.1; done; exit 1";
        let (address, port) = (witness.address.to_string(), witness.port.to_string());
        let words = ["-c", PROBE, "knock", &address, &port];
        let mut heads = self.heads().into_iter();
        heads.try_for_each(|head| self.must(&Node::Head(head), "sh", &words).map(|_| ()))
    }

    /// Installs a certificate of the witness on each head, as corosync-qdevice(8) describes it.
    fn certify(&self) -> Result<(), LabError> {
        let heads = self.heads();
        let cluster = &self.appliance().name;
        let Some(first) = heads.first() else {
            return Ok(());
        };
        const CA: &str = "/etc/corosync/qnetd/nssdb/qnetd-cacert.crt";
        let shared = crate::directory::SHARED_IN_NODE;
        let on = |who: &Node, script: String| self.must(who, "sh", &["-ec", &script]).map(|_| ());
        on(&Node::Witness, format!("cp {CA} {shared}"))?;
        for head in &heads {
            let import = "corosync-qdevice-net-certutil -i -c";
            on(
                &Node::Head(head.clone()),
                format!("{import} {shared}/qnetd-cacert.crt >&2"),
            )?;
        }
        const OWN: &str = "/etc/corosync/qdevice/net/nssdb";
        let tool = "corosync-qdevice-net-certutil";
        on(
            &Node::Head(first.clone()),
            format!("{tool} -r -n {cluster} >&2; cp {OWN}/qdevice-net-node.crq {shared}"),
        )?;
        on(
            &Node::Witness,
            format!(
                "corosync-qnetd-certutil -s -c {shared}/qdevice-net-node.crq -n {cluster} >&2; \
                 cp /etc/corosync/qnetd/nssdb/cluster-{cluster}.crt {shared}"
            ),
        )?;
        on(
            &Node::Head(first.clone()),
            format!(
                "{tool} -M -c {shared}/cluster-{cluster}.crt >&2; cp {OWN}/qdevice-net-node.p12 {shared}"
            ),
        )?;
        for head in &heads[1..] {
            on(
                &Node::Head(head.clone()),
                format!("{tool} -m -c {shared}/qdevice-net-node.p12 >&2"),
            )?;
        }
        Ok(())
    }
}

/// The desired state of the heads of a lab.
fn desired_of(appliance: &Appliance, text: &str) -> DesiredState {
    let layout = Layout {
        program: PathBuf::from(PROGRAM_IN_NODE),
        ..Layout::default()
    };
    appliance::desired_state(appliance, text, &layout)
}

/// The file without mistakes that a check finds by itself.
fn understood(text: &str, progress: &mut dyn FnMut(&str)) -> Result<Appliance, LabError> {
    let parsed = appliance::parse(text).map_err(|finding| LabError::File(finding.to_string()))?;
    let findings = appliance::check(&parsed, &appliance::Facts::default());
    let (errors, others): (Vec<_>, Vec<_>) = findings
        .iter()
        .partition(|finding| finding.severity == Severity::Error);
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(LabError::File(errors.join("\n")));
    }
    for finding in others
        .iter()
        .filter(|one| one.severity == Severity::Warning)
    {
        progress(&finding.to_string());
    }
    let (appliance, left_out) = imitated(parsed.appliance);
    for sentence in &left_out {
        progress(sentence);
    }
    possible(appliance)
}

/// All machines of a file that is none of an appliance: not all of them belong to it at a time.
fn nodes_of(text: &str) -> Result<Appliance, LabError> {
    let parsed = appliance::parse(text).map_err(|finding| LabError::File(finding.to_string()))?;
    possible(imitated(parsed.appliance).0)
}

fn possible(appliance: Appliance) -> Result<Appliance, LabError> {
    let impossible = needs::impossible(&appliance);
    match impossible.is_empty() {
        true => Ok(appliance),
        false => Err(LabError::File(impossible.join("; "))),
    }
}

/// The directory's path is part of configurations without a common syntax for quotes, and of the
/// address of a socket, which is short.
fn refuse_path(folder: &LabDirectory) -> Result<(), LabError> {
    let control = folder.control();
    let path = control.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match control.is_absolute() && path.chars().all(is_plain) && path.len() <= SOCKET_PATH_BYTES_MAX
    {
        true => Ok(()),
        false => Err(LabError::File(format!(
            "{} is too long or has other characters than letters, digits and /._-+ in it: choose another directory or name",
            folder.path().display()
        ))),
    }
}

/// Creates the directory, and locks it before it has any contents.
fn create_directory(folder: &LabDirectory, name: &str) -> Result<File, LabError> {
    let failed = || format!("make {}", folder.path().display());
    let base = folder.path().parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(base).map_err(LabError::io(failed()))?;
    match fs::create_dir(folder.path()) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(LabError::Exists(name.to_owned()));
        }
        made => made.map_err(LabError::io(failed()))?,
    }
    // Passwords are in it.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))
        .map_err(LabError::io(failed()))?;
    let lock = File::create(folder.lock()).map_err(LabError::io(failed()))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(std::io::Error::from)
        .map_err(LabError::io(failed()))?;
    Ok(lock)
}

/// Fills the directory and starts the lab's first process, which holds the lock from then on.
fn begin(
    folder: &LabDirectory,
    lock: File,
    options: &UpOptions,
    (appliance, keys): (&Appliance, Keys),
    progress: &mut dyn FnMut(&str),
) -> Result<(), LabError> {
    let failed = || format!("fill {}", folder.path().display());
    for path in [
        folder.shared(),
        folder.path().join("disks"),
        folder.machines(),
    ] {
        fs::create_dir(path).map_err(LabError::io(failed()))?;
    }
    for file in disk_files(folder, appliance) {
        File::create(file)
            .and_then(|file| file.set_len(options.disk_bytes.get()))
            .map_err(LabError::io(failed()))?;
    }
    for pool in appliance.pools.keys() {
        fs::write(folder.leg_faults(pool), "").map_err(LabError::io(failed()))?;
    }
    let setup = Setup {
        name: options.name.clone().unwrap_or(appliance.name.clone()),
        file_text: options.file_text.clone(),
        applied_text: options.applied_text.clone(),
        secrets: secrets(appliance)?,
        keys,
        arc_bytes_max: options.arc_bytes_max.get(),
        has_clocks: options.has_clocks,
        has_console: options.has_console || options.is_bare,
        has_ssh: options.is_bare || options.has_ssh || options.has_console && needs::has_ssh(),
    };
    if options.has_clocks {
        clock::write_library(folder).map_err(LabError::io(failed()))?;
    }
    setup.save(folder).map_err(LabError::io(failed()))?;
    progress("start the heads, their switches and their BMCs");
    start(folder, lock, &options.program)
}

fn secrets(appliance: &Appliance) -> Result<BTreeMap<PathBuf, String>, LabError> {
    let mut secrets = BTreeMap::new();
    for path in passwords_required(appliance) {
        secrets.insert(path, random_password()?);
    }
    for tls in tls_required(appliance) {
        let (certificate, key) = create_certificate(appliance)?;
        secrets.insert(tls.key_file.clone(), key);
        // The one certificate is its own authority, and the clients', too.
        for path in tls
            .client_authority_file
            .iter()
            .chain([&tls.certificate_file])
        {
            secrets.insert(path.clone(), certificate.clone());
        }
    }
    match secrets.keys().find(|path| !inside::is_possible(path)) {
        Some(path) => Err(LabError::Place(path.clone())),
        None => Ok(secrets),
    }
}

/// A certificate that signs itself, for all addresses of the pools; with its key, PEM both.
fn create_certificate(appliance: &Appliance) -> Result<(String, String), LabError> {
    let addresses = appliance.pools.values().flat_map(|pool| &pool.addresses);
    let names: Vec<String> = addresses.map(|one| one.address.to_string()).collect();
    let made = certificates::make(&names, certificates::Purpose::Authority)
        .map_err(|error| LabError::Supervisor(format!("make a certificate: {error}")))?;
    Ok((made.certificate_pem(), made.key_pem()))
}

fn random_password() -> Result<String, LabError> {
    let mut bytes = [0_u8; PASSWORD_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| LabError::Supervisor(format!("make a password: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Only the owner can read the directory; the same for the file, wherever it is copied.
fn write_secret(path: &Path, secret: &str) -> std::io::Result<()> {
    fs::write(path, format!("{secret}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

fn start(folder: &LabDirectory, lock: File, program: &Path) -> Result<(), LabError> {
    use std::os::unix::process::CommandExt as _;
    let log = File::create(folder.log()).map_err(LabError::io("make the lab's log"))?;
    let mut child = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--uts", "--ipc"])
        .args(["--fork", "--kill-child=KILL", "--"])
        .arg(program)
        .args([inside::COMMAND, "first"])
        .arg(folder.path())
        .stdin(lock)
        .stdout(Stdio::piped())
        .stderr(log)
        .current_dir("/")
        // A signal from the terminal is for this command alone.
        .process_group(0)
        .spawn()
        .map_err(LabError::io("run unshare"))?;
    let mut said = String::new();
    let heard = match child.stdout.take() {
        Some(stdout) => BufReader::new(stdout).read_line(&mut said),
        None => Ok(0),
    };
    // When it exits, it must not stay as a zombie of a process that continues.
    std::thread::spawn(move || child.wait());
    match heard {
        Ok(_) if said.trim() == inside::READY => Ok(()),
        _ => {
            let log = fs::read_to_string(folder.log()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
            Err(LabError::Supervisor(last.join("\n")))
        }
    }
}

/// Words for `bulkhead pool create`: mirrors of two disks, the last of three where the number is
/// odd. A single disk is a pool of its own.
fn create_arguments(name: &PoolName, pool: &Pool) -> Vec<String> {
    let mut words = vec!["pool".to_owned(), "create".to_owned(), name.to_string()];
    let disks: Vec<String> = pool
        .disks
        .iter()
        .map(|disk| disk.to_string_lossy().into_owned())
        .collect();
    if disks.len() < 2 {
        words.extend(disks);
    } else {
        let mirrors = disks.len() / 2;
        for (index, pair) in disks.chunks(2).enumerate() {
            if index < mirrors {
                words.push("mirror".to_owned());
            }
            words.extend_from_slice(pair);
        }
    }
    let ashift = pool.sector_bytes.max(1).ilog2();
    words.extend(["--property".to_owned(), format!("ashift={ashift}")]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(disks: &[&str]) -> String {
        let text = include_str!("../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let (name, pool) = appliance.pools.into_iter().next().expect("a pool");
        let disks = disks.iter().map(PathBuf::from).collect();
        create_arguments(&name, &Pool { disks, ..pool }).join(" ")
    }

    #[test]
    fn pools_are_two_way_mirrors_and_last_is_three_way() {
        let end = "--property ashift=12";
        assert_eq!(words(&["a"]), format!("pool create tank a {end}"));
        assert_eq!(
            words(&["a", "b"]),
            format!("pool create tank mirror a b {end}")
        );
        assert_eq!(
            words(&["a", "b", "c", "d", "e"]),
            format!("pool create tank mirror a b mirror c d e {end}")
        );
    }

    #[test]
    fn invalid_appliance_file_is_refused_with_findings() {
        let text = include_str!("../../examples/pair.toml");
        let mut said = Vec::new();
        let mut progress = |line: &str| said.push(line.to_owned());
        assert!(understood(text, &mut progress).is_ok());
        let broken = text.replace("delay_s = 1", "delay_s = 0");
        let error = understood(&broken, &mut progress).expect_err("refused");
        assert!(error.to_string().contains("fence-delay-equal"), "{error}");
    }
}
