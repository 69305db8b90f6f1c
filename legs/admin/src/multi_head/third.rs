//! Adds a third head to a pool that is served. Its legs are attached later, one by one.

use std::path::Path;

use control::answer::{Answer, Done};
use control::{Failure, FailureKind};
use leg_record::{MemberId, Membership};
use legs::{Reporter, Viewer};
use legs_config::{Kind, LegsFile};
use units::PoolName;

use super::witness::names;
use super::{LegsOfPool, names_no_pool, peer, read};
use crate::view::current_members;

impl LegsOfPool {
    pub(super) fn add_head(
        &self,
        viewer: &Viewer,
        reporter: &Reporter,
        name: &str,
    ) -> Result<Answer, Failure> {
        let (known, shown) = (self.multi_head.file(), viewer.shown());
        let (file, _) = read(&self.path)?;
        let number = joining_member(&known, (&file, &self.path), &self.pool, name)?;
        let record = shown.record.as_ref();
        if record.is_none_or(|record| record.members.is_none()) {
            let message = "nothing was changed: the record does not name its members yet";
            return Err(Failure::new(FailureKind::Unavailable, message)
                .advise("check that all members respond and have this release of bulkhead: the record names them then"));
        }
        let desired = with(&current_members(&known, &shown), number, &file)?;
        if names(&shown, &desired) {
            if file != *known {
                self.has_read(file, reporter);
            }
            return Ok(Done::already(format!("{name} is a head of the pool")));
        }
        let joining = file.members.get(name).map(peer);
        self.change((viewer, reporter), file, &desired, joining)?;
        Ok(Done::changed(format!(
            "{name} stores the record of the pool's legs, and may serve the pool; `bulkhead pool status {}` names the command that attaches \
             each of its legs",
            self.pool
        )))
    }
}

impl LegsOfPool {
    /// Adds the leg of that name, if it is one of another head, and the configuration now names it and has no other
    /// change.
    pub(super) fn add_leg(&self, leg: &str, reporter: &Reporter) {
        let known = self.multi_head.file();
        let (Some((head, _)), Ok((file, _))) = (leg.split_once(':'), read(&self.path)) else {
            return;
        };
        let is_of_a_member = head != known.me && known.members == file.members;
        if is_of_a_member && file != *known && file.adds_to(&known, &self.pool, head) {
            self.has_read(file, reporter);
        }
    }
}

/// The membership with that head. A witness is removed by it.
fn with(before: &Membership, head: MemberId, file: &LegsFile) -> Result<Membership, Failure> {
    match before {
        Membership::TwoHeads([one, other])
        | Membership::TwoHeadsAndWitness {
            heads: [one, other],
            ..
        } if ![one, other].contains(&&head) && before.witness() != Some(head) => {
            let mut heads = [*one, *other, head];
            heads.sort_unstable();
            Ok(Membership::ThreeHeads(heads))
        }
        Membership::ThreeHeads(heads) if heads.contains(&head) => Ok(before.clone()),
        Membership::WitnessLeaves { .. } => Err(Failure::new(
            FailureKind::Busy,
            "the witness of the pool is being removed",
        )
        .advise("that completes when both heads respond: repeat the command then")),
        _ => Err(Failure::usage(format!(
            "the record of the pool names {}, and {} cannot be added to them: a third head is added to two",
            before
                .members()
                .into_iter()
                .map(|one| file.name(one))
                .collect::<Vec<_>>()
                .join(", "),
            file.name(head)
        ))
        .advise("use a number that no member had")),
    }
}

/// The number of the head that the configuration now names. Nothing else may differ from the known configuration,
/// except its legs, and a witness that is removed.
fn joining_member(
    known: &LegsFile,
    (file, path): (&LegsFile, &Path),
    pool: &PoolName,
    name: &str,
) -> Result<MemberId, Failure> {
    let place = path.display();
    let found = file.members.get(name);
    let Some(found) = found.filter(|one| one.kind == Kind::Head) else {
        return Err(
            Failure::not_found(format!("{place} names no head {name}")).advise(
                "write it into the file of each head, with its legs and without a witness, and restart one leg-server after the other",
            ),
        );
    };
    if !file.pools.contains_key(pool) {
        return Err(names_no_pool(file, pool, path));
    }
    match name != known.me && known.me == file.me && file.adds_to(known, pool, name) {
        true => Ok(MemberId(found.number)),
        false => Err(Failure::usage(format!(
            "{place} differs from what the pool's server has read of this pool or of its members in more than {name} and its legs"
        ))
        .advise("change one thing at a time: the pool's server reads other changes when it starts")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_head::tests::two_heads;

    fn tank() -> PoolName {
        "tank".parse().expect("a name")
    }

    fn three_heads() -> LegsFile {
        let mut file = two_heads();
        let mut head = file.members["b"].clone();
        head.number = 4;
        file.members.insert("c".to_owned(), head);
        let pool = file.pools.get_mut(&tank()).expect("a pool");
        let mut leg = pool.groups[0].legs[1].clone();
        (leg.disk, leg.head) = (33, "c".to_owned());
        pool.groups[0].legs.push(leg);
        file
    }

    #[test]
    fn third_head_is_added_also_replacing_a_witness() {
        let file = three_heads();
        let (heads, witness) = ([MemberId(1), MemberId(2)], MemberId(3));
        let two = Membership::TwoHeads(heads);
        let with_witness = Membership::TwoHeadsAndWitness { heads, witness };
        let three = Membership::ThreeHeads([MemberId(1), MemberId(2), MemberId(4)]);
        for before in [&two, &with_witness, &three] {
            assert_eq!(with(before, MemberId(4), &file).ok(), Some(three.clone()));
        }
        let leaves = Membership::WitnessLeaves { heads, witness };
        let early = with(&leaves, MemberId(4), &file).expect_err("it goes");
        assert_eq!(early.kind, FailureKind::Busy);
        for (before, head) in [(&two, 2), (&with_witness, 3), (&three, 5)] {
            let refused = with(before, MemberId(head), &file).expect_err("it cannot be");
            assert!(refused.message.contains("a third head is added to two"));
        }
    }

    #[test]
    fn configuration_adds_only_the_head_and_its_legs() {
        let (known, file) = (two_heads(), three_heads());
        let path = Path::new("/legs.toml");
        let judge = |known: &LegsFile, file: &LegsFile, name| {
            joining_member(known, (file, path), &tank(), name).map_err(|error| error.message)
        };
        assert_eq!(judge(&known, &file, "c"), Ok(MemberId(4)));
        assert_eq!(judge(&file, &file, "c"), Ok(MemberId(4)), "read before");
        let unnamed = judge(&known, &known, "c").expect_err("it is not there");
        assert!(unnamed.contains("/legs.toml names no head c"), "{unnamed}");
        let mut moved = file.clone();
        let pool = moved.pools.get_mut(&tank()).expect("a pool");
        pool.groups[0].legs[0].path = "/z".into();
        let differs = judge(&known, &moved, "c").expect_err("a disk is another");
        assert!(differs.contains("differs from what"), "{differs}");
        let mut moved = file.clone();
        let pool = moved.pools.get_mut(&tank()).expect("a pool");
        pool.groups[0].legs[2].path = "/z".into();
        let differs = judge(&file, &moved, "c").expect_err("its disk is another");
        assert!(differs.contains("differs from what"), "{differs}");
    }
}
