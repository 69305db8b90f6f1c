//! The configuration of Pacemaker: pools, their addresses, fence devices, and the rules for their
//! location and order. First as types, then as the XML of a CIB.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use takeover::budget::{FENCE_REFUSAL, TRANSITION_DELAY, TRANSITION_DELAY_WITNESS};
use units::{HeadName, PoolName};

use super::agents::{FENCE_AGENT, shell_quoted};
use crate::file::{
    Appliance, Bmc, Fencing, Hypervisor, Outlet, Pdu, Pool, PoolAddress, Privilege, VirtualMachine,
};
use crate::timeouts::Timeouts;
use crate::xml::Element;

/// The preference of a pool for its home, and the decrement for each further head.
const SCORE_HOME: i32 = 100;
const SCORE_STEP: i32 = 10;
/// Higher than any preference: no resource moves back automatically.
const STICKINESS: i32 = 1_000;
/// Number of failures on one head, as counted by Pacemaker, after which a pool moves to another head, and the time
/// until they expire. Pacemaker may count a failure from the watch twice, as the last operation and as the last
/// failure, and a monitor may report it once more. So one failure counts at most three times, and must not move the
/// pool.
const FAILURES_MAX: u32 = 6;
const FAILURES_FORGOTTEN_S: u32 = 600;
/// The same for a pool of legs: a head with a stale leg cannot start it until the leg is resynchronized.
const REFUSALS_FORGOTTEN_S: u32 = 60;
/// A failed start of a fence device is retried at this interval. A device is used for a fence whether it was started or
/// not, and a retry delays all other actions by up to the bound of a fence.
const DEVICE_FORGOTTEN_S: u32 = 900;
/// Time-out of the consent of the witness.
const CONSENT_TIMEOUT_S: u32 = (FENCE_REFUSAL.as_secs() + CONSENT_MARGIN_S) as u32;
/// Its last requests, and the start of its process on a busy head.
const CONSENT_MARGIN_S: u64 = 15;
/// Pools and their addresses start before fence devices, which have no priority. Pacemaker recovers the resources of a
/// lost head in the order of priorities, and on a busy head one after the other. With three heads that is up to three
/// devices of the other survivor.
const PRIORITY: (&str, &str) = ("priority", "10");
/// Adding and removing an address.
const ADDRESS_TIMEOUT_S: u32 = 20;
const ADDRESS_MONITOR_S: u32 = 10;
/// Number of actions that Pacemaker may run on one head at a time: a pool and its addresses, for
/// more pools than heads of this kind have.
const NODE_ACTION_LIMIT: u32 = 64;

/// The Pacemaker configuration of one appliance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cib {
    /// Properties of the cluster.
    pub properties: BTreeMap<String, String>,
    /// Defaults of resources.
    pub defaults: BTreeMap<String, String>,
    /// All resources that are started and monitored.
    pub primitives: Vec<Primitive>,
    /// Constraints on where resources may run, or prefer to run.
    pub locations: Vec<Location>,
    /// Resources that run on the same head.
    pub colocations: Vec<Colocation>,
    /// Resources that start after a different one (and stop before it).
    pub orders: Vec<Order>,
    /// The fence devices of each head.
    pub topology: Vec<FencingLevel>,
}

/// One resource that an agent starts, stops and monitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primitive {
    /// Its name in Pacemaker.
    pub id: String,
    /// `stonith` or `ocf`.
    pub class: &'static str,
    /// Vendor of an OCF agent.
    pub provider: Option<&'static str>,
    /// Name of the agent.
    pub kind: String,
    /// Parameters of the agent.
    pub parameters: BTreeMap<String, String>,
    /// How Pacemaker treats it.
    pub meta: BTreeMap<String, String>,
    /// Operations with their bounds.
    pub operations: Vec<Operation>,
}

/// One operation of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// `start`, `stop` or `monitor`.
    pub name: &'static str,
    /// Seconds between repetitions; 0: once.
    pub interval_s: u32,
    /// Its bound.
    pub timeout_s: u32,
}

/// The strength of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Must not.
    Never,
    /// A preference, with its score.
    Prefer(i32),
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("-INFINITY"),
            Self::Prefer(score) => write!(f, "{score}"),
        }
    }
}

