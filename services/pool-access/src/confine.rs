//! Drops privileges that a server never needs, so that an attacker with a parser exploit gains little. A systemd unit
//! does the same and more, but Pacemaker starts servers without one.
//!
//! Called while the process is single-threaded, so that all later threads inherit the restrictions. A restriction that
//! the kernel does not support is logged, and the server continues.

mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use nix::libc;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::engines;

/// The OOM score adjustment of this process: storage should be among the last processes to be
/// killed.
const OOM_SCORE_ADJUST: &str = "-500";
/// Newer than required here; older kernels apply the part that they support.
const LANDLOCK: ABI = ABI::V3;
/// The first with scopes: signals, and abstract sockets.
const LANDLOCK_SCOPES: ABI = ABI::V6;
/// Where the service manager's socket is named.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// System calls that neither a server nor its children use: each inspects or changes other processes, or the kernel.
const NEVER: [libc::c_long; 17] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_acct,
];
/// System calls that a pool server does not use in addition: mounts, namespaces, the clock, the
/// host.
const NEVER_BY_A_POOL_SERVER: [libc::c_long; 40] = [
    // Each can be replaced by a refused call, acts on other processes, or observes them.
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_name_to_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_quotactl_fd,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_mknodat,
    libc::SYS_personality,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
];
/// New namespaces. In a user namespace of its own a process has every capability, and access to kernel code that is not
/// intended for it.
const NEW_NAME_SPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;
/// The bit of system calls of the x32 ABI, which a kernel can support in addition to ours: the same calls with other
/// numbers.
#[cfg(target_arch = "x86_64")]
const X32: libc::c_long = 1 << 30;
/// Numbers of calls that only the x32 ABI has, such as its own `ptrace`.
#[cfg(target_arch = "x86_64")]
const ONLY_X32: std::ops::RangeInclusive<libc::c_long> = 512..=547;
/// System calls of this architecture only, such as for I/O ports, and the creation of device files.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: [libc::c_long; 5] = [
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_mknod,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: [libc::c_long; 0] = [];
/// Calls by which root's processes signal or limit each other, and the argument with the process. Only this one is left.
const ON_PROCESSES: [libc::c_long; 5] = [
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_prlimit64,
];
/// The bits of a socket's type; the rest are flags.
const SOCKET_KINDS: u64 = 0xf;
/// The start of other programs.
const PROGRAMS: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];

/// Root capabilities that neither a head nor any of its commands needs.
const NEVER_BY_A_HEAD: CapabilitySet = CapabilitySet::SYS_MODULE
    .union(CapabilitySet::SYS_TTY_CONFIG)
    .union(CapabilitySet::MAC_OVERRIDE)
    .union(CapabilitySet::MAC_ADMIN)
    .union(CapabilitySet::AUDIT_CONTROL)
    .union(CapabilitySet::AUDIT_READ)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::CHECKPOINT_RESTORE);

/// The later needs of a pool server.
pub struct Needs {
    /// All present and future devices of the pool are below `/dev`.
    pub only_devices: bool,
    /// Disks might be reserved, which requires CAP_SYS_ADMIN.
    pub reservations: bool,
    /// Connections to sockets of local services are needed, for example for user names or by a key binary.
    pub local_services: bool,
    /// Key programs might be started; their own needs are not known.
    pub programs: bool,
    /// Whether it may write a core dump: the result of [`prepare_core_dump`].
    pub core_dump: bool,
    /// Folders that it writes in besides.
    pub folders: Vec<PathBuf>,
    /// Files and folders with secrets of the heads and the cluster.
    pub secrets: Vec<PathBuf>,
}

impl Needs {
    /// The folders in which it may have sockets; none for all.
    pub fn socket_directories(&self) -> Option<Vec<PathBuf>> {
        let is_limited = self.only_devices && !self.programs;
        is_limited.then(|| self.folders.clone())
    }
}

/// Protections that a test leaves out, to verify the remaining ones or to start the attack script.
#[derive(Clone, Copy, Default)]
struct Without {
    landlock: bool,
    no_programs: bool,
}

