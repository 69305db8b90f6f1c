//! Negotiation of the operational keys (RFC 7143 sections 6.2 and 13) as the responder: each
//! offered pair produces a response and changes the parameters.

use super::parameters::{Capabilities, ConnectionParameters, SessionParameters};
use super::text::{IRRELEVANT, NOT_UNDERSTOOD, REJECT, ResponsePairs, number};

/// Smallest and largest value of the segment and burst lengths (section 13.12 to 13.14).
const LENGTH_MIN: u64 = 512;
const LENGTH_MAX: u64 = 0xff_ffff;
/// Maximum DefaultTime2Wait and DefaultTime2Retain, in seconds.
const TIME_MAX_S: u64 = 3600;

/// A fatal error of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegotiationError {
    /// The same key was offered twice.
    #[error("a key was offered twice")]
    Repeated,
    /// The initiator responded to a key that was not offered, or offered a key that only the target
    /// may offer.
    #[error("the initiator must not send this key")]
    InvalidOriginator,
}

/// The context of a negotiation, which determines the keys that may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// Login of a session's first connection.
    Leading,
    /// Login of a further connection: the session's parameters are fixed.
    Joining,
    /// Login of a discovery session: most keys are irrelevant.
    Discovery,
    /// Text negotiation in the full-feature phase.
    FullFeature,
}

/// The parameters under negotiation.
#[derive(Clone, Debug)]
pub struct Negotiation {
    /// The connection's.
    pub connection: ConnectionParameters,
    /// The session's.
    pub session: SessionParameters,
    capabilities: Capabilities,
    seen: Vec<String>,
    declared_segment: bool,
}

impl Negotiation {
    /// Starts with the given parameters.
    pub fn new(
        capabilities: Capabilities,
        connection: ConnectionParameters,
        session: SessionParameters,
    ) -> Self {
        Self {
            connection,
            session,
            capabilities,
            seen: Vec::new(),
            declared_segment: false,
        }
    }

    /// Permits every key to be offered again, for a new exchange of the full-feature phase.
    pub fn start_exchange(&mut self) {
        self.seen.clear();
        self.declared_segment = false;
    }

    /// Handles one offered pair and adds the response.
    pub fn offer(
        &mut self,
        scene: Scene,
        key: &str,
        value: &str,
        answers: &mut ResponsePairs,
    ) -> Result<(), NegotiationError> {
        if self.seen.iter().any(|seen| seen == key) {
            return Err(NegotiationError::Repeated);
        }
        self.seen.push(key.to_owned());
        if is_unsolicited_response(value) {
            // Section 6.2: such a value responds to an offer, and the target made none.
            return Err(NegotiationError::InvalidOriginator);
        }
        match scene {
            Scene::FullFeature if !is_changeable_in_full_feature(key) => {
                let answer = if is_known_key(key) {
                    REJECT
                } else {
                    NOT_UNDERSTOOD
                };
                answers.add(key, answer);
                Ok(())
            }
            Scene::Discovery if is_irrelevant_in_discovery(key) => {
                answers.add(key, IRRELEVANT);
                Ok(())
            }
            _ => self.negotiate(scene, key, value, answers),
        }
    }

    /// Declares the target's MaxRecvDataSegmentLength, once.
    pub fn declare(&mut self, answers: &mut ResponsePairs) {
        if !std::mem::replace(&mut self.declared_segment, true) {
            answers.add(
                "MaxRecvDataSegmentLength",
                self.capabilities.segment_bytes_max,
            );
        }
    }