/// Where a resource must not run, or prefers to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The resource.
    pub resource: String,
    /// Where.
    pub head: HeadName,
    /// How much.
    pub score: Score,
}

/// `resource` runs only where `with` runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colocation {
    /// The dependent resource.
    pub resource: String,
    /// The resource that it follows.
    pub with: String,
}

/// `then` is started, or stopped, after `first`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The action on both.
    pub action: Ordered,
    /// The first resource.
    pub first: String,
    /// The resource that is delayed until then.
    pub then: String,
}

/// The action of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// `then` starts only when `first` has started.
    Start,
    /// Where both stop, `then` does so after `first`. The agent of a pool itself removes the pool's addresses when
    /// their clients can soon reconnect; their own agents would do it too early.
    Stop,
    /// Where `first` moves to another head, `then` is stopped after the start there, which clients are waiting for.
    Move,
}

impl Order {
    fn element(&self) -> Element {
        let order = |prefix: &str| {
            Element::new("rsc_order")
                .with("id", format!("{prefix}-{}-{}", self.first, self.then))
                .with("first", &self.first)
                .with("then", &self.then)
        };
        let of = |order: Element, first: &str, then: &str| {
            order.with("first-action", first).with("then-action", then)
        };
        let (order, kind) = match self.action {
            Ordered::Start => (order("after"), "Mandatory"),
            Ordered::Stop => (of(order("stop-after"), "stop", "stop"), "Optional"),
            Ordered::Move => (of(order("move-after"), "start", "stop"), "Optional"),
        };
        order.with("kind", kind).with("symmetrical", "false")
    }
}

/// Devices that together power one head off; a level is tried when the previous ones failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencingLevel {
    /// The head.
    pub head: HeadName,
    /// 1 is tried first.
    pub index: u32,
    /// All of these must succeed.
    pub devices: Vec<String>,
}

/// `text` as part of an XML id, which has letters, digits, `.`, `-` and `_` only. Injective.
fn id_part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '.' || c == '-' {
            part.push(c);
        } else {
            part.push_str(&format!("_{:x}_", u32::from(c)));
        }
    }
    part
}

/// Pacemaker's name of a pool.
pub fn pool_id(pool: &PoolName) -> String {
    format!("pool-{}", id_part(pool.as_str()))
}

/// Returns the pool of that name in Pacemaker; none if it is no pool's.
pub fn pool_of(resource: &str) -> Option<PoolName> {
    let part = resource.strip_prefix("pool-")?;
    let mut pieces = part.split('_');
    let mut name = pieces.next()?.to_owned();
    // The text between two underscores is the number of a character.
    while let Some(number) = pieces.next() {
        name.push(char::from_u32(u32::from_str_radix(number, 16).ok()?)?);
        name.push_str(pieces.next()?);
    }
    name.parse().ok()
}

/// Pacemaker's name of an address: unique because addresses are, and independent of its position in
/// the file.
pub fn address_id(address: IpAddr) -> String {
    // An IPv6 address consists of hexadecimal digits, dots and colons: this stays unique.
    format!("address-{}", address.to_string().replace(':', "-"))
}

/// Pacemaker's names of a pool and of its addresses; that of the pool is the first one.
pub fn resource_ids(name: &PoolName, pool: &Pool) -> Vec<String> {
    let addresses = pool.addresses.iter();
    let addresses = addresses.map(|one| address_id(one.address));
    std::iter::once(pool_id(name)).chain(addresses).collect()
}

/// Pacemaker's names of all devices that power `head` off, by level.
pub fn fence_ids(head: &HeadName, fencing: &Fencing) -> Vec<Vec<String>> {
    let machine = fencing
        .virtual_machine
        .iter()
        .map(|_| vec![virtual_machine_id(head)]);
    let bmc = fencing
        .bmc
        .iter()
        .map(|_| vec![format!("fence-{head}-bmc")]);
    let outlets: Vec<String> = fencing
        .outlets
        .iter()
        .map(|outlet| outlet_id(head, outlet))
        .collect();
    let outlets = Some(outlets).filter(|outlets| !outlets.is_empty());
    machine.chain(bmc).chain(outlets).collect()
}