/// With this variable in its environment, a server may write a core dump: of its stacks and global variables, or with
/// [`ALL_MEMORY`] of all of its memory.
const CORE_DUMPS: &str = "BULKHEAD_CORE_DUMPS";
/// The value for a core dump with the cache of reads, data of clients, and secrets.
const ALL_MEMORY: &str = "all";
/// The largest core dump, in bytes. With 0 the kernel would still start the program of `kernel.core_pattern`, and the dead
/// process would hold its disks and ports until that has read all of its memory.
const CORE_BYTES_MAX: u64 = 1;

/// Excludes the memory of this process from a core dump, where one is requested. Returns whether the process may write
/// one. Called before the process has threads.
pub fn prepare_core_dump() -> bool {
    let Some(requested) = std::env::var_os(CORE_DUMPS) else {
        return false;
    };
    if requested == ALL_MEMORY {
        return true;
    }
    let mut excluded = engines::all()
        .iter()
        .map(|engine| engine.exclude_memory_from_cores());
    match excluded.find_map(Result::err) {
        None => true,
        Some(error) => {
            tracing::warn!(
                error,
                "no core dump will be written: it would contain data of clients"
            );
            false
        }
    }
}

/// Sets the limit of core dumps of this process. Returns whether it may write one.
fn limit_core_dumps(is_wanted: bool) -> bool {
    let before = getrlimit(Resource::Core);
    let current = match is_wanted {
        true => before.maximum,
        false => Some(CORE_BYTES_MAX.min(before.maximum.unwrap_or(u64::MAX))),
    };
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current, ..before }) {
        tracing::warn!(%error, "the size of core dumps is not limited");
    }
    is_wanted
}

/// Confines a pool server. Returns the protections that are not available.
pub fn pool_server(needs: &Needs) -> Vec<&'static str> {
    pool_server_without(needs, Without::default())
}

fn pool_server_without(needs: &Needs, without: Without) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let adjusted = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUST);
    if let Err(error) = adjusted {
        tracing::debug!(%error, "the kernel kills it as it does any other when memory is short");
    }
    let writes_below = (needs.only_devices && !needs.programs).then_some(&*needs.folders);
    // A unit of systemd has no right to mount, and has done as much.
    if may_mount() {
        let view = view::View {
            written: writes_below,
            secrets: &needs.secrets,
            of_the_machine: !needs.programs,
        };
        note(
            &mut missing,
            "view of the file systems",
            view::narrow(&view),
        );
    }
    note(&mut missing, "capabilities", keep(kept(needs)));
    note(&mut missing, "no_new_privs", no_new_privileges());
    let may_dump = limit_core_dumps(needs.core_dump);
    if rustix::process::getuid().is_root() && !may_dump {
        // Other processes of root with as few rights, such as servers of other pools, must not read or write its memory.
        let hidden = rustix::process::DumpableBehavior::NotDumpable;
        let hidden = rustix::process::set_dumpable_behavior(hidden);
        note(
            &mut missing,
            "memory for itself",
            hidden.map_err(|error| error.to_string()),
        );
    }
    match writes_below {
        _ if without.landlock || needs.programs => {}
        Some(folders) => note(&mut missing, "Landlock", write_only_below(folders)),
        None => {
            if let Err(error) = scoped() {
                tracing::debug!(error, "other processes can be signalled");
            }
        }
    }
    let mut never = [&NEVER[..], &NEVER_BY_A_POOL_SERVER, &NEVER_HERE].concat();
    if !needs.programs && !without.no_programs {
        never.extend(PROGRAMS);
    }
    note(&mut missing, "seccomp", forbid(&never));
    note(&mut missing, "seccomp of name spaces", forbid_name_spaces());
    if !needs.programs {
        note(
            &mut missing,
            "seccomp of processes",
            forbid_other_processes(),
        );
    }
    let sockets = forbid_sockets(needs.local_services || needs.programs);
    note(&mut missing, "seccomp of sockets", sockets);
    missing
}

/// Confines the process that reads keys for a pool server. It retains the access of root to files.
pub fn key_keeper() {
    let mut missing = Vec::new();
    note(&mut missing, "capabilities", keep(CapabilitySet::empty()));
    note(&mut missing, "no_new_privs", no_new_privileges());
    let mut never = [&NEVER[..], &NEVER_BY_A_POOL_SERVER, &NEVER_HERE].concat();
    never.extend(PROGRAMS);
    note(&mut missing, "seccomp", forbid(&never));
    let sockets = forbid_families(&[libc::AF_UNIX]);
    note(&mut missing, "seccomp of sockets", sockets);
    note(&mut missing, "seccomp of name spaces", forbid_name_spaces());
}

