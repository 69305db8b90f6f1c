//! Tests each right as allowed, denied and not mentioned, and the resulting permissions.

use super::*;
use crate::acl;
use file_system::Time;
use file_system::acl::{Entry, Who, of_mode};

const OWNER: u32 = 10;
const ANN: u32 = 11;

fn ann() -> Identity {
    Identity {
        uid: ANN,
        gid: 21,
        groups: vec![22],
    }
}

fn owner() -> Identity {
    Identity {
        uid: OWNER,
        gid: 20,
        groups: Vec::new(),
    }
}

fn root() -> Identity {
    Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    }
}

fn attributes(kind: Kind, mode: u32) -> Attributes {
    Attributes::of_new(kind, mode, (OWNER, 20), Time::default())
}

fn judged(kind: Kind, allowed: u32, denied: u32) -> Judged {
    Judged {
        attributes: attributes(kind, 0),
        rights: Some(Rights { allowed, denied }),
    }
}

const EACH: [u32; 14] = [
    right::READ,
    right::WRITE,
    right::APPEND,
    right::READ_NAMED,
    right::WRITE_NAMED,
    right::EXECUTE,
    right::DELETE_CHILD,
    right::READ_ATTRIBUTES,
    right::WRITE_ATTRIBUTES,
    right::DELETE,
    right::READ_ACL,
    right::WRITE_ACL,
    right::WRITE_OWNER,
    right::SYNCHRONIZE,
];

/// The operation under test, on a file or a directory.
struct Try {
    what: &'static str,
    kind: Kind,
    run: fn(&Judged, &Identity) -> Done,
    /// Rights that are sufficient on their own.
    enough: u32,
    /// The rights without which it fails, given all remaining ones.
    needs: u32,
    /// Rights that must not be denied in addition.
    not_denied: u32,
    /// The error it fails with.
    error: FileError,
}

fn allowed(may: bool) -> Done {
    may.then_some(()).ok_or(FileError::Access)
}

fn set(judged: &Judged, who: &Identity, changes: SetAttributes) -> Done {
    judged.check_set(who, &changes)
}

fn none() -> SetAttributes {
    SetAttributes::default()
}

fn tries() -> Vec<Try> {
    let of = |what, kind, needs, error, run| Try {
        what,
        kind,
        run,
        enough: needs,
        needs,
        not_denied: needs,
        error,
    };
    let file = |what, needs, run| of(what, Kind::File, needs, FileError::Access, run);
    let owned = |what, needs, run| of(what, Kind::File, needs, FileError::NotPermitted, run);
    let directory = |what, needs, run| of(what, Kind::Directory, needs, FileError::Access, run);
    vec![
        file("read", right::READ, |it, who| {
            allowed(it.permissions(who).read)
        }),
        file("write", right::WRITE, |it, who| {
            allowed(it.permissions(who).write)
        }),
        file("append", right::APPEND, |it, who| {
            allowed(it.permissions(who).append)
        }),
        file("run", right::EXECUTE, |it, who| {
            allowed(it.permissions(who).execute)
        }),
        file("cut", right::WRITE, |it, who| {
            let size = Some(0);
            set(it, who, SetAttributes { size, ..none() })
        }),
        file("read the list", right::READ_ACL, Judged::check_list_read),
        owned("set the list", right::WRITE_ACL, Judged::check_list_set),
        owned("set the mode", right::WRITE_ACL, |it, who| {
            let mode = Some(0o777);
            set(it, who, SetAttributes { mode, ..none() })
        }),
        owned("set a time", right::WRITE_ATTRIBUTES, |it, who| {
            let modified = Some(SetTime::To(Time::default()));
            set(it, who, SetAttributes { modified, ..none() })
        }),
        owned("take it", right::WRITE_OWNER, |it, who| {
            let uid = Some(ANN);
            set(it, who, SetAttributes { uid, ..none() })
        }),
        owned("take it for a group", right::WRITE_OWNER, |it, who| {
            let gid = Some(22);
            set(it, who, SetAttributes { gid, ..none() })
        }),
        directory("look up", right::EXECUTE, |it, who| {
            it.check_use(who, Use::LookUp)
        }),
        directory("make a file", right::EXECUTE | right::WRITE, |it, who| {
            it.check_use(who, Use::Enter(Kind::File))
        }),
        directory("make a link", right::EXECUTE | right::WRITE, |it, who| {
            it.check_use(who, Use::Enter(Kind::Link))
        }),
        directory(
            "make a directory",
            right::EXECUTE | right::APPEND,
            |it, who| it.check_use(who, Use::Enter(Kind::Directory)),
        ),
        directory("move it elsewhere", right::WRITE, |it, who| {
            it.check_moved(who)
        }),
        Try {
            enough: right::DELETE_CHILD,
            needs: 0,
            not_denied: right::DELETE_CHILD | right::WRITE,
            ..directory("take a name away", 0, |it, who| {
                let object = Judged::by_mode(attributes(Kind::File, 0));
                it.check_removal(&object, who)
            })
        },
        Try {
            enough: right::READ,
            needs: right::READ,
            not_denied: right::READ | right::READ_NAMED,
            ..file("read an extended attribute", 0, |it, who| {
                allowed(it.permissions(who).read_extended)
            })
        },
        Try {
            enough: right::WRITE,
            needs: right::WRITE,
            not_denied: right::WRITE | right::WRITE_NAMED,
            ..file("set an extended attribute", 0, |it, who| {
                allowed(it.permissions(who).write_extended)
            })
        },
    ]
}

