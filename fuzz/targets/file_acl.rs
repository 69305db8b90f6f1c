//! The access control list of a file: any bytes are evaluated without a crash, and no caller is allowed an access that
//! only entries behind damaged ones allow. The list derived from a mode is equivalent to the mode.

#![no_main]

use file_system::{Attributes, Identity, Kind, Time, rights};
use libfuzzer_sys::fuzz_target;
use zpl::acl;

fuzz_target!(|input: (u32, u32, u32, &[u8])| {
    let (mode, uid, gid, list) = input;
    let attributes = Attributes::of_new(Kind::File, mode & 0o777, (10, 20), Time::default());
    let who = Identity {
        // Root is not judged by lists.
        uid: uid % 16 + 1,
        gid: gid % 32,
        groups: vec![gid / 32 % 32],
    };
    let may = acl::permitted(list, &attributes, &who);
    // The beginning of a list decides: no later entry changes an access that it allows or denies.
    let longer = [list, &acl::trivial(0o777, Kind::File)].concat();
    if may.read {
        assert!(acl::permitted(&longer, &attributes, &who).read);
    }
    let trivial = acl::trivial(mode & 0o777, Kind::File);
    let expected = rights::permitted(&attributes, &who);
    assert_eq!(acl::permitted(&trivial, &attributes, &who), expected);
});