fn may_mount() -> bool {
    let own = capabilities(None);
    own.is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Confines a head, which still runs the commands of an administrator.
pub fn head() {
    let mut missing = Vec::new();
    let all = CapabilitySet::all();
    note(
        &mut missing,
        "capabilities",
        keep(all.difference(NEVER_BY_A_HEAD)),
    );
    note(&mut missing, "no_new_privs", no_new_privileges());
    note(&mut missing, "seccomp", forbid(&NEVER));
}

fn note(missing: &mut Vec<&'static str>, what: &'static str, done: Result<(), String>) {
    if let Err(error) = done {
        tracing::warn!(
            error,
            what,
            "this protection is not available here: continues without it"
        );
        missing.push(what);
    }
}

fn no_new_privileges() -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| error.to_string())
}

/// The root capabilities that are retained.
fn kept(needs: &Needs) -> CapabilitySet {
    // To end connections of clients that an earlier server left; to listen on any port.
    let mut kept = CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE;
    if !needs.only_devices {
        // Files can belong to any user.
        kept |= CapabilitySet::DAC_OVERRIDE;
    }
    if needs.reservations {
        // Kernels before 6.6 require it, and NVMe pass-through commands always do.
        kept |= CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO;
    }
    kept
}

/// Drops all other capabilities, for this process and its children.
fn keep(kept: CapabilitySet) -> Result<(), String> {
    let failed = |error: rustix::io::Errno| error.to_string();
    let own = capabilities(None).map_err(failed)?;
    if own.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(kept).iter() {
            match remove_capability_from_bounding_set(capability) {
                // The kernel does not know it.
                Err(rustix::io::Errno::INVAL) | Ok(()) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    let sets = CapabilitySets {
        effective: own.effective & kept,
        permitted: own.permitted & kept,
        inheritable: own.inheritable & kept,
    };
    set_capabilities(None, sets).map_err(failed)
}

/// Files are written, made and removed below these folders and `/dev` only.
fn write_only_below(folders: &[PathBuf]) -> Result<(), String> {
    let failed = |error: landlock::RulesetError| error.to_string();
    let writes = AccessFs::from_write(LANDLOCK);
    let places = folders.iter().map(PathBuf::as_path);
    let places = places.chain([std::path::Path::new("/dev")]);
    let status = Ruleset::default()
        .handle_access(writes)
        .and_then(|rules| rules.scope(scopes()))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(places, writes)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel has none".to_owned()),
        _ => Ok(()),
    }
}

/// Blocks signals and abstract sockets to outside processes, if the kernel supports that.
fn scoped() -> Result<(), String> {
    let status = Ruleset::default()
        .scope(scopes())
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("this kernel has none".to_owned()),
        _ => Ok(()),
    }
}

fn scopes() -> landlock::BitFlags<Scope> {
    let all = Scope::from_all(LANDLOCK_SCOPES);
    let notify = std::env::var(NOTIFY_SOCKET).unwrap_or_default();
    match notify.starts_with('@') {
        // A service manager outside listens at an abstract socket.
        true => all & !Scope::AbstractUnixSocket,
        false => all,
    }
}

/// System calls that are refused from now on, as if the right to them were missing.
fn forbid(calls: &[libc::c_long]) -> Result<(), String> {
    let calls = calls.iter().copied();
    #[cfg(target_arch = "x86_64")]
    let calls = {
        let by_x32 = calls.clone().chain(ONLY_X32).map(|call| call | X32);
        calls.chain(by_x32).collect::<Vec<_>>().into_iter()
    };
    apply(calls.map(|call| (call, Vec::new())).collect(), libc::EPERM)
}