#[test]
fn each_right_grants_its_own_operations_only() {
    for it in tries() {
        let run = |allowed, denied| (it.run)(&judged(it.kind, allowed, denied), &ann());
        assert_eq!(run(it.enough, 0), Ok(()), "{}: enough", it.what);
        assert_eq!(run(0, 0), Err(it.error), "{}: nothing", it.what);
        assert_eq!(run(0, right::ALL), Err(it.error), "{}: denied", it.what);
        assert_eq!(run(right::ALL, 0), Ok(()), "{}: all", it.what);
        for right in EACH {
            let others = right::ALL & !right;
            let expected = |fails: u32| match fails & right {
                0 => Ok(()),
                _ => Err(it.error),
            };
            let (absent, denied) = (run(others, 0), run(others, right));
            assert_eq!(absent, expected(it.needs), "{} without {right:x}", it.what);
            assert_eq!(
                denied,
                expected(it.not_denied),
                "{}, {right:x} denied",
                it.what
            );
        }
    }
}

/// The table of `zfs_zaccess_delete`, for rights that the directory's list does not mention.
#[test]
fn name_removal_checks_the_object_then_its_directory() {
    use right::{DELETE, DELETE_CHILD, WRITE};
    let directories = [
        ("allows", judged(Kind::Directory, DELETE_CHILD, 0), true),
        ("denies", judged(Kind::Directory, 0, DELETE_CHILD), false),
        ("may be written", judged(Kind::Directory, WRITE, 0), true),
        ("may not", judged(Kind::Directory, 0, WRITE), false),
        (
            "may be written and denies",
            judged(Kind::Directory, WRITE, DELETE_CHILD),
            false,
        ),
        (
            "allows and may not be written",
            judged(Kind::Directory, DELETE_CHILD, WRITE),
            false,
        ),
        ("says nothing", judged(Kind::Directory, 0, 0), false),
        (
            "has a mode that allows",
            Judged::by_mode(attributes(Kind::Directory, 0o777)),
            true,
        ),
        (
            "has a mode that does not",
            Judged::by_mode(attributes(Kind::Directory, 0o755)),
            false,
        ),
    ];
    for (what, directory, may) in directories {
        let denied = Err(FileError::Access);
        let by_directory = if may { Ok(()) } else { denied };
        for kind in [Kind::File, Kind::Directory, Kind::Link] {
            let check =
                |allowed, refused| directory.check_removal(&judged(kind, allowed, refused), &ann());
            assert_eq!(check(DELETE, 0), Ok(()), "{what}");
            assert_eq!(check(0, DELETE), denied, "{what}");
            assert_eq!(check(0, 0), by_directory, "{what}");
            let plain = Judged::by_mode(attributes(kind, 0o777));
            let checked = directory.check_removal(&plain, &ann());
            assert_eq!(checked, by_directory, "{what}");
        }
    }
}

#[test]
fn sticky_directory_needs_delete_right_on_the_object() {
    let sticky = |rights| Judged {
        attributes: attributes(Kind::Directory, 0o1777),
        rights,
    };
    let allows = Rights {
        allowed: right::ALL,
        denied: 0,
    };
    for directory in [sticky(None), sticky(Some(allows))] {
        let object = |allowed| judged(Kind::File, allowed, 0);
        let refused = directory.check_removal(&object(0), &ann());
        assert_eq!(refused, Err(FileError::NotPermitted));
        assert_eq!(directory.check_removal(&object(0), &owner()), Ok(()));
        let deletes = object(right::DELETE);
        assert_eq!(directory.check_removal(&deletes, &ann()), Ok(()));
    }
}

