//! Labels as disks hold them, also invalid ones: each is decoded or rejected.

#![no_main]

use labels::{Label, LabelState};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // Once as it is, and once behind a valid beginning, so that the fuzzer need not find one.
    let begun = [&[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], data].concat();
    for bytes in [data, &begun] {
        let Some(label) = Label::parse(bytes) else {
            continue;
        };
        let is_member = !matches!(label.state, LabelState::Spare | LabelState::Cache);
        assert!(!is_member || (label.txg != 0 && label.pool_guid != 0));
    }
});