/// The same with the device of the witness's consent, which is the first one of each level.
pub fn fencing_levels(
    appliance: &Appliance,
    head: &HeadName,
    fencing: &Fencing,
) -> Vec<Vec<String>> {
    let consent = |level| appliance.has_consent().then(|| consent_id(head, level));
    let levels = (1..).zip(fence_ids(head, fencing));
    levels
        .map(|(level, ids)| consent(level).into_iter().chain(ids).collect())
        .collect()
}

fn consent_id(head: &HeadName, level: u32) -> String {
    match level {
        1 => format!("fence-{head}-consent"),
        _ => format!("fence-{head}-consent-{level}"),
    }
}

fn virtual_machine_id(head: &HeadName) -> String {
    format!("fence-{head}-machine")
}

fn outlet_id(head: &HeadName, outlet: &Outlet) -> String {
    format!(
        "fence-{head}-outlet-{}-{}",
        id_part(&outlet.pdu),
        id_part(&outlet.outlet)
    )
}

/// Returns the full configuration of an appliance.
pub fn cib(appliance: &Appliance) -> Cib {
    let times = appliance.timeouts();
    let mut cib = Cib {
        properties: properties(appliance, &times),
        defaults: pairs([("resource-stickiness", STICKINESS.to_string())]),
        primitives: Vec::new(),
        locations: Vec::new(),
        colocations: Vec::new(),
        orders: Vec::new(),
        topology: Vec::new(),
    };
    if appliance.heads.len() > 1 {
        for (name, head) in &appliance.heads {
            if let Some(fencing) = &head.fencing {
                add_fencing(&mut cib, appliance, name, fencing, &times);
            }
        }
    }
    for (name, pool) in &appliance.pools {
        add_pool(&mut cib, appliance, name, pool, &times);
    }
    cib
}

fn pairs<const N: usize>(pairs: [(&str, String); N]) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn seconds(count: u32) -> String {
    format!("{count}s")
}

fn millis(count: u32) -> String {
    format!("{count}ms")
}

fn delay_s_max(appliance: &Appliance) -> u32 {
    let heads = appliance.heads.values();
    heads
        .filter_map(|head| Some(head.fencing.as_ref()?.delay_s))
        .max()
        .unwrap_or(0)
}

fn properties(appliance: &Appliance, times: &Timeouts) -> BTreeMap<String, String> {
    let has_peers = appliance.heads.len() > 1;
    let fence_s = times.fence_s.saturating_add(delay_s_max(appliance));
    let transition_delay = match appliance.has_voting_witness() {
        true => TRANSITION_DELAY_WITNESS,
        false => TRANSITION_DELAY,
    };
    let transition_delay_ms = u32::try_from(transition_delay.as_millis()).unwrap_or(u32::MAX);
    pairs([
        ("stonith-enabled", has_peers.to_string()),
        // Off, not reboot: a head that reboots may fail in the same way again.
        ("stonith-action", "off".to_owned()),
        ("stonith-timeout", seconds(fence_s)),
        ("no-quorum-policy", "stop".to_owned()),
        // A failed start is retried at once, as often as any other failure. With the default, the
        // pool could not return to that head until old failures expire.
        ("start-failure-is-fatal", "false".to_owned()),
        // How long the first head awaits the other heads at start; the default is 20 s.
        ("dc-deadtime", "2s".to_owned()),
        ("transition-delay", millis(transition_delay_ms)),
        // On a busy head the cluster would otherwise perform one action at a time, such as setting
        // addresses one after the other. Parallelism matters most when a head is busy.
        ("load-threshold", "100000%".to_owned()),
        // All pools of a lost head start in parallel. The default is two actions per processor, and
        // the remaining pools would wait seconds for the monitors of the first ones.
        ("node-action-limit", NODE_ACTION_LIMIT.to_string()),
        // Old failures expire, and failed fencing is retried, at this interval.
        ("cluster-recheck-interval", "60s".to_owned()),
    ])
}