#[test]
fn acl_cannot_permit_chown_to_others_or_setuid() {
    let all = judged(Kind::File, right::ALL, 0);
    let refused = |changes| {
        assert_eq!(
            all.check_set(&ann(), &changes),
            Err(FileError::NotPermitted),
            "{changes:?}"
        );
    };
    let (other_user, other_group) = (Some(12), Some(23));
    refused(SetAttributes {
        uid: other_user,
        ..none()
    });
    refused(SetAttributes {
        gid: other_group,
        ..none()
    });
    refused(SetAttributes {
        uid: Some(ANN),
        gid: other_group,
        ..none()
    });
    refused(SetAttributes {
        uid: Some(OWNER),
        gid: Some(22),
        ..none()
    });
    refused(SetAttributes {
        mode: Some(0o4755),
        ..none()
    });
    let both = SetAttributes {
        uid: Some(ANN),
        gid: Some(21),
        ..none()
    };
    assert_eq!(all.check_set(&ann(), &both), Ok(()));
}

#[test]
fn current_time_may_be_set_with_write_permission() {
    let now = SetAttributes {
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::Now),
        ..none()
    };
    let check = |allowed, denied| judged(Kind::File, allowed, denied).check_set(&ann(), &now);
    assert_eq!(check(right::WRITE, right::WRITE_ATTRIBUTES), Ok(()));
    assert_eq!(check(right::WRITE_ATTRIBUTES, right::WRITE), Ok(()));
    assert_eq!(check(right::APPEND, 0), Err(FileError::Access));
}

/// Independent of the list, for its owner or for root.
#[test]
fn owner_and_root_keep_implicit_rights() {
    for who in [owner(), root()] {
        let denies = match who.uid {
            // The list is not read.
            0 => Judged::by_mode(attributes(Kind::File, 0)),
            _ => judged(Kind::File, 0, right::ALL),
        };
        assert_eq!(denies.check_list_read(&who), Ok(()));
        assert_eq!(denies.check_list_set(&who), Ok(()));
        for changes in [
            SetAttributes {
                mode: Some(0o4755),
                ..none()
            },
            SetAttributes {
                modified: Some(SetTime::To(Time::default())),
                ..none()
            },
            SetAttributes {
                gid: Some(who.gid),
                ..none()
            },
            SetAttributes {
                size: Some(0),
                ..none()
            },
        ] {
            assert_eq!(denies.check_set(&who, &changes), Ok(()), "{changes:?}");
        }
        let given = SetAttributes {
            uid: Some(ANN),
            ..none()
        };
        let expected = match who.uid {
            0 => Ok(()),
            _ => Err(FileError::NotPermitted),
        };
        assert_eq!(denies.check_set(&who, &given), expected);
    }
}

/// A mode and its trivial list agree for every requester and every right.
#[test]
fn mode_and_its_trivial_acl_decide_alike() {
    let everybody = [
        owner(),
        ann(),
        Identity { gid: 20, ..ann() },
        Identity { uid: 12, ..ann() },
    ];
    for mode in 0..0o1000 {
        for it in tries() {
            let of_mode = of_mode(mode, it.kind).list();
            let known = attributes(it.kind, mode);
            for who in &everybody {
                let by_list = Judged {
                    attributes: known,
                    rights: Some(acl::rights(&acl::encode(&of_mode), &known, who)),
                };
                let by_mode = Judged::by_mode(known);
                let (list, mode_says) = ((it.run)(&by_list, who), (it.run)(&by_mode, who));
                assert_eq!(list, mode_says, "{} {mode:o} {who:?}", it.what);
            }
        }
    }
}

#[test]
fn first_of_two_entries_for_a_right_decides() {
    let known = attributes(Kind::File, 0);
    let entry = |allows, who, mask| Entry {
        allows,
        flags: 0,
        mask,
        who,
    };
    for right in EACH {
        for who in [
            Who::User(ANN),
            Who::Members(21),
            Who::Members(22),
            Who::Everyone,
        ] {
            let list = |first: bool| {
                let later = entry(!first, Who::Everyone, right::ALL);
                acl::encode(&[entry(first, who, right), later])
            };
            let rights = acl::rights(&list(true), &known, &ann());
            let others = right::ALL & !right;
            assert_eq!((rights.allowed, rights.denied), (right, others));
            let rights = acl::rights(&list(false), &known, &ann());
            assert_eq!((rights.allowed, rights.denied), (others, right));
        }
    }
}
