//! Identifies the caller: by a session's cookie, a token, or another head that names its user. Also checks that the
//! request was meant for this server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, Method, header};
use control::{Failure, FailureKind};
use subtle::ConstantTimeEq;

use crate::Api;
use crate::certificate::Certificate;
use crate::connection_slots::ConnectionSlot;
use crate::role::Role;
use crate::sessions::RequestOrigin;

/// The session's cookie.
pub const COOKIE: &str = "bulkhead_session";
/// Sent with changes by pages, which another site's page cannot do.
pub const CSRF_HEADER: &str = "x-bulkhead-csrf";
/// Sent by pages with automatic requests, which do not extend the session.
pub const UNATTENDED_HEADER: &str = "x-bulkhead-unattended";
/// The user for whom a head sends a request.
pub const USER_HEADER: &str = "x-bulkhead-user";
/// The role of that user.
pub const ROLE_HEADER: &str = "x-bulkhead-role";

/// The connection of a request.
#[derive(Debug)]
pub struct Link {
    /// The peer.
    pub peer: SocketAddr,
    /// The local address.
    pub local: SocketAddr,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// A value that only this client and this server can compute, for this TLS connection.
    pub binding: Option<[u8; 32]>,
    /// Whether the peer has proven to be a head of this appliance.
    pub is_head: AtomicBool,
    /// Its slot in the connection table; `None` in tests.
    pub(crate) seat: Option<Arc<ConnectionSlot>>,
}

impl Link {
    /// Marks its client as authenticated.
    pub(crate) fn is_known(&self) {
        if let Some(seat) = &self.seat {
            seat.is_known();
        }
    }

    /// Marks the peer as a proven head of this appliance.
    pub(crate) fn is_of_a_head(&self) {
        self.is_head.store(true, Ordering::Release);
        if let Some(seat) = &self.seat {
            seat.is_of_a_head();
        }
    }
}

/// The caller.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user.
    pub user: String,
    /// Their role.
    pub role: Role,
    /// The method of authentication.
    pub by: By,
}

/// The method of authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A session: the cookie's value.
    Session(String),
    /// A token: its number.
    Token(String),
    /// Another head.
    Head,
}

/// Returns the caller if the request identifies one. An invalid cookie or token identifies no caller.
pub fn of(api: &Api, headers: &HeaderMap, link: &Link) -> Option<Caller> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if link.is_head.load(Ordering::Acquire) {
        return Some(Caller {
            user: text(USER_HEADER)?.to_owned(),
            role: text(ROLE_HEADER)?.parse().ok()?,
            by: By::Head,
        });
    }
    if let Some(authorization) = text(header::AUTHORIZATION.as_str()) {
        let (scheme, token) = authorization.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer");
        let (identity, id) = api.accounts.bearer(token.trim()).filter(|_| is_bearer)?;
        return Some(Caller {
            user: identity.user,
            role: identity.role,
            by: By::Token(id),
        });
    }
    let cookie = cookie(headers)?;
    // The role is read each time, so that a change applies at once.
    let (identity, _) = api.session_of(cookie, asked(headers))?;
    Some(Caller {
        user: identity.user,
        role: identity.role,
        by: By::Session(cookie.to_owned()),
    })
}

/// Whether a user sent the request, or an open page by itself.
pub fn asked(headers: &HeaderMap) -> RequestOrigin {
    match headers.contains_key(UNATTENDED_HEADER) {
        true => RequestOrigin::Page,
        false => RequestOrigin::User,
    }
}

/// The value of our cookie.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter();
    all.filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

/// Refuses a change that a page of another site may have caused: a browser adds the cookie automatically, but neither
/// our header nor our origin.
pub fn check_origin(
    api: &Api,
    method: &Method,
    headers: &HeaderMap,
    caller: Option<&Caller>,
) -> Result<(), Failure> {
    if method.is_safe() {
        return Ok(());
    }
    let refuse = |message: &str| Failure::new(FailureKind::Denied, message);
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(origin) = text(header::ORIGIN.as_str()) {
        let host = text(header::HOST.as_str()).unwrap_or_default();
        let (_, from) = origin.split_once("://").unwrap_or_default();
        if from != host {
            return Err(refuse("the request comes from a page of another site"));
        }
    }
    let Some(Caller {
        by: By::Session(cookie),
        ..
    }) = caller
    else {
        return Ok(());
    };
    let wanted = api
        .sessions
        .find(cookie, RequestOrigin::Page)
        .map(|session| session.csrf);
    let given = text(CSRF_HEADER).unwrap_or_default();
    let is_same =
        wanted.is_some_and(|wanted| bool::from(wanted.as_bytes().ct_eq(given.as_bytes())));
    match is_same {
        true => Ok(()),
        false => Err(refuse("the header X-Bulkhead-CSRF is missing or wrong")
            .advise("send the `csrf` of the login, or use a token instead of the cookie")),
    }
}

/// Refuses a request for another host name, which may be part of DNS rebinding: on the loopback only names of the
/// loopback are accepted, elsewhere addresses and the certificate's names.
pub fn check_host(
    headers: &HeaderMap,
    link: &Link,
    certificate: Option<&Arc<Certificate>>,
) -> Result<(), Failure> {
    if link.is_head.load(Ordering::Acquire) {
        return Ok(());
    }
    let value = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = value.map(without_port).unwrap_or_default();
    let address: Option<IpAddr> = host.parse().ok();
    let is_named = certificate.is_some_and(|certificate| certificate.is_for(host));
    let is_ours = match link.local.ip().to_canonical().is_loopback() {
        true => {
            address.map_or(host.eq_ignore_ascii_case("localhost"), |address| {
                address.to_canonical().is_loopback()
            }) || is_named
        }
        false => address.is_some() || is_named,
    };
    match is_ours {
        true => Ok(()),
        false => Err(Failure::new(
            FailureKind::Denied,
            format!("this head is not called {host:?}"),
        )
        .advise("use its address, or a name that its certificate has")),
    }
}

/// A host without port and brackets.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(local: &str) -> Link {
        Link {
            peer: "127.0.0.1:1000".parse().expect("address"),
            local: local.parse().expect("address"),
            is_encrypted: false,
            binding: None,
            is_head: AtomicBool::new(false),
            seat: None,
        }
    }

    fn is_let_in(host: &str, local: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a value"));
        check_host(&headers, &link(local), None).is_ok()
    }

    #[test]
    fn foreign_host_names_are_refused() {
        for host in [
            "localhost:7443",
            "127.0.0.1:7443",
            "[::1]:7443",
            "LOCALHOST",
        ] {
            assert!(is_let_in(host, "127.0.0.1:7443"), "{host}");
        }
        for host in [
            "evil.example.org",
            "10.0.0.1",
            "",
            "localhost.evil.example.org",
        ] {
            assert!(!is_let_in(host, "127.0.0.1:7443"), "{host}");
        }
        assert!(is_let_in("10.0.0.1:7443", "10.0.0.1:7443"));
        assert!(!is_let_in("evil.example.org", "10.0.0.1:7443"));
    }

    #[test]
    fn session_cookie_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        let line = "a=b; bulkhead_session=secret; c=d";
        headers.insert(header::COOKIE, line.parse().expect("a value"));
        assert_eq!(cookie(&headers), Some("secret"));
        assert_eq!(cookie(&HeaderMap::new()), None);
    }
}
