//! Reads the settings of this host that `appliance check` compares: files below a root directory, which tests replace,
//! and the output of tools. A file, tool or setting that is missing yields nothing. Lines of the input name disks by
//! their paths, interfaces as `ring INTERFACE`, and addresses of heads as `path ADDRESS MTU`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use appliance::tuning::{DiskQueue, HostTuning, PathProbe, Ring, ServerProcess, echo_headers};
use rustix::fs::OFlags;
use units::PoolName;

use crate::process::{Invocation, run};

/// Prefix of a line with an interface.
pub const RING_REQUEST: &str = "ring ";
/// Prefix of a line with an address of a head and the size of its packets.
pub const PATH_REQUEST: &str = "path ";
/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 10;
/// The longest text that is reported, in characters.
const TEXT_CHARS_MAX: usize = 120;
/// Most processes that are considered.
const PROCESSES_MAX: usize = 100_000;
/// Most servers, disks, interfaces or addresses that are reported.
const ENTRIES_MAX: usize = 256;
/// Most idle states of a processor; the kernel has ten.
const IDLE_STATES_MAX: usize = 32;
/// Time limit of a tool.
const TOOL_TIME_LIMIT: Duration = Duration::from_secs(4);
/// Most packets of a path that are probed at the same time.
const PROBES_MAX: usize = 32;

/// Returns the settings below `root`, which is `/` except in tests.
pub fn read(root: &Path, input: &str) -> HostTuning {
    let number = |path: &str| read_number(&root.join(path));
    let mut tuning = HostTuning {
        zone_reclaim_mode: number("proc/sys/vm/zone_reclaim_mode"),
        numa_balancing: number("proc/sys/kernel/numa_balancing"),
        numa_nodes: numbered(&root.join("sys/devices/system/node"), "node"),
        swap_kib: field(&text(&root.join("proc/meminfo")), "SwapTotal:"),
        swappiness: number("proc/sys/vm/swappiness"),
        huge_pages: selected(&text(
            &root.join("sys/kernel/mm/transparent_hugepage/enabled"),
        )),
        core_pattern: line(&text(&root.join("proc/sys/kernel/core_pattern"))),
        processors: numbered(&root.join("sys/devices/system/cpu"), "cpu"),
        idle_exit_us: idle_exit_us(root),
        ..HostTuning::default()
    };
    processes(root, &mut tuning);
    for disk in input
        .lines()
        .filter(|line| line.starts_with('/'))
        .take(ENTRIES_MAX)
    {
        if let Some(queue) = queue(root, Path::new(disk)) {
            tuning.queues.insert(PathBuf::from(disk), queue);
        }
    }
    tuning
}

/// Adds the output of tools.
pub fn add_tools(tuning: &mut HostTuning, input: &str) {
    let rings = input
        .lines()
        .filter_map(|line| line.strip_prefix(RING_REQUEST));
    for interface in rings
        .take(ENTRIES_MAX)
        .filter(|name| !name.starts_with('-'))
    {
        let found = printed("ethtool", &["-g", interface]);
        if let Some(found) = found.and_then(|text| ring(&text)) {
            tuning.rings.insert(interface.to_owned(), found);
        }
    }
    let arguments = ["show", "--property=NTPSynchronized", "--value"];
    tuning.is_clock_synchronised =
        match printed("timedatectl", &arguments).as_deref().map(str::trim) {
            Some("yes") => Some(true),
            Some("no") => Some(false),
            _ => None,
        };
    let paths: Vec<(IpAddr, u32)> = input
        .lines()
        .filter_map(path_request)
        .take(ENTRIES_MAX)
        .collect();
    for some in paths.chunks(PROBES_MAX) {
        tuning.paths.extend(probes(some));
    }
}

fn path_request(line: &str) -> Option<(IpAddr, u32)> {
    let (address, mtu) = line.strip_prefix(PATH_REQUEST)?.split_once(' ')?;
    Some((address.parse().ok()?, mtu.parse().ok()?))
}

fn probes(paths: &[(IpAddr, u32)]) -> BTreeMap<IpAddr, PathProbe> {
    let found = thread::scope(|scope| {
        let asked = paths.iter().map(|(address, mtu)| {
            let large = mtu.saturating_sub(echo_headers(*address));
            let [small, large] =
                [16, large].map(|size| scope.spawn(move || returns(*address, size)));
            (address, mtu, small, large)
        });
        let asked: Vec<_> = asked.collect();
        let found = asked
            .into_iter()
            .filter_map(|(address, mtu, small, large)| {
                let probe = PathProbe {
                    mtu: *mtu,
                    small_returns: small.join().ok()??,
                    large_returns: large.join().ok()??,
                };
                Some((*address, probe))
            });
        found.collect::<Vec<_>>()
    });
    found.into_iter().collect()
}