fn add_fencing(
    cib: &mut Cib,
    appliance: &Appliance,
    head: &HeadName,
    fencing: &Fencing,
    times: &Timeouts,
) {
    let mut devices: Vec<Primitive> = Vec::new();
    if let Some(machine) = &fencing.virtual_machine {
        if let Some(hypervisor) = appliance.hypervisors.get(&machine.hypervisor) {
            devices.push(virtual_machine_device(head, machine, hypervisor, times));
        }
    }
    if let Some(bmc) = &fencing.bmc {
        devices.push(bmc_device(head, bmc, times));
    }
    for outlet in &fencing.outlets {
        if let Some(pdu) = appliance.pdus.get(&outlet.pdu) {
            devices.push(outlet_device(head, outlet, pdu, times));
        }
    }
    // The delay belongs to the head, not to a device: only the device that is tried first is
    // delayed.
    if let Some(first) = devices.first_mut().filter(|_| fencing.delay_s > 0) {
        let delay = ("pcmk_delay_base".to_owned(), seconds(fencing.delay_s));
        first.parameters.extend([delay]);
    }
    // The consent is requested again for each level, because the first one may have failed long after its consent.
    // Pacemaker uses a device once in an operation, so each level has a device of its own for it.
    for (index, ids) in (1..).zip(fencing_levels(appliance, head, fencing)) {
        cib.topology.push(FencingLevel {
            head: head.clone(),
            index,
            devices: ids,
        });
        devices.extend(consent_device(appliance, head, index));
    }
    for device in &devices {
        cib.locations.push(Location {
            resource: device.id.clone(),
            head: head.clone(),
            score: Score::Never,
        });
    }
    cib.primitives.extend(devices);
}

/// A fence device with the attributes that all of them share.
fn device(id: String, kind: &str, times: &Timeouts, values: BTreeMap<String, String>) -> Primitive {
    let mut values = values;
    values.extend(pairs([
        ("pcmk_host_check", "static-list".to_owned()),
        ("pcmk_reboot_action", "off".to_owned()),
        ("pcmk_off_timeout", seconds(times.fence_s)),
    ]));
    Primitive {
        id,
        class: "stonith",
        provider: None,
        kind: kind.to_owned(),
        parameters: values,
        meta: pairs([
            ("migration-threshold", "1".to_owned()),
            ("failure-timeout", seconds(DEVICE_FORGOTTEN_S)),
        ]),
        operations: vec![Operation {
            name: "monitor",
            interval_s: times.fence_monitor_s,
            timeout_s: times.fence_s,
        }],
    }
}

/// The consent of the witness before `head` is powered off by the devices of a level, from 1; none where it is not
/// requested. Its time-out is longer than the agent's own.
fn consent_device(appliance: &Appliance, name: &HeadName, level: u32) -> Option<Primitive> {
    let head = appliance
        .heads
        .get(name)
        .filter(|_| appliance.has_consent())?;
    let has_shared_pools = !appliance.pools.values().all(Pool::has_legs);
    let values = pairs([
        ("head", name.to_string()),
        ("number", head.number.to_string()),
        ("shared_pools", u8::from(has_shared_pools).to_string()),
        ("pcmk_host_list", name.to_string()),
        // A refusal is final for this request.
        ("pcmk_off_retries", "1".to_owned()),
    ]);
    let id = consent_id(name, level);
    let mut device = device(id, FENCE_AGENT, &appliance.timeouts(), values);
    let timeout = ("pcmk_off_timeout".to_owned(), seconds(CONSENT_TIMEOUT_S));
    device.parameters.extend([timeout]);
    Some(device)
}

/// The password stays in its file: the agent runs this command on the head where it runs.
fn password_command(path: &std::path::Path) -> String {
    format!("cat {}", shell_quoted(&path.to_string_lossy()))
}

fn bmc_device(head: &HeadName, bmc: &Bmc, times: &Timeouts) -> Primitive {
    let privilege = match bmc.privilege {
        Privilege::Operator => "operator",
        Privilege::Administrator => "administrator",
    };
    let values = pairs([
        ("ip", bmc.address.to_string()),
        ("ipport", bmc.port.to_string()),
        ("username", bmc.user.clone()),
        ("password_script", password_command(&bmc.password_file)),
        ("lanplus", "1".to_owned()),
        ("cipher", bmc.cipher.to_string()),
        ("privlvl", privilege.to_owned()),
        // The agent checks that the power is off anyway; a delay of two seconds before the check
        // has no benefit.
        ("power_wait", "0".to_owned()),
        ("pcmk_host_list", head.to_string()),
    ]);
    device(format!("fence-{head}-bmc"), "fence_ipmilan", times, values)
}

