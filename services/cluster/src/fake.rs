//! A head in memory: it has files, services and, together with the other heads, a CIB. Tests use it where a real
//! cluster would be too slow or too dangerous.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use appliance::plan::{CERTIFICATE_PATH, LEG_UNIT, QDEVICE_DEFAULTS_PATH, QDEVICE_UNIT};
use appliance::render::{LEGS_PATH, QDEVICE_SETTINGS};
use appliance::xml::Element;

use crate::host::{Host, Lock, LockError};
use crate::process::{Invocation, Output, RunError};

/// The shared state of one cluster.
#[derive(Debug, Default)]
pub struct FakeCluster {
    /// The configuration, once Pacemaker has run.
    pub cib: Option<Element>,
    /// Each command that made a change, with its head.
    pub log: Vec<String>,
    /// Changes by another client before the next patches are accepted.
    pub rivals: u32,
    /// Whether resources that should stop keep running.
    pub sticks: bool,
    /// Number of commands until the run is killed: the next one panics.
    pub fuse: Option<u32>,
    /// A head that is lost, and that no fence device has confirmed to be off.
    pub unconfirmed: Option<String>,
    /// A unit that exits right after its start.
    pub dies: Option<String>,
}

impl FakeCluster {
    /// The response of crm_mon(8) about its resources: those that should stop have stopped, except with
    /// [`FakeCluster::sticks`].
    fn resources(&self) -> String {
        let all = self.cib.iter().flat_map(|cib| cib.child("configuration"));
        let all = all
            .flat_map(|one| one.child("resources"))
            .flat_map(|one| &one.children);
        let lines = all.map(|one| {
            let id = one.id().unwrap_or_default();
            let is_active = self.sticks || !one.to_string().contains("value=\"Stopped\"");
            format!("<resource id=\"{id}\" active=\"{is_active}\" failed=\"false\"/>")
        });
        let lost = self.unconfirmed.iter();
        let lost =
            lost.map(|head| format!("<node name=\"{head}\" online=\"false\" unclean=\"true\"/>"));
        format!(
            "<pacemaker-result><nodes>{}</nodes><resources>{}</resources></pacemaker-result>",
            lost.collect::<String>(),
            lines.collect::<String>()
        )
    }
}

/// One head in memory.
#[derive(Clone, Debug)]
pub struct FakeHost {
    name: String,
    cluster: Arc<Mutex<FakeCluster>>,
    state: Arc<Mutex<FakeState>>,
}

#[derive(Debug, Default)]
struct FakeState {
    files: BTreeMap<String, (Vec<u8>, String)>,
    units: BTreeSet<String>,
    is_down: bool,
    portals: String,
    refuses_portals: bool,
    pools_remembered: BTreeSet<u64>,
    members: String,
    /// The file that its leg-server has read.
    legs_read: Option<String>,
    lacks_program: bool,
    is_older: bool,
    locked_by: Option<Arc<String>>,
    /// The addresses and numbers of its running Corosync, if they differ from its file.
    nodes: Option<String>,
    /// The settings at the start of its corosync-qdevice.
    witness_settings: String,
    is_witness_off: bool,
    /// The pools in the outputs of `status`, in order; the last one repeats.
    statuses: Vec<String>,
    looks: String,
    /// Verbs about pools that are refused, each with one of their arguments.
    refused: Vec<(String, String)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn output_of(code: i32, stdout: impl Into<Vec<u8>>) -> Output {
    Output {
        code,
        stdout: stdout.into(),
        stderr: Vec::new(),
    }
}

impl FakeHost {
    /// A bare head of `cluster`.
    pub fn new(name: &str, cluster: &Arc<Mutex<FakeCluster>>) -> Self {
        Self {
            name: name.to_owned(),
            cluster: Arc::clone(cluster),
            state: Arc::default(),
        }
    }

    /// Sets whether the head is unreachable.
    pub fn set_down(&self, is_down: bool) {
        lock(&self.state).is_down = is_down;
    }

    /// Sets whether the binary of the heads is installed.
    pub fn set_program(&self, is_there: bool) {
        lock(&self.state).lacks_program = !is_there;
    }

    /// Sets whether the installed version reads the key of the heads.
    pub fn set_older(&self, is_older: bool) {
        lock(&self.state).is_older = is_older;
    }

    /// Sets the output of `corosync-cmapctl nodelist.`.
    pub fn set_nodes(&self, text: &str) {
        lock(&self.state).nodes = Some(text.to_owned());
    }