/// Whether an echo request with `size` bytes, which no router may split, is returned. `None` without ping(8).
fn returns(address: IpAddr, size: u32) -> Option<bool> {
    let (address, size) = (address.to_string(), size.to_string());
    let arguments = [
        "-n", "-q", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1", "-w", "2", "-s", &size, &address,
    ];
    let invocation = Invocation::new("ping", &arguments).within(TOOL_TIME_LIMIT);
    match run(&invocation).ok()?.code {
        0 => Some(true),
        // 2 is also a packet that is larger than the interface permits, of which another finding informs.
        1 | 2 => Some(false),
        _ => None,
    }
}

fn printed(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = run(&Invocation::new(tool, arguments).within(TOOL_TIME_LIMIT)).ok()?;
    (output.code == 0).then(|| {
        output
            .text()
            .chars()
            .take(FILE_BYTES_MAX as usize)
            .collect()
    })
}

/// The text of a file; empty if it cannot be read.
fn text(path: &Path) -> String {
    let bytes = bytes(path);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe instead of a file must not block.
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    if let Ok(file) = options.open(path) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    bytes
}

/// The first line, as short plain text; `None` if it is empty.
fn line(text: &str) -> Option<String> {
    let line = text.lines().next()?.trim();
    let line: String = line
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .take(TEXT_CHARS_MAX)
        .collect();
    (!line.is_empty()).then_some(line)
}

fn read_number(path: &Path) -> Option<u64> {
    line(&text(path))?.parse().ok()
}

/// The value in brackets: `always [madvise] never`.
fn selected(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    line(rest.split_once(']')?.0)
}

