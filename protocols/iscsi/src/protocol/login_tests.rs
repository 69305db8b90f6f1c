//! Complete logins, request by request.

use super::*;
use crate::protocol::chap::{Credentials, Secret};
use crate::protocol::request::Request;

#[derive(Default)]
struct Rules {
    chap: Option<Chap>,
    discovery: Option<Chap>,
}

const TARGET: &str = "iqn.2026-01.org.example:disk";

impl Directory for Rules {
    fn admit(&self, initiator: &IscsiName, target: &IscsiName) -> Admission {
        if target.as_str() != TARGET {
            Admission::NotFound
        } else if initiator.as_str().ends_with("mallory") {
            Admission::Refused
        } else {
            Admission::Granted {
                portal_group: 3,
                chap: self.chap.clone(),
            }
        }
    }

    fn discovery_chap(&self) -> Option<Chap> {
        self.discovery.clone()
    }

    fn session(
        &self,
        tsih: u16,
        _: [u8; 6],
        _: &IscsiName,
        _: &IscsiName,
    ) -> Option<SessionParameters> {
        (tsih == 5).then(SessionParameters::default)
    }
}

fn alice() -> Chap {
    Chap {
        initiators: vec![Credentials {
            user: "alice".to_owned(),
            secret: Secret::new(b"secret".to_vec()),
            initiators: Vec::new(),
        }],
        mutual: None,
    }
}

/// printf '\x07secret\x07...' | md5sum, with 16 bytes of 07
const ALICES_RESPONSE: &[u8] = b"CHAP_N=alice\0CHAP_R=0x1d03b4200f3b60db8a80a0445afb867f\0";

/// `flags` is byte 1: T, C, CSG, NSG.
fn request(flags: u8, tsih: u16) -> LoginRequest {
    let mut header = Header::new(0x43);
    header.0[1] = flags;
    header.set_half(14, tsih);
    header.set_word(24, 100);
    match Request::decode(&header, &[]) {
        Ok(Request::Login(request)) => request,
        other => panic!("not a login: {other:?}"),
    }
}

fn names(extra: &str) -> Vec<u8> {
    format!("InitiatorName=iqn.2026-01.org.example:alice;TargetName={TARGET};{extra}")
        .replace(';', "\0")
        .into_bytes()
}

fn play(login: &mut Login, rules: &Rules, flags: u8, text: &[u8]) -> LoginStep {
    login.receive(&request(flags, 0), text, rules, &mut |bytes| bytes.fill(7))
}

fn text_of(step: LoginStep) -> (Header, String) {
    match step {
        LoginStep::Reply { header, text } => {
            (header, String::from_utf8(text).unwrap().replace('\0', ";"))
        }
        LoginStep::Agreed(agreed) => {
            let (header, text) = agreed.accept(9);
            let text = String::from_utf8(text.to_vec()).unwrap();
            (header, text.replace('\0', ";"))
        }
        LoginStep::Refuse { why, .. } => panic!("refused: {why}"),
    }
}

fn status_of(step: LoginStep) -> u16 {
    match step {
        LoginStep::Refuse { header, .. } => header.half(36),
        other => panic!("not refused: {other:?}"),
    }
}

/// T, security to operational.
const SECURITY: u8 = 0x81;
/// T, operational to full feature.
const OPERATIONAL: u8 = 0x87;

#[test]
fn a_plain_login_goes_through_both_stages() {
    let (mut login, rules) = (Login::new(Capabilities::default()), Rules::default());
    let text = names("SessionType=Normal;AuthMethod=CHAP,None;");
    let (header, text) = text_of(play(&mut login, &rules, SECURITY, &text));
    assert_eq!(text, "TargetPortalGroupTag=3;AuthMethod=None;");
    assert_eq!(header.0[1], 0x81);
    let offer = b"InitialR2T=No\0MaxBurstLength=262144\0FirstBurstLength=262144\0";
    let (header, text) = text_of(play(&mut login, &rules, OPERATIONAL, offer));
    assert_eq!(
        text,
        "InitialR2T=No;MaxBurstLength=262144;FirstBurstLength=262144;\
         MaxRecvDataSegmentLength=262144;"
    );
    assert_eq!(header.0[1], 0x87);
    assert_eq!(header.half(14), 9);
}

#[test]
fn text_split_by_the_c_bit_is_joined() {
    let (mut login, rules) = (Login::new(Capabilities::default()), Rules::default());
    let text = names("AuthMethod=None;");
    let (head, tail) = text.split_at(20);
    let (header, answer) = text_of(play(&mut login, &rules, 0x40, head));
    assert_eq!((header.0[1], answer.as_str()), (0, ""));
    let (_, answer) = text_of(play(&mut login, &rules, SECURITY, tail));
    assert!(answer.contains("AuthMethod=None;"));
}