    fn negotiate(
        &mut self,
        scene: Scene,
        key: &str,
        value: &str,
        answers: &mut ResponsePairs,
    ) -> Result<(), NegotiationError> {
        let limits = self.capabilities;
        let session = &mut self.session;
        // A further connection cannot change the session's parameters; it receives the current
        // ones.
        let mut scratch = *session;
        let target = if scene == Scene::Joining {
            &mut scratch
        } else {
            session
        };
        let answer = match key {
            "HeaderDigest" => choose_digest(value, &mut self.connection.header_digest),
            "DataDigest" => choose_digest(value, &mut self.connection.data_digest),
            "MaxRecvDataSegmentLength" => match in_range(value, LENGTH_MIN, LENGTH_MAX) {
                Some(bytes) => {
                    self.connection.initiator_segment_bytes_max = bytes as u32;
                    self.declare(answers);
                    return Ok(());
                }
                None => {
                    // The rejection is the only response to this key: no declaration is added.
                    self.declared_segment = true;
                    Some(REJECT.to_owned())
                }
            },
            "MaxConnections" => lower(value, 1, 65_535, limits.connections_max.into(), |v| {
                target.max_connections = v as u16;
            }),
            "InitialR2T" => either(value, false, &mut target.initial_r2t),
            "ImmediateData" => both(value, true, &mut target.immediate_data),
            "MaxBurstLength" => lower(
                value,
                LENGTH_MIN,
                LENGTH_MAX,
                limits.burst_bytes_max.into(),
                |v| target.max_burst_bytes = v as u32,
            ),
            "FirstBurstLength" => lower(
                value,
                LENGTH_MIN,
                LENGTH_MAX,
                limits.first_burst_bytes_max.into(),
                |v| target.first_burst_bytes = v as u32,
            ),
            "DefaultTime2Wait" => higher(value, 0, TIME_MAX_S, 0, |v| {
                target.time_to_wait_s = v as u16;
            }),
            "DefaultTime2Retain" => lower(value, 0, TIME_MAX_S, 0, |v| {
                target.time_to_retain_s = v as u16;
            }),
            "MaxOutstandingR2T" => {
                lower(value, 1, 65_535, limits.outstanding_r2t_max.into(), |v| {
                    target.max_outstanding_r2t = v as u16;
                })
            }
            "DataPDUInOrder" => either(value, true, &mut target.data_pdu_in_order),
            "DataSequenceInOrder" => either(value, true, &mut target.data_sequence_in_order),
            "ErrorRecoveryLevel" => lower(value, 0, 2, 0, |_| {}),
            // RFC 7144: level 1 is RFC 7143 itself.
            "iSCSIProtocolLevel" => lower(value, 0, 31, 1, |_| {}),
            "TaskReporting" => choose(value, &["RFC3720"]),
            // Section 13.25: obsolete keys.
            "IFMarker" | "OFMarker" | "IFMarkInt" | "OFMarkInt" => None,
            "TargetAlias" | "TargetAddress" | "TargetPortalGroupTag" => {
                return Err(NegotiationError::InvalidOriginator);
            }
            "InitiatorAlias" => return Ok(()),
            _ => Some(NOT_UNDERSTOOD.to_owned()),
        };
        match answer {
            Some(_) if scene == Scene::Joining && is_session_wide(key) => {
                answers.add(key, describe(&self.session, key));
            }
            Some(answer) => answers.add(key, answer),
            None => answers.add(key, REJECT),
        }
        Ok(())
    }

    /// Ensures that FirstBurstLength does not exceed MaxBurstLength.
    pub fn settle(&mut self) {
        let session = &mut self.session;
        session.first_burst_bytes = session.first_burst_bytes.min(session.max_burst_bytes);
    }
}

/// Returns a session parameter as text.
fn describe(session: &SessionParameters, key: &str) -> String {
    let yes_no = |value| if value { "Yes" } else { "No" }.to_owned();
    match key {
        "MaxConnections" => session.max_connections.to_string(),
        "InitialR2T" => yes_no(session.initial_r2t),
        "ImmediateData" => yes_no(session.immediate_data),
        "MaxBurstLength" => session.max_burst_bytes.to_string(),
        "FirstBurstLength" => session.first_burst_bytes.to_string(),
        "DefaultTime2Wait" => session.time_to_wait_s.to_string(),
        "DefaultTime2Retain" => session.time_to_retain_s.to_string(),
        "MaxOutstandingR2T" => session.max_outstanding_r2t.to_string(),
        "DataPDUInOrder" => yes_no(session.data_pdu_in_order),
        "DataSequenceInOrder" => yes_no(session.data_sequence_in_order),
        _ => "0".to_owned(),
    }
}

