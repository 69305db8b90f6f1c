//! The list of extended attributes of a file: any bytes are a list or an error, and encoding a list is reversible.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zpl::attribute_list::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Some(list) = decode(bytes) {
        let total: usize = list
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        assert!(total <= bytes.len());
        assert_eq!(decode(&encode(&list)), Some(list));
    }
});
