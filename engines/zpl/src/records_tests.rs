//! Tests of the records of the intent log.

use super::*;

fn back(record: &Record<'_>) {
    let (kind, body) = record.encode();
    assert_eq!(decode(kind, &body), Ok(*record));
    for length in 0..body.len() {
        let cut = decode(kind, &body[..length]);
        assert!(cut.is_err(), "{kind} cut at {length}: {cut:?}");
    }
}

#[test]
fn logged_records_decode_and_truncated_ones_do_not() {
    let file = Creation {
        directory: 34,
        object: 128,
        slots: 2,
        mode: 0o100_644,
        uid: 1,
        gid: 2,
        generation: 77,
        crtime: [5, 6],
        device: 0,
        name: b"name",
        ..Creation::default()
    };
    back(&Record::Create(file));
    back(&Record::Create(Creation {
        mode: 0o040_755,
        ..file
    }));
    back(&Record::Create(Creation {
        list: Some(&[0; 36]),
        ..file
    }));
    back(&Record::Create(Creation {
        mode: 0o120_777,
        link: Some(b"a/b"),
        ..file
    }));
    for is_directory in [false, true] {
        back(&Record::Remove {
            directory: 34,
            name: b"name",
            is_directory,
        });
    }
    back(&Record::Link {
        directory: 34,
        object: 128,
        name: b"name",
    });
    back(&Record::Rename {
        from: (34, b"from"),
        to: (35, b"to"),
    });
    back(&Record::MakeExtended(Creation {
        mode: 0o040_777,
        name: b"",
        ..file
    }));
    back(&Record::Exchange {
        from: (34, b"from"),
        to: (35, b"to"),
    });
    back(&Record::Whiteout {
        from: (34, b"from"),
        to: (35, b"to"),
        whiteout: Creation {
            mode: 0o020_000,
            name: b"",
            ..file
        },
    });
    back(&Record::Extended {
        object: 128,
        name: b"user.a/b",
        value: b"value",
    });
    back(&Record::Clone {
        object: 128,
        offset: 8192,
        length: 5000,
        block_size: 4096,
        pointers: &[7; 256],
    });
    back(&Record::Acl {
        object: 128,
        list: &[0; 24],
    });
    back(&Record::WriteAgain {
        object: 128,
        offset: 4096,
        length: 4096,
    });
    back(&Record::Truncate {
        object: 128,
        offset: 4096,
        length: 0,
    });
    back(&Record::Set(Setting {
        object: 128,
        mask: set::KNOWN,
        mode: 0o600,
        uid: 1,
        gid: 2,
        size: 3,
        atime: [4, 5],
        mtime: [6, 7],
        options: Options::default(),
    }));
    back(&Record::Set(Setting {
        object: 128,
        mask: set::MODE | set::OPTIONS,
        mode: 0o600,
        options: Options {
            flags: [0x30_0000_0000, 0x10_0000_0000],
            project: Some(70_000),
            created: Some([1_700_000_000, 5]),
        },
        ..Setting::default()
    }));
}

#[test]
fn write_record_holds_its_data_inline_or_in_a_block() {
    let record = Record::Write {
        object: 128,
        offset: 10,
        length: 3,
        end: 13,
        bytes: Bytes::Here(b""),
    };
    let (kind, mut body) = record.encode();
    assert_eq!(body.len(), 160);
    assert_eq!(decode(kind, &body), Ok(record));
    body.extend(b"ab");
    assert!(decode(kind, &body).is_err(), "bytes are missing");
    body.extend(b"c\0\0\0\0\0");
    let here = decode(kind, &body);
    assert!(matches!(
        here,
        Ok(Record::Write {
            bytes: Bytes::Here(b"abc"),
            ..
        })
    ));
    body[40] = 1;
    let block = decode(kind, &body);
    let whole = b"abc\0\0\0\0\0";
    assert!(
        matches!(block, Ok(Record::Write { bytes: Bytes::Block(bytes), .. }) if bytes == whole)
    );
}