#[test]
fn refused_logins_carry_the_rfc_7143_status() {
    let open = Rules::default();
    let closed = Rules {
        chap: Some(alice()),
        ..Rules::default()
    };
    let with = |text: &str| text.replace(';', "\0").into_bytes();
    let elsewhere = with("InitiatorName=iqn.2026-01.a:b;TargetName=iqn.2026-01.a:c;");
    let mallory = with(&format!(
        "InitiatorName=iqn.2026-01.a:mallory;TargetName={TARGET};"
    ));
    for (rules, flags, text, status) in [
        (&open, SECURITY, with("TargetName=x;"), 0x0207),
        (
            &open,
            SECURITY,
            with("InitiatorName=iqn.2026-01.a:b;"),
            0x0207,
        ),
        (&open, SECURITY, elsewhere, 0x0203),
        (&open, SECURITY, mallory, 0x0202),
        (&open, SECURITY, names("SessionType=Odd;"), 0x0209),
        (&open, SECURITY, names("AuthMethod=CHAP;"), 0x0201),
        (&open, SECURITY, b"garbage".to_vec(), 0x0200),
        (&open, 0x8f, names(""), 0x0200),
        (&open, 0x80, names(""), 0x0200),
        (&open, 0x82, names(""), 0x0200),
        (&closed, SECURITY, names("AuthMethod=None;"), 0x0201),
        (&closed, OPERATIONAL, names(""), 0x0201),
        (&closed, 0x83, names(""), 0x0201),
    ] {
        let mut login = Login::new(Capabilities::default());
        let step = play(&mut login, rules, flags, &text);
        assert_eq!(
            status_of(step),
            status,
            "{}",
            String::from_utf8_lossy(&text)
        );
    }
    let mut login = Login::new(Capabilities::default());
    let step = login.receive(&request(SECURITY, 6), &names(""), &open, &mut |_| ());
    assert_eq!(status_of(step), 0x020a);
}

#[test]
fn chap_completes_before_the_stage_changes() {
    let rules = Rules {
        chap: Some(alice()),
        ..Rules::default()
    };
    let mut login = Login::new(Capabilities::default());
    begin_chap(&mut login, &rules, &names("AuthMethod=CHAP;"));
    let (header, _) = text_of(play(&mut login, &rules, SECURITY, ALICES_RESPONSE));
    assert_eq!(header.0[1], 0x81);
    let step = play(&mut login, &rules, OPERATIONAL, b"");
    assert!(matches!(step, LoginStep::Agreed(_)));
}

/// Logs in up to the initiator's challenge.
fn begin_chap(login: &mut Login, rules: &Rules, first: &[u8]) {
    let (header, _) = text_of(play(login, rules, SECURITY, first));
    assert_eq!(header.0[1], 0, "not ready to move on");
    let (_, text) = text_of(play(login, rules, 0, b"CHAP_A=5\0"));
    let challenge = "07".repeat(16);
    assert_eq!(text, format!("CHAP_A=5;CHAP_I=7;CHAP_C=0x{challenge};"));
}

/// A discovery session must authenticate with the discovery credentials, and with none if only
/// targets have some.
#[test]
fn discovery_session_requires_the_discovery_secret() {
    let discovery = |keys: &str| {
        format!("InitiatorName=iqn.2026-01.org.example:alice;SessionType=Discovery;{keys}")
            .replace(';', "\0")
            .into_bytes()
    };
    let closed = Rules {
        discovery: Some(alice()),
        ..Rules::default()
    };
    for (flags, keys) in [
        (SECURITY, "AuthMethod=None;"),
        (SECURITY, ""),
        (OPERATIONAL, ""),
        (0x83, ""),
    ] {
        let mut login = Login::new(Capabilities::default());
        let step = play(&mut login, &closed, flags, &discovery(keys));
        assert_eq!(status_of(step), 0x0201, "{keys} {flags:#x}");
    }
    let mut login = Login::new(Capabilities::default());
    begin_chap(&mut login, &closed, &discovery("AuthMethod=CHAP,None;"));
    let wrong = b"CHAP_N=alice\0CHAP_R=0x1d03b4200f3b60db8a80a0445afb867e\0";
    assert_eq!(
        status_of(play(&mut login, &closed, SECURITY, wrong)),
        0x0201
    );
    let mut login = Login::new(Capabilities::default());
    begin_chap(&mut login, &closed, &discovery("AuthMethod=CHAP;"));
    text_of(play(&mut login, &closed, SECURITY, ALICES_RESPONSE));
    let agreed = play(&mut login, &closed, OPERATIONAL, b"");
    assert!(matches!(agreed, LoginStep::Agreed(one) if one.kind == SessionKind::Discovery));
    // Each requires its own secret only.
    let mut login = Login::new(Capabilities::default());
    text_of(play(
        &mut login,
        &closed,
        SECURITY,
        &names("AuthMethod=None;"),
    ));
    let targets_only = Rules {
        chap: Some(alice()),
        ..Rules::default()
    };
    let mut login = Login::new(Capabilities::default());
    let step = play(&mut login, &targets_only, OPERATIONAL, &discovery(""));
    assert!(matches!(step, LoginStep::Agreed(_)));
}

#[test]
fn chap_is_not_bypassed_by_a_stage_change() {
    let rules = Rules {
        chap: Some(alice()),
        ..Rules::default()
    };
    let mut login = Login::new(Capabilities::default());
    text_of(play(
        &mut login,
        &rules,
        SECURITY,
        &names("AuthMethod=CHAP;"),
    ));
    let step = play(&mut login, &rules, OPERATIONAL, b"");
    assert_eq!(status_of(step), 0x0200, "the stage is still security");
}

#[test]
fn rejected_initiator_name_is_available_for_the_log() {
    let (mut login, rules) = (Login::new(Capabilities::default()), Rules::default());
    let text = format!("InitiatorName=iqn.2026-01.a:mallory;TargetName={TARGET};");
    let text = text.replace(';', "\0").into_bytes();
    assert_eq!(status_of(play(&mut login, &rules, SECURITY, &text)), 0x0202);
    let name = login.initiator().map(IscsiName::as_str);
    assert_eq!(name, Some("iqn.2026-01.a:mallory"));
}

#[test]
fn endless_login_is_refused() {
    let (mut login, rules) = (Login::new(Capabilities::default()), Rules::default());
    text_of(play(&mut login, &rules, 0, &names("")));
    for _ in 1..REQUESTS_MAX {
        text_of(play(&mut login, &rules, 0, b""));
    }
    assert_eq!(status_of(play(&mut login, &rules, 0, b"")), 0x0200);
}
