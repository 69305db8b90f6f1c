//! The privileges that a running server has dropped, as reported by the kernel.

use std::collections::BTreeMap;

use crate::common::TestHost;
use crate::common::nbd::Nbd;

/// `CAP_DAC_OVERRIDE`, `CAP_NET_BIND_SERVICE`, `CAP_NET_RAW` (linux/capability.h).
const RETAINED_FILE_CAPABILITIES: u64 = 1 << 1 | 1 << 10 | 1 << 13;
/// `CAP_SYS_RAWIO`, `CAP_SYS_ADMIN`.
const RETAINED_RESERVE_CAPABILITIES: u64 = 1 << 17 | 1 << 21;

fn status(pid: u32, thread: &str) -> BTreeMap<String, String> {
    let path = format!("/proc/{pid}/task/{thread}/status");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn bits(status: &BTreeMap<String, String>, name: &str) -> u64 {
    u64::from_str_radix(&status[name], 16).expect("hexadecimal digits")
}

#[test]
fn every_server_thread_has_dropped_unneeded_privileges() {
    let machine = TestHost::with_exported_volume();
    for (options, kept) in [
        ("--claims locks", RETAINED_FILE_CAPABILITIES),
        (
            "--claims auto",
            RETAINED_FILE_CAPABILITIES | RETAINED_RESERVE_CAPABILITIES,
        ),
    ] {
        let server = machine.serve(options);
        let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
        client.write(0, &[1; 4096]).expect("written");
        client.flush().expect("flushed");
        let pid = server.child.id();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
        let mut count = 0;
        for thread in threads.flatten() {
            let thread = thread.file_name().into_string().expect("a number");
            let status = status(pid, &thread);
            if status.is_empty() {
                // It has ended.
                continue;
            }
            count += 1;
            for set in ["CapEff", "CapPrm", "CapInh", "CapBnd"] {
                let more = bits(&status, set) & !kept;
                // Only root can drop capabilities from the bounding set.
                let is_ours = set != "CapBnd" || status["Uid"].starts_with('0');
                assert!(!is_ours || more == 0, "{set} has {more:x} more: {status:?}");
            }
            assert_eq!(status["NoNewPrivs"], "1");
            assert_eq!(status["Seccomp"], "2");
        }
        assert!(count > 10, "{count} threads");
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
    assert!(!machine.log().contains("protection"), "{}", machine.log());
}