#[test]
fn receipt_follows_the_other_fields_of_a_record() {
    let receipt = Receipt {
        place: [7; 20],
        number: 8,
        step: 9,
        call: 10,
    };
    let without_call = Receipt { call: 0, ..receipt };
    let (directory, name) = (34, b"name".as_slice());
    let link = Creation {
        directory,
        object: 128,
        slots: 1,
        mode: 0o120_777,
        generation: 77,
        name,
        link: Some(b"a/b"),
        ..Creation::default()
    };
    let records = [
        Record::Create(link),
        Record::Create(Creation {
            mode: 0o040_755,
            link: None,
            ..link
        }),
        Record::Create(Creation {
            mode: 0o100_644,
            link: None,
            list: Some(&[0; 36]),
            ..link
        }),
        Record::Create(Creation {
            mode: 0o040_755,
            link: None,
            list: Some(&[0; 24]),
            ..link
        }),
        Record::Remove {
            directory,
            name,
            is_directory: true,
        },
        Record::Link {
            directory,
            object: 128,
            name,
        },
        Record::Rename {
            from: (directory, name),
            to: (directory, name),
        },
        Record::Set(Setting {
            object: 128,
            mask: set::MODE,
            mode: 0o600,
            ..Setting::default()
        }),
        Record::Acl {
            object: 128,
            list: &[0; 36],
        },
        Record::Extended {
            object: 128,
            name,
            value: b"value",
        },
        Record::Extended {
            object: 128,
            name,
            value: b"",
        },
    ];
    for record in records {
        let (kind, mut body) = record.encode();
        assert_eq!(receipt_of(kind, &body), None);
        append_receipt(&mut body, &receipt);
        assert_eq!(decode(kind, &body), Ok(record));
        assert_eq!(receipt_of(kind, &body), Some(receipt));
        // As an earlier release wrote it, with possible trailing bytes.
        body.truncate(body.len() - 4);
        for _ in 0..8 {
            assert_eq!(receipt_of(kind, &body), Some(without_call));
            body.push(0);
        }
        body.truncate(body.len() - 9);
        assert_eq!(receipt_of(kind, &body), None);
    }
}

/// The bytes of `lr_create_t`, one number after the other.
#[test]
fn creation_record_matches_lr_create_t() {
    let record = Record::Create(Creation {
        directory: 1,
        object: 2,
        slots: 3,
        mode: 0o100_644,
        uid: 5,
        gid: 6,
        generation: 7,
        crtime: [8, 9],
        device: 10,
        name: b"n",
        ..Creation::default()
    });
    let (kind, body) = record.encode();
    let numbers = [1, 2 | 2 << 56, 0o100_644, 5, 6, 7, 8, 9, 10_u64];
    let expected: Vec<u8> = numbers.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(kind, kind::CREATE);
    assert_eq!(body, [expected, b"n\0".to_vec()].concat());
}

#[test]
fn unsupported_record_is_reported_with_its_type() {
    for kind in [0, 12, 25, 1 << 63 | 5] {
        assert_eq!(decode(kind, &[0; 64]), Err(BadRecord::Unsupported { kind }));
    }
    let set = Setting {
        object: 1,
        mask: set::OPTIONS,
        ..Setting::default()
    };
    let (kind, mut body) = Record::Set(set).encode();
    // An id of another domain.
    let list = Record::Acl {
        object: 1,
        list: &[0; 12],
    };
    let (acl, mut bytes) = list.encode();
    bytes[16] = 1;
    let refused = Err(BadRecord::Unsupported { kind: acl });
    assert_eq!(decode(acl, &bytes), refused);
    // The stamp of a virus scanner.
    body[80 + 5] = 0x10;
    assert_eq!(decode(kind, &body), Err(BadRecord::Unsupported { kind }));
}