    /// Sets whether the witness responds to it.
    pub fn set_witness(&self, is_there: bool) {
        lock(&self.state).is_witness_off = !is_there;
    }

    /// Starts its corosync-qdevice.
    fn read_witness(&self) {
        let text = self.file(QDEVICE_DEFAULTS_PATH).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = format!("{QDEVICE_SETTINGS}=");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        let settings = line.unwrap_or_default().trim_matches('"').to_owned();
        lock(&self.state).witness_settings = settings;
    }

    fn witness(&self) -> String {
        if !self.is_active(QDEVICE_UNIT) {
            return String::new();
        }
        let state = lock(&self.state);
        let connection = match state.is_witness_off {
            true => "Connect failed",
            false => "Connected",
        };
        format!(
            "settings {}\nState:\t\t\t{connection}\n",
            state.witness_settings
        )
    }

    /// Sets the output of `bulkhead portal list --json`.
    pub fn set_portals(&self, json: &str) {
        lock(&self.state).portals = json.to_owned();
    }

    /// Creates a pool of legs there: the head stores its number.
    pub fn store_pool(&self, number: u64) {
        lock(&self.state).pools_remembered.insert(number);
    }

    /// Sets the output of `bulkhead leg-server members --json`.
    pub fn set_members(&self, json: &str) {
        lock(&self.state).members = json.to_owned();
    }

    /// Sets the pools in the outputs of `bulkhead status POOL --json`, in order; the last one repeats.
    pub fn set_statuses(&self, json: &[String]) {
        lock(&self.state).statuses = json.iter().rev().cloned().collect();
    }

    /// Sets the output of `bulkhead leg-server look --json`.
    pub fn set_disk_inspections(&self, json: &str) {
        lock(&self.state).looks = json.to_owned();
    }

    /// Has the server of a pool refuse this verb when `word` is among its arguments.
    pub fn refuse(&self, verb: &str, word: &str) {
        let mut state = lock(&self.state);
        state.refused.push((verb.to_owned(), word.to_owned()));
    }

    /// Removes all refusals.
    pub fn refuse_nothing(&self) {
        lock(&self.state).refused.clear();
    }

    fn pool_status(&self) -> Output {
        let mut state = lock(&self.state);
        let next = match state.statuses.len() {
            0 | 1 => state.statuses.last().cloned(),
            _ => state.statuses.pop(),
        };
        let elsewhere = || output_of(0, r#"{"pool":{},"served_by":"another"}"#);
        next.map_or_else(elsewhere, |next| {
            output_of(0, format!("{{\"pool\":{next}}}"))
        })
    }

    /// A request to the server of a pool.
    fn by_server(&self, verb: &str, words: &[&str]) -> Output {
        let is_refused = |(one, word): &(String, String)| one == verb && words.contains(&&**word);
        if lock(&self.state).refused.iter().any(is_refused) {
            return Output {
                stderr: b"not now".to_vec(),
                ..output_of(5, "")
            };
        }
        self.log(format!("{verb} {}", words.join(" ")));
        output_of(0, "")
    }

    /// Starts a unit.
    fn read(&self, unit: &str) {
        match unit {
            LEG_UNIT => self.read_legs(),
            QDEVICE_UNIT => self.read_witness(),
            _ => {}
        }
    }

    /// Starts its leg-server.
    fn read_legs(&self) {
        let text = self.file(LEGS_PATH);
        let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
        lock(&self.state).legs_read = text;
    }

    /// Marks all portals as in use: none can be removed.
    pub fn set_portals_in_use(&self) {
        lock(&self.state).refuses_portals = true;
    }

    /// The bytes of a file.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.state)
            .files
            .get(path)
            .map(|(bytes, _)| bytes.clone())
    }

    fn log(&self, what: impl AsRef<str>) {
        let line = format!("{}: {}", self.name, what.as_ref());
        lock(&self.cluster).log.push(line);
    }

    fn is_active(&self, unit: &str) -> bool {
        lock(&self.state).units.contains(unit)
    }

