//! Maps owner names of clients to IDs (RFC 8881, 5.9). A name is a number, as Linux sends it with
//! `sec=sys`, or a user name of this host with any domain, as it sends it with Kerberos. The host
//! may query a directory service that does not respond. So concurrent look-ups are limited, and
//! results are cached.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kerberos::{LookupFailed, number_of_group, number_of_user};
use serving::Refusals;

use super::numbers::Status;

/// Concurrent look-ups of all clients. Each occupies a worker, and commits of all clients need
/// some.
const LOOKUPS_MAX: usize = 4;
/// Cached names, including unknown ones.
const KNOWN_MAX: usize = 1024;
/// A new user is recognized after this time at the latest.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    User,
    Group,
}

impl Kind {
    fn look_up(self, name: &str) -> Result<Option<u32>, LookupFailed> {
        match self {
            Self::User => number_of_user(name),
            Self::Group => number_of_group(name),
        }
    }
}

/// Time and result of each look-up.
type Known = HashMap<(Kind, String), (Instant, Option<u32>)>;

#[derive(Default)]
struct State {
    known: Known,
    under_way: usize,
}

/// The cache of look-ups.
#[derive(Default)]
pub(super) struct Owners {
    state: Mutex<State>,
    unanswered: Refusals<Kind>,
}

impl Owners {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ID of an owner.
    pub(super) fn number(&self, text: &[u8], kind: Kind) -> Result<u32, Status> {
        self.number_by(text, kind, |name| kind.look_up(name))
    }

    fn number_by(
        &self,
        text: &[u8],
        kind: Kind,
        look_up: impl FnOnce(&str) -> Result<Option<u32>, LookupFailed>,
    ) -> Result<u32, Status> {
        let text = std::str::from_utf8(text).map_err(|_| Status::INVAL)?;
        if text.is_empty() {
            return Err(Status::INVAL);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = text.parse().map_err(|_| Status::BADOWNER)?;
            return match file_system::is_owner(number) {
                true => Ok(number),
                false => Err(Status::BADOWNER),
            };
        }
        let (name, domain) = text.rsplit_once('@').ok_or(Status::BADOWNER)?;
        // Names without a domain, such as AUTHENTICATED@, are not users (RFC 8881, 6.2.1.5).
        if name.is_empty() || domain.is_empty() {
            return Err(Status::BADOWNER);
        }
        let named = (kind, name.to_owned());
        {
            let mut state = self.state();
            if let Some((at, number)) = state.known.get(&named) {
                if at.elapsed() < KNOWN_FOR {
                    return number.ok_or(Status::BADOWNER);
                }
            }
            if state.under_way >= LOOKUPS_MAX {
                return Err(Status::DELAY);
            }
            state.under_way += 1;
        }
        let answer = look_up(name);
        let mut state = self.state();
        state.under_way -= 1;
        match answer {
            Ok(number) => {
                keep(&mut state.known, named, number);
                number.ok_or(Status::BADOWNER)
            }
            Err(no_answer) => {
                drop(state);
                self.log_failure(kind, &no_answer);
                Err(match no_answer.is_permanent() {
                    true => Status::BADOWNER,
                    false => Status::DELAY,
                })
            }
        }
    }

    fn log_failure(&self, kind: Kind, no_answer: &LookupFailed) {
        if let Some(untold) = self.unanswered.take(&kind, Instant::now()) {
            tracing::warn!(%no_answer, untold, "an NFS client sent an owner name that this host cannot look up");
        }
    }
}

fn keep(known: &mut Known, named: (Kind, String), number: Option<u32>) {
    if known.len() >= KNOWN_MAX {
        known.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
    }
    if known.len() < KNOWN_MAX {
        known.insert(named, (Instant::now(), number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_looked_up_once() {
        let owners = Owners::default();
        let mut asked = 0;
        for _ in 0..3 {
            let number = owners.number_by(b"alice@example.org", Kind::User, |name| {
                asked += 1;
                assert_eq!(name, "alice");
                Ok(Some(1001))
            });
            assert_eq!(number, Ok(1001));
        }
        assert_eq!(asked, 1);
        let group = owners.number_by(b"alice@example.org", Kind::Group, |_| Ok(None));
        assert_eq!(group, Err(Status::BADOWNER), "another kind");
        let never = |_: &str| panic!("nobody is asked");
        assert_eq!(
            owners.number_by(b"alice@other", Kind::User, never),
            Ok(1001)
        );
        // The last number is an invalid ID in a kernel.
        for text in [
            &b"SERVICE@"[..],
            b"@x",
            b"alice",
            b"+5",
            b"99999999999",
            b"4294967295",
        ] {
            let number = owners.number_by(text, Kind::User, never);
            assert_eq!(number, Err(Status::BADOWNER), "{text:?}");
        }
        assert_eq!(owners.number_by(b"0", Kind::User, never), Ok(0));
    }

    #[test]
    fn concurrent_name_lookups_are_bounded() {
        fn nested(owners: &Owners, left: usize) -> Result<u32, Status> {
            let text = format!("user-{left}@x");
            owners.number_by(text.as_bytes(), Kind::User, |_| match left {
                0 => Ok(Some(7)),
                left => nested(owners, left - 1).map(Some).or(Ok(None)),
            })
        }
        let owners = Owners::default();
        assert_eq!(nested(&owners, LOOKUPS_MAX - 1), Ok(7));
        let owners = Owners::default();
        // The innermost one must retry.
        assert_eq!(nested(&owners, LOOKUPS_MAX), Err(Status::BADOWNER));
        assert_eq!(owners.state().known.len(), LOOKUPS_MAX);
        assert_eq!(owners.state().under_way, 0);
    }

    #[test]
    fn cached_names_are_bounded() {
        let owners = Owners::default();
        for number in 0..2 * KNOWN_MAX {
            let text = format!("user-{number}@x");
            let found = owners.number_by(text.as_bytes(), Kind::User, |_| Ok(Some(1)));
            assert_eq!(found, Ok(1));
        }
        assert_eq!(owners.state().known.len(), KNOWN_MAX);
    }
}