/// The given parameters.
fn given<const N: usize>(optional: [(&str, Option<String>); N]) -> BTreeMap<String, String> {
    optional
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

fn outlet_device(head: &HeadName, outlet: &Outlet, pdu: &Pdu, times: &Timeouts) -> Primitive {
    let mut values = pdu.parameters.clone();
    let password_file = pdu.password_file.as_deref();
    values.extend(given([
        ("ip", Some(pdu.address.to_string())),
        ("pcmk_host_map", Some(format!("{head}:{}", outlet.outlet))),
        ("ipport", pdu.port.map(|port| port.to_string())),
        ("username", pdu.user.clone()),
        ("password_script", password_file.map(password_command)),
    ]));
    device(outlet_id(head, outlet), &pdu.agent, times, values)
}

fn virtual_machine_device(
    head: &HeadName,
    machine: &VirtualMachine,
    hypervisor: &Hypervisor,
    times: &Timeouts,
) -> Primitive {
    let mut values = hypervisor.parameters.clone();
    let password_file = hypervisor.password_file.as_deref();
    let key_file = hypervisor.key_file.as_deref();
    values.extend(given([
        ("ip", hypervisor.address.map(|address| address.to_string())),
        ("pcmk_host_map", Some(format!("{head}:{}", machine.machine))),
        ("ipport", hypervisor.port.map(|port| port.to_string())),
        ("username", hypervisor.user.clone()),
        ("password_script", password_file.map(password_command)),
        (
            "identity_file",
            key_file.map(|path| path.to_string_lossy().into_owned()),
        ),
    ]));
    device(virtual_machine_id(head), &hypervisor.agent, times, values)
}

fn add_pool(cib: &mut Cib, appliance: &Appliance, name: &PoolName, pool: &Pool, times: &Timeouts) {
    let id = pool_id(name);
    let forgotten_s = match pool.has_legs() {
        true => REFUSALS_FORGOTTEN_S,
        false => FAILURES_FORGOTTEN_S,
    };
    cib.primitives
        .push(pool_primitive(&id, name, times, forgotten_s));
    add_pool_constraints(cib, appliance, &id, pool);
    for address in &pool.addresses {
        let primitive = address_primitive(appliance, pool, address);
        // One rule each, not a group: all addresses are set in parallel.
        cib.colocations.push(Colocation {
            resource: primitive.id.clone(),
            with: id.clone(),
        });
        for action in [Ordered::Start, Ordered::Stop, Ordered::Move] {
            cib.orders.push(Order {
                action,
                first: id.clone(),
                then: primitive.id.clone(),
            });
        }
        cib.primitives.push(primitive);
    }
}

fn pool_primitive(id: &str, name: &PoolName, times: &Timeouts, forgotten_s: u32) -> Primitive {
    let operation = |name, interval_s, timeout_s| Operation {
        name,
        interval_s,
        timeout_s,
    };
    Primitive {
        id: id.to_owned(),
        class: "ocf",
        provider: Some("bulkhead"),
        kind: "pool".to_owned(),
        parameters: pairs([("pool", name.to_string())]),
        meta: pairs([
            ("migration-threshold", FAILURES_MAX.to_string()),
            ("failure-timeout", seconds(forgotten_s)),
            (PRIORITY.0, PRIORITY.1.to_owned()),
        ]),
        operations: vec![
            operation("start", 0, times.pool_start_s),
            operation("stop", 0, times.pool_stop_s),
            operation(
                "monitor",
                times.pool_monitor_s,
                times.pool_monitor_timeout_s,
            ),
        ],
    }
}

fn add_pool_constraints(cib: &mut Cib, appliance: &Appliance, id: &str, pool: &Pool) {
    let allowed = appliance.heads_of(pool);
    let has_desired = pool.home.is_some() || pool.heads.is_some();
    for (rank, head) in (0..).zip(&allowed) {
        if has_desired && appliance.heads.contains_key(head) {
            cib.locations.push(Location {
                resource: id.to_owned(),
                head: head.clone(),
                score: Score::Prefer((SCORE_HOME - SCORE_STEP * rank).max(1)),
            });
        }
    }
    for head in appliance
        .heads
        .keys()
        .filter(|head| !allowed.contains(head))
    {
        cib.locations.push(Location {
            resource: id.to_owned(),
            head: head.clone(),
            score: Score::Never,
        });
    }
}

/// The length of the prefix of `address`, in bits; none if its network has no such subnet.
pub fn address_prefix(appliance: &Appliance, address: &PoolAddress) -> Option<u8> {
    let network = appliance.networks.get(&address.network)?;
    let mut subnets = network.subnets.iter();
    let subnet = subnets.find(|subnet| subnet.contains(address.address))?;
    Some(subnet.prefix())
}

fn address_primitive(appliance: &Appliance, pool: &Pool, address: &PoolAddress) -> Primitive {
    let mut values = pairs([("address", address.address.to_string())]);
    let prefix = address_prefix(appliance, address);
    values.extend(prefix.map(|bits| ("prefix".to_owned(), bits.to_string())));
    let interface = common_interface(appliance, pool, address);
    values.extend(interface.map(|name| ("interface".to_owned(), name)));
    let operation = |name, interval_s| Operation {
        name,
        interval_s,
        timeout_s: ADDRESS_TIMEOUT_S,
    };
    Primitive {
        id: address_id(address.address),
        class: "ocf",
        provider: Some("bulkhead"),
        kind: "address".to_owned(),
        parameters: values,
        // A head that cannot run it is excluded.
        meta: pairs([
            ("migration-threshold", FAILURES_MAX.to_string()),
            ("failure-timeout", seconds(FAILURES_FORGOTTEN_S)),
            (PRIORITY.0, PRIORITY.1.to_owned()),
        ]),
        operations: vec![
            operation("start", 0),
            operation("stop", 0),
            operation("monitor", ADDRESS_MONITOR_S),
        ],
    }
}

/// Returns the interface of an address, where all heads use the same name. Otherwise the agent
/// finds it by the head's own address in the same network. Rules for single heads would start
/// faster, but Pacemaker 2 and 3 need them in different forms.
pub fn common_interface(
    appliance: &Appliance,
    pool: &Pool,
    address: &PoolAddress,
) -> Option<String> {
    let heads = appliance.heads_of(pool);
    let mut interfaces: BTreeSet<&String> = heads
        .iter()
        .filter_map(|name| appliance.heads.get(name)?.links.get(&address.network))
        .map(|link| &link.interface)
        .collect();
    let interface = interfaces.pop_first().cloned();
    interface.filter(|_| interfaces.is_empty())
}

fn nvpairs<'a>(
    prefix: &'a str,
    values: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = Element> + 'a {
    values.iter().map(move |(name, value)| {
        Element::new("nvpair")
            .with("id", format!("{prefix}-{name}"))
            .with("name", name)
            .with("value", value)
    })
}