/// Flags, a project, and lists that came with a creation, in all the ways in which they are combined.
#[test]
fn creation_options_decode_in_all_combinations() {
    let options = Options {
        flags: [0x4010_0000_0000, 0x4000_0000_0000],
        project: Some(7),
        created: Some([8, 9]),
    };
    // Padding to 8 bytes.
    let list = [0_u8; LOGGED_BYTES * 3];
    let kinds = [
        (
            0o100_644,
            [kind::CREATE_ATTR, kind::CREATE_ACL, kind::CREATE_ACL_ATTR],
        ),
        (
            0o040_755,
            [kind::MKDIR_ATTR, kind::MKDIR_ACL, kind::MKDIR_ACL_ATTR],
        ),
    ];
    for (mode, expected) in kinds {
        let combined = [(true, false), (false, true), (true, true)];
        for ((has_options, has_list), expected) in combined.into_iter().zip(expected) {
            let record = Record::Create(Creation {
                directory: 34,
                object: 128,
                slots: 1,
                mode,
                generation: 77,
                name: b"name",
                options: has_options.then_some(options),
                list: has_list.then_some(&list),
                ..Creation::default()
            });
            assert_eq!(record.encode().0, expected);
            back(&record);
        }
    }
}

/// The bytes of `lr_acl_create_t` and `lr_attr_t` (`sys/zil.h`).
#[test]
fn creation_record_with_all_options_matches_zil_h() {
    let record = Record::Create(Creation {
        directory: 1,
        object: 2,
        slots: 1,
        mode: 0o100_644,
        generation: 7,
        name: b"n",
        options: Some(Options {
            // New objects in it inherit its project.
            flags: [0x4000_0000_0000, 0x4000_0000_0000],
            project: Some(12),
            created: None,
        }),
        list: Some(&[1; LOGGED_BYTES]),
        ..Creation::default()
    });
    let (kind, body) = record.encode();
    let created = [1, 2, 0o100_644, 0, 0, 7, 0, 0, 0_u64];
    let of_list = [1, 0, 0, 12, 0];
    let map = match cfg!(target_endian = "little") {
        true => 3 | 0x6_0000 << 32,
        false => 3 << 32 | 0x6_0000,
    };
    let options = [map, 0, 0x2_0000, 0, 0, 12, 0, 0, 0];
    let numbers = created.iter().chain(&of_list).chain(&options);
    let mut expected: Vec<u8> = numbers.flat_map(|word| word.to_ne_bytes()).collect();
    expected.extend([1; LOGGED_BYTES]);
    expected.extend(b"\0\0\0\0n\0");
    assert_eq!((kind, body), (kind::CREATE_ACL_ATTR, expected));
}

/// An id of an identity mapper has a domain, which is stored in front of the name.
#[test]
fn ids_with_a_foreign_domain_are_refused() {
    let file = Creation {
        directory: 34,
        object: 128,
        slots: 1,
        mode: 0o100_644,
        generation: 77,
        name: b"S-1-5-21-1-2-3",
        ..Creation::default()
    };
    let foreign = 1 << 32 | 500;
    let owners = [(foreign, 0), (0, foreign)];
    for (uid, gid) in owners {
        let (kind, body) = Record::Create(Creation { uid, gid, ..file }).encode();
        assert_eq!(decode(kind, &body), Err(BadRecord::Unsupported { kind }));
        let set = Setting {
            object: 128,
            mask: set::UID | set::GID,
            uid,
            gid,
            ..Setting::default()
        };
        let (kind, body) = Record::Set(set).encode();
        assert_eq!(decode(kind, &body), Err(BadRecord::Unsupported { kind }));
        // Attributes that are not set are ignored.
        let set = Setting {
            mask: set::MODE,
            ..set
        };
        let (kind, body) = Record::Set(set).encode();
        assert_eq!(decode(kind, &body), Ok(Record::Set(set)));
    }
}

/// Some versions of OpenZFS log how many entries a list has, and none of them.
#[test]
fn acl_record_without_its_entries_is_damaged() {
    let record = Record::Create(Creation {
        directory: 34,
        object: 128,
        slots: 1,
        mode: 0o100_644,
        generation: 77,
        name: b"name",
        list: Some(&[]),
        ..Creation::default()
    });
    let (kind, mut body) = record.encode();
    body[9 * 8..10 * 8].copy_from_slice(&2_u64.to_ne_bytes());
    let length = body.len();
    assert_eq!(
        decode(kind, &body),
        Err(BadRecord::Damaged { kind, length })
    );
}
