//! Settings of a host that affect a pool: memory, processors, queues of disks, rings of interfaces, its clock. The crate
//! `cluster` reads them there, and transfers them as one line of JSON.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Settings of a host. A setting that the host does not have is absent, and yields no finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostTuning {
    /// `vm.zone_reclaim_mode`.
    pub zone_reclaim_mode: Option<u64>,
    /// `kernel.numa_balancing`.
    pub numa_balancing: Option<u64>,
    /// Nodes with memory of their own.
    pub numa_nodes: Option<u64>,
    /// Size of all swap, in KiB.
    pub swap_kib: Option<u64>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// The selected mode of transparent huge pages.
    pub huge_pages: Option<String>,
    /// `kernel.core_pattern`.
    pub core_pattern: Option<String>,
    /// Whether its clock is synchronised.
    pub is_clock_synchronised: Option<bool>,
    /// Its processors.
    pub processors: Option<u64>,
    /// Whether irqbalance(1) runs.
    pub has_irqbalance: Option<bool>,
    /// The time to leave the deepest idle state that is permitted, in microseconds.
    pub idle_exit_us: Option<u64>,
    /// Servers of pools, by pool, and the leg-server by an empty name.
    pub servers: BTreeMap<String, ServerProcess>,
    /// Queues of the disks, by the path in the file.
    pub queues: BTreeMap<PathBuf, DiskQueue>,
    /// Rings of the interfaces, by interface.
    pub rings: BTreeMap<String, Ring>,
    /// Packets to the addresses of the other heads.
    pub paths: BTreeMap<IpAddr, PathProbe>,
}

/// A process of Bulkhead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerProcess {
    /// Its memory in swap, in KiB.
    pub swapped_kib: u64,
    /// Its soft limit of a core dump, such as `0` or `unlimited`.
    pub core_limit: String,
}

/// The queue of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskQueue {
    /// The kernel's name, such as `sda`.
    pub device: String,
    /// Largest request, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// Largest request that its controller can process, in KiB.
    pub max_hw_sectors_kb: Option<u64>,
    /// Whether it has a write cache that needs flushes.
    pub has_write_cache: Option<bool>,
    /// The selected scheduler.
    pub scheduler: Option<String>,
}

/// The receive ring of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Its packets.
    pub received: u64,
    /// The most that it can have.
    pub received_max: u64,
}

/// The result of packets of two sizes to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathProbe {
    /// The size of the large ones, with the headers of IP, in bytes.
    pub mtu: u32,
    /// Whether a small one was returned.
    pub small_returns: bool,
    /// Whether a large one that must not be split was returned.
    pub large_returns: bool,
}

/// The headers of an echo request, in bytes: IP and ICMP.
pub const fn echo_headers(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}