impl Primitive {
    fn to_element(&self) -> Element {
        let mut element = Element::new("primitive")
            .with("id", &self.id)
            .with("class", self.class)
            .with("type", &self.kind);
        if let Some(provider) = self.provider {
            element = element.with("provider", provider);
        }
        let id = &self.id;
        if !self.meta.is_empty() {
            let prefix = format!("{id}-meta");
            element = element.containing(
                Element::new("meta_attributes")
                    .with("id", &prefix)
                    .containing_all(nvpairs(&prefix, &self.meta)),
            );
        }
        let prefix = format!("{id}-parameters");
        let parameters = Element::new("instance_attributes")
            .with("id", &prefix)
            .containing_all(nvpairs(&prefix, &self.parameters));
        let operations = self.operations.iter().map(|one| {
            Element::new("op")
                .with("id", format!("{id}-{}", one.name))
                .with("name", one.name)
                .with("interval", seconds(one.interval_s))
                .with("timeout", seconds(one.timeout_s))
        });
        element
            .containing(parameters)
            .containing(Element::new("operations").containing_all(operations))
    }
}

impl Cib {
    /// The `resources` section.
    pub fn resources(&self) -> Element {
        Element::new("resources").containing_all(self.primitives.iter().map(Primitive::to_element))
    }