/// Blocks new namespaces for threads and processes. Filters cannot inspect the arguments of `clone3`, so it returns
/// ENOSYS and the C library uses `clone`.
fn forbid_name_spaces() -> Result<(), String> {
    apply(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        libc::ENOSYS,
    )?;
    let mut rules = Vec::new();
    for bit in (0..u64::BITS)
        .map(|bit| 1 << bit)
        .filter(|bit| NEW_NAME_SPACES & bit != 0)
    {
        let asked = SeccompCmpOp::MaskedEq(bit);
        let rule = SeccompCondition::new(0, SeccompCmpArgLen::Qword, asked, bit)
            .and_then(|condition| SeccompRule::new(vec![condition]));
        rules.push(rule.map_err(|error| error.to_string())?);
    }
    apply(BTreeMap::from([(libc::SYS_clone, rules)]), libc::EPERM)
}

/// Processes of root may signal each other without any capability.
fn forbid_other_processes() -> Result<(), String> {
    let own = u64::from(std::process::id());
    let mut rules = BTreeMap::new();
    for call in ON_PROCESSES {
        let differs = |value| {
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
                .map_err(|error| error.to_string())
        };
        // `prlimit64` of 0 is the caller; `kill` of 0 would be its group.
        let mut conditions = vec![differs(own)?];
        if call == libc::SYS_prlimit64 {
            conditions.push(differs(0)?);
        }
        let rule = SeccompRule::new(conditions).map_err(|error| error.to_string())?;
        rules.insert(call, vec![rule]);
    }
    apply(rules, libc::EPERM)
}

/// Blocks new io_urings in all threads, because a ring performs calls without the system call filters. An existing ring
/// stays usable.
pub fn no_more_rings() {
    let done = filter(
        BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]),
        libc::EPERM,
    );
    let done = done.and_then(|filter| {
        seccompiler::apply_filter_all_threads(&filter).map_err(|error| error.to_string())
    });
    note(&mut Vec::new(), "seccomp of io_uring", done);
}

/// Permits sockets of these families only. Service managers, Pacemaker and servers of other pools accept stream
/// connections: unless `local_services`, connections to them are blocked. Logs and the service manager receive
/// datagrams.
fn forbid_sockets(local_services: bool) -> Result<(), String> {
    let families = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    forbid_families(&families)?;
    if local_services {
        return Ok(());
    }
    let is = |argument, compared, value: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compared, value as u64)
            .map_err(|error| error.to_string())
    };
    let mut rules = Vec::new();
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        let conditions = vec![
            is(0, SeccompCmpOp::Eq, libc::AF_UNIX)?,
            is(1, SeccompCmpOp::MaskedEq(SOCKET_KINDS), kind)?,
        ];
        rules.push(SeccompRule::new(conditions).map_err(|error| error.to_string())?);
    }
    apply(BTreeMap::from([(libc::SYS_socket, rules)]), libc::EPERM)
}

fn forbid_families(others: &[i32]) -> Result<(), String> {
    let conditions = others.iter().map(|family| {
        let differs = SeccompCmpOp::Ne;
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, differs, *family as u64)
    });
    let conditions = conditions.collect::<Result<Vec<_>, _>>();
    let rule = conditions.and_then(SeccompRule::new);
    let rule = rule.map_err(|error| error.to_string())?;
    apply(
        BTreeMap::from([(libc::SYS_socket, vec![rule])]),
        libc::EAFNOSUPPORT,
    )
}