fn is_unsolicited_response(value: &str) -> bool {
    [NOT_UNDERSTOOD, IRRELEVANT, REJECT].contains(&value)
}

fn is_changeable_in_full_feature(key: &str) -> bool {
    matches!(key, "MaxRecvDataSegmentLength" | "InitiatorAlias")
}

fn is_irrelevant_in_discovery(key: &str) -> bool {
    matches!(
        key,
        "MaxConnections"
            | "InitialR2T"
            | "ImmediateData"
            | "MaxBurstLength"
            | "FirstBurstLength"
            | "MaxOutstandingR2T"
            | "DataPDUInOrder"
            | "DataSequenceInOrder"
    )
}

fn is_session_wide(key: &str) -> bool {
    is_irrelevant_in_discovery(key)
        || matches!(
            key,
            "DefaultTime2Wait" | "DefaultTime2Retain" | "ErrorRecoveryLevel"
        )
}

/// Whether a key is defined by the standard, or is a valid name of an extension (section 6.1: those
/// begin with `X-` or `X#`).
pub fn is_legal(key: &str) -> bool {
    key.starts_with("X-") || key.starts_with("X#") || is_known_key(key)
}

fn is_known_key(key: &str) -> bool {
    is_session_wide(key)
        || matches!(
            key,
            "HeaderDigest"
                | "DataDigest"
                | "IFMarker"
                | "OFMarker"
                | "IFMarkInt"
                | "OFMarkInt"
                | "iSCSIProtocolLevel"
                | "TaskReporting"
                | "InitiatorName"
                | "TargetName"
                | "SessionType"
                | "AuthMethod"
                | "InitiatorAlias"
                | "MaxRecvDataSegmentLength"
                | "TargetAlias"
                | "TargetAddress"
                | "TargetPortalGroupTag"
        )
}

/// Returns the first supported value of the initiator's list.
fn choose(list: &str, known: &[&str]) -> Option<String> {
    list.split(',')
        .find(|offer| known.contains(offer))
        .map(str::to_owned)
}

fn choose_digest(list: &str, enabled: &mut bool) -> Option<String> {
    let chosen = choose(list, &["None", "CRC32C"])?;
    *enabled = chosen == "CRC32C";
    Some(chosen)
}

fn in_range(value: &str, min: u64, max: u64) -> Option<u64> {
    number(value).filter(|value| (min..=max).contains(value))
}

/// Sets the minimum of the two.
fn lower(value: &str, min: u64, max: u64, ours: u64, set: impl FnOnce(u64)) -> Option<String> {
    let result = in_range(value, min, max)?.min(ours);
    set(result);
    Some(result.to_string())
}

/// Sets the maximum of the two.
fn higher(value: &str, min: u64, max: u64, ours: u64, set: impl FnOnce(u64)) -> Option<String> {
    let result = in_range(value, min, max)?.max(ours);
    set(result);
    Some(result.to_string())
}