    fn systemctl(&self, words: &[&str]) -> Output {
        match words {
            ["enable", "--now", unit] => {
                self.log(format!("start {unit}"));
                if lock(&self.cluster).dies.as_deref() == Some(*unit) {
                    return output_of(0, "");
                }
                lock(&self.state).units.insert((*unit).to_owned());
                self.read(unit);
                if *unit == "pacemaker.service" {
                    let mut cluster = lock(&self.cluster);
                    cluster.cib.get_or_insert_with(appliance::plan::empty_cib);
                }
                output_of(0, "")
            }
            ["restart", unit] => {
                self.log(format!("restart {unit}"));
                self.read(unit);
                output_of(0, "")
            }
            ["disable", "--now", unit] => {
                self.log(format!("stop {unit}"));
                lock(&self.state).units.remove(*unit);
                output_of(0, "")
            }
            // The package is installed.
            ["cat", _] => output_of(0, ""),
            ["is-enabled" | "is-active", "--quiet", unit] => {
                output_of(if self.is_active(unit) { 0 } else { 3 }, "")
            }
            _ => output_of(1, ""),
        }
    }

    /// The scripts of this crate, by their names.
    fn shell(&self, words: &[&str], input: &[u8]) -> Output {
        match words {
            ["-c", "corosync-cmapctl totem.cluster_name"] => match self.cluster_name() {
                Some(name) if self.is_active("corosync.service") => {
                    output_of(0, format!("totem.cluster_name (str) = {name}\n"))
                }
                _ => output_of(1, ""),
            },
            ["-c", "corosync-cmapctl nodelist."] => output_of(0, self.nodes()),
            ["-c", _, "program", _] => output_of(lock(&self.state).lacks_program.into(), ""),
            ["-c", _, "names", ..] => output_of(lock(&self.state).is_older.into(), ""),
            ["-c", _, "beside", ..] => output_of(0, ""),
            ["-c", _, "device", _] => output_of(0, self.witness()),
            ["-c", _, "knock", ..] => output_of(lock(&self.state).is_witness_off.into(), ""),
            ["-c", _, "read", path] => match lock(&self.state).files.get(*path) {
                Some((bytes, mode)) => {
                    output_of(0, [format!("{mode}\n").as_bytes(), bytes].concat())
                }
                None => output_of(44, ""),
            },
            ["-c", _, "write", path, mode, ..] => {
                self.log(format!("write {path}"));
                let file = (input.to_vec(), (*mode).to_owned());
                lock(&self.state).files.insert((*path).to_owned(), file);
                output_of(0, "")
            }
            ["-c", _, "digest", path] => match self.file(path) {
                Some(bytes) => {
                    let sum = bytes.iter().fold(0_u64, |sum, byte| {
                        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
                    });
                    output_of(0, format!("{}\n{sum:x}  -\n", bytes.len()))
                }
                None => output_of(0, ""),
            },
            ["-c", _, "mark", path] => output_of(self.file(path).is_none().into(), ""),
            ["-c", _, "erase", path] => {
                self.log(format!("erase {path}"));
                lock(&self.state).looks = "[]".to_owned();
                output_of(0, "")
            }
            ["-c", _, "unmark", path] => {
                lock(&self.state).files.remove(*path);
                output_of(0, "")
            }
            ["-c", _, "certificate", path] => output_of(self.file(path).is_none().into(), ""),
            ["-c", _, "patch", length] => self.patch(length.parse().unwrap_or(0), input),
            _ => output_of(127, ""),
        }
    }

    /// The nodes of its file, unless set otherwise, while Corosync runs.
    fn nodes(&self) -> String {
        if !self.is_active("corosync.service") {
            return String::new();
        }
        if let Some(text) = lock(&self.state).nodes.clone() {
            return text;
        }
        let conf = self.file("/etc/corosync/corosync.conf").unwrap_or_default();
        let conf = String::from_utf8_lossy(&conf).into_owned();
        let list = conf.split("nodelist {").nth(1).unwrap_or_default();
        let nodes = list
            .split("\n}\n")
            .next()
            .unwrap_or_default()
            .split("node {");
        let lines = nodes.skip(1).enumerate().flat_map(|(index, node)| {
            let pairs = node.lines().filter_map(|line| line.trim().split_once(": "));
            pairs.map(move |(key, value)| format!("nodelist.node.{index}.{key} (str) = {value}\n"))
        });
        lines.collect()
    }

    fn cluster_name(&self) -> Option<String> {
        let conf = self.file("/etc/corosync/corosync.conf")?;
        let conf = String::from_utf8_lossy(&conf).into_owned();
        let line = conf.lines().find(|line| line.contains("cluster_name:"))?;
        line.split(": ").nth(1).map(str::to_owned)
    }