/// Has these calls fail with `errno` from now on.
fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<(), String> {
    let filter = filter(rules, errno)?;
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

fn filter(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, String> {
    let refused = SeccompAction::Errno(errno as u32);
    let here = std::env::consts::ARCH.try_into();
    let here = here.map_err(|error: seccompiler::BackendError| error.to_string())?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, here);
    filter
        .and_then(TryInto::try_into)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tried;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_only_server_keeps_fewest_capabilities() {
        let needs = |only_devices, reservations| Needs {
            only_devices,
            reservations,
            local_services: true,
            programs: false,
            core_dump: false,
            folders: Vec::new(),
            secrets: Vec::new(),
        };
        let least = CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE;
        assert_eq!(kept(&needs(true, false)), least);
        assert_eq!(
            kept(&needs(false, false)),
            least | CapabilitySet::DAC_OVERRIDE
        );
        let reserving = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_RAWIO;
        assert_eq!(kept(&needs(true, true)), least | reserving);
    }

    /// Each line is a system call number with its first argument, and the error that it must return. Simulates
    /// a parser under an attacker's control.
    const TRIES: &str = r#"
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def fails(call, argument, *errors):
    ctypes.set_errno(0)
    done = libc.syscall(ctypes.c_long(call), ctypes.c_long(argument), 0, 0, 0, 0)
    if done == 0 and call == CLONE:
        os._exit(0)
    if done >= 0 or ctypes.get_errno() not in errors:
        sys.exit(f"system call {call:#x} of {argument:#x} gave {done}, errno {ctypes.get_errno()}")
EPERM, ENOSYS = 1, 38
CLONE, CLONE3, UNSHARE, PTRACE, X32 = 56, 435, 272, 101, 1 << 30
for bit in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
    fails(CLONE, bit | signal.SIGCHLD, EPERM)
fails(UNSHARE, 0x10000000, EPERM)
fails(CLONE3, 0, ENOSYS)
fails(PTRACE, 0, EPERM)
for call in (PTRACE | X32, 521 | X32, UNSHARE | X32):
    fails(call, 0, EPERM, ENOSYS)
child = os.fork()
if child == 0:
    os._exit(7)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 7:
    sys.exit("a process without a name space of its own cannot be made")
"#;

    #[cfg(target_arch = "x86_64")]
    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
    fn compromised_server_cannot_create_namespaces() {
        if std::process::Command::new("python3")
            .arg("-V")
            .output()
            .is_err()
        {
            eprintln!("skipped: there is no python3 to make system calls with");
            return;
        }
        let confined = std::thread::spawn(|| {
            let needs = Needs {
                only_devices: true,
                reservations: true,
                local_services: true,
                programs: true,
                core_dump: false,
                folders: Vec::new(),
                secrets: Vec::new(),
            };
            let missing = pool_server(&needs);
            std::thread::spawn(|| ()).join().expect("threads are made");
            let tried = std::process::Command::new("python3")
                .args(["-c", TRIES])
                .output();
            (missing, tried.expect("it starts"))
        });
        let (missing, tried) = confined.join().expect("no panic");
        assert!(missing.is_empty(), "{missing:?}");
        assert!(
            tried.status.success(),
            "{}",
            String::from_utf8_lossy(&tried.stderr)
        );
    }

    /// In a separate thread, because the restrictions apply to that thread only.
    #[test]
    fn confined_thread_writes_in_allowed_paths_and_cannot_exec() {
        let folder = tempfile::tempdir().expect("a folder");
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        for path in [&inside, &outside] {
            std::fs::create_dir(path).expect("made");
        }
        let confined = std::thread::spawn(move || {
            let needs = Needs {
                only_devices: true,
                reservations: false,
                local_services: true,
                programs: false,
                core_dump: false,
                folders: vec![inside.clone()],
                secrets: Vec::new(),
            };
            let missing = pool_server(&needs);
            std::fs::write(inside.join("file"), "x").expect("may be written");
            let written = std::fs::write(outside.join("file"), "x");
            let sockets = [inside.join("socket"), outside.join("socket")].map(|path| {
                let address = serving::ListenAddress::Unix(path);
                serving::OpenSocket::open(&address, &serving::EarlySockets::default()).is_ok()
            });
            let port =
                serving::EarlySockets::default().open(["127.0.0.1:0".parse().expect("it is")]);
            port.expect("a server may listen elsewhere while it runs");
            let started = std::process::Command::new("/bin/true").status();
            let unshared = nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS);
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("read");
            assert!(sockets[0]);
            let refused = (written.is_err(), started.is_err(), unshared);
            assert_eq!(sockets[1], written.is_ok());
            (missing, refused, status)
        });
        let (missing, refused, status) = confined.join().expect("no panic");
        let (unwritten, unstarted, unshared) = refused;
        assert!(unstarted, "no process is started");
        assert_eq!(unshared, Err(nix::Error::EPERM));
        assert_eq!(unwritten, !missing.contains(&"Landlock"));
        assert!(missing.iter().all(|one| *one == "Landlock"), "{missing:?}");
        let line = |name: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim().to_owned()
        };
        let core = getrlimit(Resource::Core).current;
        assert!(
            core.is_some_and(|bytes| bytes <= CORE_BYTES_MAX),
            "{core:?}"
        );
        assert_eq!(line("NoNewPrivs:"), "1");
        assert_eq!(line("Seccomp:"), "2");
    }
}