fn yes_no(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn set_yes_no(result: bool, place: &mut bool) -> Option<String> {
    *place = result;
    Some(if result { "Yes" } else { "No" }.to_owned())
}

/// Sets Yes if at least one of the two is Yes.
fn either(value: &str, ours: bool, place: &mut bool) -> Option<String> {
    set_yes_no(yes_no(value)? || ours, place)
}

/// Sets Yes if both are Yes.
fn both(value: &str, ours: bool, place: &mut bool) -> Option<String> {
    set_yes_no(yes_no(value)? && ours, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Negotiation {
        Negotiation::new(
            Capabilities::default(),
            ConnectionParameters::default(),
            SessionParameters::default(),
        )
    }

    fn ask(negotiation: &mut Negotiation, scene: Scene, key: &str, value: &str) -> String {
        let mut answers = ResponsePairs::default();
        negotiation.offer(scene, key, value, &mut answers).unwrap();
        String::from_utf8(answers.into_bytes())
            .unwrap()
            .replace('\0', ";")
    }

    #[test]
    fn each_key_is_negotiated_by_its_result_function() {
        for (key, value, answer) in [
            ("HeaderDigest", "CRC32C,None", "HeaderDigest=CRC32C;"),
            ("DataDigest", "X-foo,None,CRC32C", "DataDigest=None;"),
            ("DataDigest", "MD5", "DataDigest=Reject;"),
            ("MaxConnections", "16", "MaxConnections=8;"),
            ("MaxConnections", "0", "MaxConnections=Reject;"),
            ("InitialR2T", "No", "InitialR2T=No;"),
            ("InitialR2T", "Yes", "InitialR2T=Yes;"),
            ("InitialR2T", "maybe", "InitialR2T=Reject;"),
            ("ImmediateData", "Yes", "ImmediateData=Yes;"),
            ("MaxBurstLength", "16776192", "MaxBurstLength=1048576;"),
            ("FirstBurstLength", "0x1000", "FirstBurstLength=4096;"),
            ("DefaultTime2Wait", "2", "DefaultTime2Wait=2;"),
            ("DefaultTime2Retain", "20", "DefaultTime2Retain=0;"),
            ("ErrorRecoveryLevel", "2", "ErrorRecoveryLevel=0;"),
            ("DataPDUInOrder", "No", "DataPDUInOrder=Yes;"),
            ("IFMarker", "No", "IFMarker=Reject;"),
            (
                "TaskReporting",
                "FastAbort,RFC3720",
                "TaskReporting=RFC3720;",
            ),
            ("X-com.example.a", "1", "X-com.example.a=NotUnderstood;"),
            (
                "MaxRecvDataSegmentLength",
                "262144",
                "MaxRecvDataSegmentLength=262144;",
            ),
        ] {
            assert_eq!(
                ask(&mut fresh(), Scene::Leading, key, value),
                answer,
                "{key}={value}"
            );
        }
    }

    #[test]
    fn invalid_segment_length_gets_one_reject() {
        let mut negotiation = fresh();
        let scene = Scene::Leading;
        let answer = ask(&mut negotiation, scene, "MaxRecvDataSegmentLength", "x");
        assert_eq!(answer, "MaxRecvDataSegmentLength=Reject;");
        let mut later = ResponsePairs::default();
        negotiation.declare(&mut later);
        assert_eq!(later.into_bytes(), b"");
    }

    #[test]
    fn a_discovery_session_finds_data_keys_irrelevant() {
        let mut negotiation = fresh();
        let answer = ask(&mut negotiation, Scene::Discovery, "MaxBurstLength", "4096");
        assert_eq!(answer, "MaxBurstLength=Irrelevant;");
        assert_eq!(negotiation.session, SessionParameters::default());
    }

    #[test]
    fn joining_connection_gets_the_session_parameters() {
        let mut negotiation = fresh();
        negotiation.session.max_burst_bytes = 65_536;
        let answer = ask(&mut negotiation, Scene::Joining, "MaxBurstLength", "4096");
        assert_eq!(answer, "MaxBurstLength=65536;");
        assert_eq!(negotiation.session.max_burst_bytes, 65_536);
    }

    #[test]
    fn a_key_offered_twice_ends_the_negotiation() {
        let mut negotiation = fresh();
        let mut answers = ResponsePairs::default();
        negotiation
            .offer(Scene::Leading, "InitialR2T", "No", &mut answers)
            .unwrap();
        assert_eq!(
            negotiation.offer(Scene::Leading, "InitialR2T", "No", &mut answers),
            Err(NegotiationError::Repeated)
        );
    }

    #[test]
    fn only_the_segment_length_changes_in_full_feature_phase() {
        let mut negotiation = fresh();
        let scene = Scene::FullFeature;
        assert_eq!(
            ask(&mut negotiation, scene, "HeaderDigest", "CRC32C"),
            "HeaderDigest=Reject;"
        );
        ask(&mut negotiation, scene, "MaxRecvDataSegmentLength", "4096");
        assert_eq!(negotiation.connection.initiator_segment_bytes_max, 4096);
    }
}
