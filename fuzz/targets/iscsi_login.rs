//! Login requests with any header and any text, with and without CHAP: every login terminates, no
//! initiator gets in without the secret, and the negotiated values are within the limits of the
//! standard.

#![no_main]

use iscsi::protocol::header::Header;
use iscsi::protocol::login::{Admission, Directory, Login, LoginStep};
use iscsi::protocol::parameters::{Capabilities, SessionParameters};
use iscsi::protocol::request::Request;
use iscsi::{Chap, Credentials, Secret};
use libfuzzer_sys::fuzz_target;
use units::IscsiName;

/// More requests than any login may take.
const REQUESTS_MAX: usize = 200;

struct OneTarget {
    chap: bool,
}

impl OneTarget {
    fn required_chap(&self) -> Option<Chap> {
        self.chap.then(|| Chap {
            initiators: vec![Credentials {
                user: "u".into(),
                secret: Secret::new(b"a long secret here".to_vec()),
                initiators: Vec::new(),
            }],
            mutual: None,
        })
    }
}

impl Directory for OneTarget {
    fn admit(&self, _initiator: &IscsiName, target: &IscsiName) -> Admission {
        if target.as_str() != "iqn.2026-01.org.example:t" {
            return Admission::NotFound;
        }
        Admission::Granted {
            portal_group: 1,
            chap: self.required_chap(),
        }
    }

    fn discovery_chap(&self) -> Option<Chap> {
        self.required_chap()
    }

    fn session(
        &self,
        tsih: u16,
        _isid: [u8; 6],
        _initiator: &IscsiName,
        _target: &IscsiName,
    ) -> Option<SessionParameters> {
        (tsih == 1).then(SessionParameters::default)
    }
}

/// Splits off a chunk; its first byte is the length.
fn chunk<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = input.split_first()?;
    let (front, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    *input = rest;
    Some(front)
}

fuzz_target!(|input: &[u8]| {
    let directory = OneTarget {
        chap: input.first().is_some_and(|byte| byte & 1 != 0),
    };
    let mut rest = input.get(1..).unwrap_or_default();
    let mut login = Login::new(Capabilities::default());
    // A challenge that the fuzzer cannot learn from input to input.
    let mut random = |bytes: &mut [u8]| {
        bytes
            .iter_mut()
            .zip(0x5a..)
            .for_each(|(to, from)| *to = from)
    };
    for count in 0.. {
        assert!(count < REQUESTS_MAX, "a login without end");
        let (Some(flags), Some(text)) = (chunk(&mut rest), chunk(&mut rest)) else {
            return;
        };
        let mut header = Header::new(0x43);
        let copied = flags.len().min(19);
        header.0[1..1 + copied].copy_from_slice(&flags[..copied]);
        let Ok(Request::Login(request)) = Request::decode(&header, &[]) else {
            return;
        };
        match login.receive(&request, text, &directory, &mut random) {
            LoginStep::Reply { .. } => {}
            LoginStep::Refuse { .. } => return,
            LoginStep::Agreed(agreed) => {
                assert!(!directory.chap, "in without the secret");
                assert!((512..=0xff_ffff).contains(&agreed.connection.initiator_segment_bytes_max));
                assert!((512..=0xff_ffff).contains(&agreed.session.max_burst_bytes));
                assert!(agreed.session.first_burst_bytes <= agreed.session.max_burst_bytes);
                return;
            }
        }
    }
});
