//! Sessions, in memory: after a restart, users log in again. A session is a random cookie, stored as a hash, with a
//! second random value that pages send with changes (against forged requests).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use control::Failure;

use crate::accounts::{Identity, fingerprint, random_text};

/// Concurrent sessions; the least recently used one is dropped.
const SESSIONS_MAX: usize = 1024;
/// Longest time without a request.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// Longest lifetime.
pub const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Random bytes in a cookie.
const SECRET_BYTES: usize = 32;

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOrigin {
    /// A user's action.
    User,
    /// An automatic request of an open page, or its stream.
    Page,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The user.
    pub user: String,
    /// The credential at login: the session is valid no longer than it.
    pub credential: String,
    /// The value that pages send with changes.
    pub csrf: String,
    /// Its latest end, in milliseconds since 1970.
    pub expires_at_ms: u64,
    born: Instant,
    used: Instant,
}

impl Session {
    fn has_ended(&self, now: Instant) -> bool {
        let since = |then| now.saturating_duration_since(then);
        since(self.born) > AGE_MAX || since(self.used) > IDLE_MAX
    }
}

/// All sessions.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Session>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().expect("no holder panics")
    }

    /// Begins a session; returns the cookie's value and the session.
    pub fn begin(&self, who: &Identity) -> Result<(String, Session), Failure> {
        let secret = random_text(SECRET_BYTES)?;
        let session = Session {
            user: who.user.clone(),
            credential: who.credential.clone(),
            csrf: random_text(SECRET_BYTES)?,
            expires_at_ms: crate::now_ms() + AGE_MAX.as_millis() as u64,
            born: Instant::now(),
            used: Instant::now(),
        };
        let mut sessions = self.lock();
        let now = Instant::now();
        sessions.retain(|_, session| !session.has_ended(now));
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                sessions.remove(&key);
            }
        }
        sessions.insert(fingerprint(&secret), session.clone());
        Ok((secret, session))
    }

    /// Returns the session of a cookie. It counts as used now, unless an open page sent the request automatically.
    pub fn find(&self, secret: &str, asked: RequestOrigin) -> Option<Session> {
        self.find_at(secret, asked, Instant::now())
    }

    fn find_at(&self, secret: &str, asked: RequestOrigin, now: Instant) -> Option<Session> {
        let mut sessions = self.lock();
        let session = sessions.get_mut(&fingerprint(secret))?;
        if session.has_ended(now) {
            return None;
        }
        if asked == RequestOrigin::User {
            session.used = now;
        }
        Some(session.clone())
    }

    /// Removes a session.
    pub fn end(&self, secret: &str) {
        self.lock().remove(&fingerprint(secret));
    }

    /// Removes all sessions of a user after a change of the password or a removal.
    pub fn end_sessions_of(&self, user: &str) {
        self.lock().retain(|_, session| session.user != user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(user: &str) -> Identity {
        Identity {
            user: user.to_owned(),
            role: crate::Role::Admin,
            credential: String::new(),
        }
    }

    /// A page that is left open sends requests automatically.
    #[test]
    fn idle_session_expires_despite_page_refresh() {
        let begun = Instant::now();
        let sessions = Sessions::default();
        let (left, _) = sessions.begin(&identity("anna")).expect("begun");
        let (used, _) = sessions.begin(&identity("otto")).expect("begun");
        for minutes in (0..=90).step_by(10) {
            let now = begun + Duration::from_secs(60 * minutes);
            let is_left_open = sessions.find_at(&left, RequestOrigin::Page, now).is_some();
            assert_eq!(is_left_open, minutes <= 60, "after {minutes} minutes");
            assert!(sessions.find_at(&used, RequestOrigin::User, now).is_some());
        }
    }

    #[test]
    fn session_is_valid_until_logout() {
        let sessions = Sessions::default();
        let (secret, begun) = sessions.begin(&identity("anna")).expect("begun");
        let found = sessions.find(&secret, RequestOrigin::User).expect("found");
        assert_eq!((found.user.as_str(), found.csrf), ("anna", begun.csrf));
        assert!(sessions.find("another", RequestOrigin::User).is_none());
        sessions.end(&secret);
        assert!(sessions.find(&secret, RequestOrigin::User).is_none());
    }

    #[test]
    fn sessions_of_one_user_are_ended_together() {
        let sessions = Sessions::default();
        let (one, _) = sessions.begin(&identity("anna")).expect("begun");
        let (two, _) = sessions.begin(&identity("anna")).expect("begun");
        let (other, _) = sessions.begin(&identity("bert")).expect("begun");
        sessions.end_sessions_of("anna");
        assert!(
            sessions.find(&one, RequestOrigin::User).is_none()
                && sessions.find(&two, RequestOrigin::User).is_none()
        );
        assert!(sessions.find(&other, RequestOrigin::User).is_some());
    }

    #[test]
    fn session_over_limit_evicts_least_recently_used() {
        let sessions = Sessions::default();
        let (first, _) = sessions.begin(&identity("anna")).expect("begun");
        let (second, _) = sessions.begin(&identity("anna")).expect("begun");
        let _ = sessions.find(&first, RequestOrigin::User);
        for _ in 2..=SESSIONS_MAX {
            sessions.begin(&identity("bert")).expect("begun");
        }
        assert!(sessions.find(&second, RequestOrigin::User).is_none());
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
    }
}