    fn patch(&self, length: usize, input: &[u8]) -> Output {
        let Some((before, after)) = input.split_at_checked(length) else {
            return output_of(65, "");
        };
        let parse = |bytes: &[u8]| Element::parse(&String::from_utf8_lossy(bytes)).ok();
        let mut cluster = lock(&self.cluster);
        let Some(current) = cluster.cib.clone() else {
            return output_of(102, "");
        };
        if cluster.rivals > 0 {
            cluster.rivals -= 1;
            cluster.cib = Some(current.with("epoch", 1_000 - cluster.rivals));
            return output_of(103, "");
        }
        if parse(before).as_ref() != Some(&current) {
            return output_of(103, "");
        }
        cluster.cib = parse(after);
        cluster.log.push(format!("{}: configure", self.name));
        output_of(0, "")
    }
}

impl Host for FakeHost {
    fn lock(&self, who: &str) -> Result<Lock, LockError> {
        let mut state = lock(&self.state);
        if let Some(other) = state
            .locked_by
            .as_ref()
            .filter(|lock| Arc::strong_count(lock) > 1)
        {
            return Err(LockError::Busy(other.to_string()));
        }
        let held = Arc::new(who.to_owned());
        state.locked_by = Some(Arc::clone(&held));
        Ok(Box::new(held))
    }

    fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let is_cut_off = match &mut lock(&self.cluster).fuse {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        assert!(!is_cut_off, "killed");
        if lock(&self.state).is_down {
            return Err(RunError::Start {
                program: invocation.program.clone(),
                source: std::io::ErrorKind::HostUnreachable.into(),
            });
        }
        let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
        Ok(match (invocation.program.as_str(), words.as_slice()) {
            ("true", _) => output_of(0, ""),
            ("systemctl", words) => self.systemctl(words),
            ("sh", words) => self.shell(words, &invocation.input),
            ("corosync-cfgtool", ["-R"]) => {
                self.log("reload");
                output_of(0, "")
            }
            (_, ["portal", "list", "--json"]) => match lock(&self.state).portals.clone() {
                none if none.is_empty() => output_of(7, ""),
                list => output_of(0, list),
            },
            (_, ["leg-server", "pools", "--json"]) => output_of(
                0,
                format!("{:?}", Vec::from_iter(&lock(&self.state).pools_remembered)),
            ),
            (_, ["leg-server", "members", "--json"]) => match lock(&self.state).members.clone() {
                none if none.is_empty() => output_of(2, ""),
                list => output_of(0, list),
            },
            (_, ["leg-server", "configuration"]) => match lock(&self.state).legs_read.clone() {
                Some(text) => output_of(0, text),
                None => output_of(7, ""),
            },
            (_, ["leg-server", "look", "--json", ..]) => match lock(&self.state).looks.clone() {
                none if none.is_empty() => output_of(2, ""),
                looks => output_of(0, looks),
            },
            (_, ["status", _, "--json"]) => self.pool_status(),
            (
                _,
                [
                    "pool",
                    verb @ ("set-witness" | "add-head" | "attach" | "add"),
                    words @ ..,
                ],
            ) => self.by_server(verb, words),
            (_, ["leg-server", "forget", number, "--pool-is-gone"]) => {
                let is_gone = number.parse().is_ok_and(|number| {
                    let mut state = lock(&self.state);
                    state.members.clear();
                    state.pools_remembered.remove(&number)
                });
                if is_gone {
                    self.log(format!("forget the record {number}"));
                }
                output_of(0, "")
            }
            (_, ["pool", "forget", pool]) => {
                self.log(format!("forget {pool}"));
                output_of(0, "")
            }
            (_, ["portal", "set", words @ ..]) => {
                if lock(&self.state).refuses_portals && !words.contains(&"--in-use") {
                    return Ok(output_of(5, ""));
                }
                self.log(format!("portal set {}", words.join(" ")));
                output_of(0, "")
            }
            (_, ["head", "certificate", "--name", name, ..]) => {
                self.log(format!("make the certificate of {name}"));
                let file = (b"certificate".to_vec(), "644".to_owned());
                let mut state = lock(&self.state);
                state.files.insert(CERTIFICATE_PATH.to_owned(), file);
                output_of(0, "")
            }
            ("crm_resource", ["--wait", ..]) => {
                self.log("wait for Pacemaker");
                output_of(0, "")
            }
            ("crm_mon", _) => output_of(0, lock(&self.cluster).resources()),
            ("cibadmin", ["--query", ..]) => match &lock(&self.cluster).cib {
                Some(cib) if self.is_active("pacemaker.service") => output_of(0, cib.to_string()),
                _ => output_of(102, ""),
            },
            _ => output_of(127, ""),
        })
    }
}