/// The number in a line such as `SwapTotal:   12 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// How many entries of a directory have this name with a number; `None` if there are none.
fn numbered(directory: &Path, name: &str) -> Option<u64> {
    let entries = fs::read_dir(directory).ok()?.take(PROCESSES_MAX).flatten();
    let is_one = |entry: &fs::DirEntry| {
        let entry = entry.file_name();
        let number = entry.to_str().and_then(|entry| entry.strip_prefix(name));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let count = entries.filter(is_one).count() as u64;
    (count > 0).then_some(count)
}

/// The longest delay of an idle state that is permitted, also by the requests in `/dev/cpu_dma_latency`.
fn idle_exit_us(root: &Path) -> Option<u64> {
    let permitted_us = bytes(&root.join("dev/cpu_dma_latency"));
    let permitted_us = <[u8; 4]>::try_from(permitted_us.as_slice()).map(i32::from_le_bytes);
    let permitted_us = permitted_us.ok().and_then(|time| u64::try_from(time).ok());
    let states = root.join("sys/devices/system/cpu/cpu0/cpuidle");
    let states = (0..IDLE_STATES_MAX).map(|number| states.join(format!("state{number}")));
    let enabled = states.filter(|state| read_number(&state.join("disable")).unwrap_or(0) == 0);
    let delays = enabled.filter_map(|state| read_number(&state.join("latency")));
    delays
        .filter(|delay| *delay <= permitted_us.unwrap_or(u64::MAX))
        .max()
}

/// Finds servers, and irqbalance(1).
fn processes(root: &Path, tuning: &mut HostTuning) {
    let Ok(entries) = fs::read_dir(root.join("proc")) else {
        return;
    };
    for entry in entries.take(PROCESSES_MAX).flatten() {
        let is_process = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        if !is_process {
            continue;
        }
        let process = entry.path();
        let Some(name) = line(&text(&process.join("comm"))) else {
            continue;
        };
        let has_irqbalance = tuning.has_irqbalance.get_or_insert(false);
        *has_irqbalance |= name == "irqbalance";
        let Some(server) = server_of(&text(&process.join("cmdline"))) else {
            continue;
        };
        if tuning.servers.len() < ENTRIES_MAX {
            let status = text(&process.join("status"));
            let limits = text(&process.join("limits"));
            let limit = limits
                .lines()
                .find_map(|line| line.strip_prefix("Max core file size"));
            let limit = limit.and_then(|limit| limit.split_whitespace().next());
            let found = ServerProcess {
                swapped_kib: field(&status, "VmSwap:").unwrap_or(0),
                core_limit: limit.and_then(line).unwrap_or_default(),
            };
            tuning.servers.insert(server, found);
        }
    }
}

/// The pool of a server, or an empty name for a leg-server, from its command line with NUL between the words.
fn server_of(command: &str) -> Option<String> {
    let mut words = command.split('\0');
    let program = words.next()?;
    if program.rsplit('/').next()? != "bulkhead" {
        return None;
    }
    match words.find(|word| matches!(*word, "pool-server" | "leg-server"))? {
        "leg-server" => Some(String::new()),
        _ => words
            .next()?
            .parse::<PoolName>()
            .ok()
            .map(|pool| pool.to_string()),
    }
}

/// The queue of a disk, or of the disk of a partition.
fn queue(root: &Path, disk: &Path) -> Option<DiskQueue> {
    let below = root.join(disk.strip_prefix("/").ok()?);
    let device = fs::canonicalize(below).ok()?;
    let devices = fs::canonicalize(root.join("dev")).ok()?;
    // The disks of a test are files.
    if !device.starts_with(devices) {
        return None;
    }
    let name = device.file_name()?.to_str()?;
    let node = fs::canonicalize(root.join("sys/class/block").join(name)).ok()?;
    let node = match node.join("queue").is_dir() {
        true => node,
        false => node.parent()?.to_owned(),
    };
    let queue = node.join("queue");
    let write_cache = text(&queue.join("write_cache"));
    let scheduler = text(&queue.join("scheduler"));
    queue.is_dir().then(|| DiskQueue {
        device: line(&node.file_name().unwrap_or_default().to_string_lossy()).unwrap_or_default(),
        max_sectors_kb: read_number(&queue.join("max_sectors_kb")),
        max_hw_sectors_kb: read_number(&queue.join("max_hw_sectors_kb")),
        has_write_cache: line(&write_cache).map(|mode| mode == "write back"),
        // A device without a choice prints `none`.
        scheduler: selected(&scheduler).or_else(|| line(&scheduler)),
    })
}

/// Parses `ethtool -g`: the first `RX:` is the maximum, the second one the present value.
fn ring(text: &str) -> Option<Ring> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("RX:"));
    let mut values = lines.map(|value| value.trim().parse().ok());
    let (received_max, received) = (values.next()??, values.next()??);
    Some(Ring {
        received,
        received_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, contents: impl AsRef<[u8]>) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, contents).expect("written");
    }

    /// A host with two disks, of which one has a partition.
    fn host() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        let root = folder.path();
        for (path, contents) in [
            ("proc/sys/vm/zone_reclaim_mode", "1\n"),
            ("proc/sys/kernel/numa_balancing", "1\n"),
            (
                "proc/sys/kernel/core_pattern",
                "|/usr/share/apport/apport %p\n",
            ),
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/meminfo", "MemTotal:  16 kB\nSwapTotal:     977 kB\n"),
            ("proc/1/comm", "systemd\n"),
            ("proc/1/cmdline", "/sbin/init\0"),
            ("proc/70/comm", "irqbalance\n"),
            ("proc/80/comm", "bulkhead\n"),
            (
                "proc/80/cmdline",
                "/usr/bin/bulkhead\0pool-server\0tank\0--nbd\0x\0",
            ),
            ("proc/80/status", "Name:\tbulkhead\nVmSwap:\t   20480 kB\n"),
            (
                "proc/80/limits",
                "Limit  Soft Limit\nMax core file size        unlimited    unlimited    bytes\n",
            ),
            ("proc/81/comm", "bulkhead\n"),
            ("proc/81/cmdline", "/usr/bin/bulkhead\0leg-server\0"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise never\n",
            ),
            ("sys/devices/system/node/node0/x", ""),
            ("sys/devices/system/node/node1/x", ""),
            ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
            ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
            (
                "sys/devices/system/cpu/cpu0/cpuidle/state2/latency",
                "133\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0\n"),
            (
                "sys/devices/system/cpu/cpu0/cpuidle/state3/latency",
                "900\n",
            ),
            ("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", "1\n"),
            ("sys/devices/pci/block/sda/queue/max_sectors_kb", "512\n"),
            (
                "sys/devices/pci/block/sda/queue/max_hw_sectors_kb",
                "4096\n",
            ),
            (
                "sys/devices/pci/block/sda/queue/write_cache",
                "write back\n",
            ),
            ("sys/devices/pci/block/sda/queue/scheduler", "none [bfq]\n"),
            ("sys/devices/pci/block/sda/sda1/size", "8\n"),
            ("dev/sda", ""),
            ("dev/sda1", ""),
            ("srv/file", ""),
        ] {
            write(root, path, contents);
        }
        let link = |target: &str, path: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::os::unix::fs::symlink(target, path).expect("linked");
        };
        link("../../devices/pci/block/sda", "sys/class/block/sda");
        link("../../devices/pci/block/sda/sda1", "sys/class/block/sda1");
        link("../../sda1", "dev/disk/by-id/one");
        folder
    }

    #[test]
    fn settings_of_a_host_are_read_below_a_root() {
        let folder = host();
        let input = "ring eth0\n/dev/disk/by-id/one\n/srv/file\n/dev/missing\npath 10.0.0.1 9000\n";
        let found = read(folder.path(), input);
        let queue = DiskQueue {
            device: "sda".to_owned(),
            max_sectors_kb: Some(512),
            max_hw_sectors_kb: Some(4_096),
            has_write_cache: Some(true),
            scheduler: Some("bfq".to_owned()),
        };
        let tank = ServerProcess {
            swapped_kib: 20_480,
            core_limit: "unlimited".to_owned(),
        };
        let wanted = HostTuning {
            zone_reclaim_mode: Some(1),
            numa_balancing: Some(1),
            numa_nodes: Some(2),
            swap_kib: Some(977),
            swappiness: Some(60),
            huge_pages: Some("always".to_owned()),
            core_pattern: Some("|/usr/share/apport/apport %p".to_owned()),
            processors: Some(1),
            has_irqbalance: Some(true),
            idle_exit_us: Some(133),
            servers: [
                ("tank".to_owned(), tank),
                (String::new(), ServerProcess::default()),
            ]
            .into(),
            queues: [(PathBuf::from("/dev/disk/by-id/one"), queue)].into(),
            ..HostTuning::default()
        };
        assert_eq!(found, wanted);
        // A request for low latency excludes deep states.
        write(folder.path(), "dev/cpu_dma_latency", 20_i32.to_le_bytes());
        assert_eq!(read(folder.path(), "").idle_exit_us, Some(2));
    }

    #[test]
    fn host_without_these_files_has_no_settings() {
        let folder = tempfile::tempdir().expect("a directory");
        assert_eq!(read(folder.path(), "/dev/sda\n"), HostTuning::default());
    }

    /// Contents of any size and form yield bounded text, and a pipe does not block.
    #[test]
    fn hostile_contents_are_bounded() {
        let folder = host();
        let root = folder.path();
        let noise = [0xff, 0x1b, b'[', b'x', 0].repeat(1 << 18);
        for path in [
            "proc/sys/vm/swappiness",
            "proc/sys/kernel/core_pattern",
            "proc/meminfo",
            "proc/80/limits",
            "proc/80/status",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "sys/devices/pci/block/sda/queue/scheduler",
            "sys/devices/pci/block/sda/queue/max_sectors_kb",
            "dev/cpu_dma_latency",
        ] {
            write(root, path, &noise);
        }
        write(root, "proc/90/comm", "bulkhead\n");
        write(
            root,
            "proc/90/cmdline",
            "bulkhead\0pool-server\0\x1b[2J\n\0",
        );
        let pipe = root.join("proc/sys/vm/zone_reclaim_mode");
        fs::remove_file(&pipe).expect("removed");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let found = read(root, "/dev/disk/by-id/one\n");
        assert_eq!(
            (found.swappiness, found.swap_kib, found.zone_reclaim_mode),
            (None, None, None)
        );
        let pattern = found.core_pattern.clone().expect("a line");
        assert!(
            pattern.chars().count() <= TEXT_CHARS_MAX && !pattern.contains('\x1b'),
            "{pattern}"
        );
        assert_eq!(found.servers.len(), 2, "{:?}", found.servers);
        let sent = serde_json::to_string(&found).expect("plain data");
        assert!(sent.len() < 4_096 && !sent.contains(['\t', '\n']), "{sent}");
    }

    #[test]
    fn rings_are_parsed_as_ethtool_prints_them() {
        let text = "Ring parameters for eno1:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n\
                    Current hardware settings:\nRX:\t\t256\nRX Mini:\tn/a\nTX:\t\t256\n";
        let wanted = Ring {
            received: 256,
            received_max: 4_096,
        };
        assert_eq!(ring(text), Some(wanted));
        assert_eq!(ring("RX:\t\tn/a\nRX:\t\tn/a\n"), None);
        assert_eq!(ring(""), None);
    }

    /// Packets of the loopback interface are 65,536 bytes at most.
    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
    fn large_packets_that_do_not_pass_differ_from_a_silent_host() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        if returns(loopback, 16) != Some(true) {
            eprintln!("skipped: ping is missing, or may not send");
            return;
        }
        let mut tuning = HostTuning::default();
        add_tools(
            &mut tuning,
            "path 127.0.0.1 9000\npath 127.0.0.2 65600\npath x 1\nring -x\n",
        );
        let probe = |mtu, large_returns| PathProbe {
            mtu,
            small_returns: true,
            large_returns,
        };
        let wanted = [
            (loopback, probe(9_000, true)),
            (IpAddr::from([127, 0, 0, 2]), probe(65_600, false)),
        ];
        assert_eq!(tuning.paths, wanted.into());
    }
}