    /// The `constraints` section.
    pub fn constraints(&self) -> Element {
        let locations = self.locations.iter().map(|one| {
            Element::new("rsc_location")
                .with("id", format!("place-{}-{}", one.resource, one.head))
                .with("rsc", &one.resource)
                .with("node", &one.head)
                .with("score", one.score)
        });
        let colocations = self.colocations.iter().map(|one| {
            Element::new("rsc_colocation")
                .with("id", format!("with-{}-{}", one.resource, one.with))
                .with("rsc", &one.resource)
                .with("with-rsc", &one.with)
                .with("score", "INFINITY")
        });
        let orders = self.orders.iter().map(Order::element);
        Element::new("constraints")
            .containing_all(locations)
            .containing_all(colocations)
            .containing_all(orders)
    }

    /// The `fencing-topology` section; none without fencing.
    pub fn fencing_topology(&self) -> Option<Element> {
        let levels: Vec<Element> = self
            .topology
            .iter()
            .map(|level| {
                Element::new("fencing-level")
                    .with("id", format!("fence-{}-level-{}", level.head, level.index))
                    .with("target", &level.head)
                    .with("index", level.index)
                    .with("devices", level.devices.join(","))
            })
            .collect();
        (!levels.is_empty()).then(|| Element::new("fencing-topology").containing_all(levels))
    }

    /// The `rsc_defaults` section.
    pub fn rsc_defaults(&self) -> Element {
        const ID: &str = "resource-defaults";
        Element::new("rsc_defaults").containing(
            Element::new("meta_attributes")
                .with("id", ID)
                .containing_all(nvpairs(ID, &self.defaults)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that powers nothing off must not be alone in a level: Pacemaker would take the head for fenced.
    #[test]
    fn the_consent_of_the_witness_comes_before_each_device_and_never_alone() {
        let text = include_str!("../../../../examples/legs-two-heads-witness.toml");
        let of = |text: &str| cib(&crate::parse(text).expect("well formed").appliance);
        let levels = of(text).topology;
        assert_eq!(levels.len(), 4);
        let mut used = std::collections::BTreeSet::new();
        for level in &levels {
            let consent = match level.index {
                1 => format!("fence-{}-consent", level.head),
                index => format!("fence-{}-consent-{index}", level.head),
            };
            assert_eq!(level.devices[0], consent);
            assert!(level.devices.len() > 1, "{level:?}");
            for device in &level.devices {
                assert!(used.insert(device.clone()), "{device} is in two levels");
            }
        }
        let primitives = of(text).primitives;
        let consent = primitives.iter().find(|one| one.kind == FENCE_AGENT);
        let consent = consent.expect("a device");
        let value = |name: &str| consent.parameters.get(name).map(String::as_str);
        assert_eq!(value("head"), Some("left"));
        assert_eq!(value("number"), Some("1"));
        assert_eq!(value("shared_pools"), Some("0"));
        assert_eq!(value("pcmk_off_timeout"), Some("45s"));
        let vote = "rule = \"witness\"\n[quorum.witness]\naddress = \"10.77.9.31\"";
        let voting = of(&text.replace("rule = \"two-node\"", vote));
        let alone = of(include_str!("../../../../examples/legs-two-heads.toml"));
        for cib in [voting, alone] {
            assert!(cib.primitives.iter().all(|one| one.kind != FENCE_AGENT));
            assert!(
                cib.topology
                    .iter()
                    .all(|level| !level.devices[0].contains("consent"))
            );
        }
    }

    #[test]
    fn pool_is_derived_from_the_resource_name() {
        for name in ["tank", "a_b", "a__b_", "a.b-c:d", "two words", "t_5f_"] {
            let pool: PoolName = name.parse().expect("a good name");
            assert_eq!(pool_of(&pool_id(&pool)), Some(pool), "{name}");
        }
        for other in [
            "address-10.0.0.1",
            "tank",
            "pool-",
            "pool-a_b",
            "pool-a_zz_b",
        ] {
            assert_eq!(pool_of(other), None, "{other}");
        }
    }
}
