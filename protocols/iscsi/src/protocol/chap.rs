//! CHAP (RFC 1994, RFC 7143 section 12.1.3) one way and mutual, as the target. Secrets are wiped
//! from memory when dropped, compared in constant time, and never printed.

use md5::Md5;
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use units::IscsiName;
use zeroize::Zeroizing;

use super::text::{ResponsePairs, binary, number, to_hex};

/// Maximum bytes of a challenge (section 12.1.3).
const CHALLENGE_BYTES_MAX: usize = 1024;
/// Maximum bytes of CHAP_N.
const NAME_BYTES_MAX: usize = 255;

/// A shared secret.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Wraps the bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_as(other)
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A name and a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// CHAP_N.
    pub user: String,
    /// The secret.
    pub secret: Secret,
    /// The initiator names that may use it; empty means any.
    pub initiators: Vec<IscsiName>,
}

impl Credentials {
    /// Whether an initiator of that name may use them.
    fn are_for(&self, initiator: &IscsiName) -> bool {
        self.initiators.is_empty() || self.initiators.contains(initiator)
    }
}

/// The credentials of a target for both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chap {
    /// The initiator must authenticate with one of these.
    pub initiators: Vec<Credentials>,
    /// The credentials of the target for mutual authentication; `None` refuses it.
    pub mutual: Option<Credentials>,
}

/// Hash algorithms (the numbers of IANA's PPP registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha256,
}

impl Algorithm {
    const fn number(self) -> u64 {
        match self {
            Self::Md5 => 5,
            Self::Sha1 => 6,
            Self::Sha256 => 7,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        [Self::Md5, Self::Sha1, Self::Sha256]
            .into_iter()
            .find(|algorithm| algorithm.number() == number)
    }

    /// Bytes of a response, and of the challenges that the target sends.
    const fn digest_bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    fn response(self, id: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        fn hash<D: sha2::Digest>(id: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
            let mut hasher = D::new();
            hasher.update([id]);
            hasher.update(&*secret.0);
            hasher.update(challenge);
            hasher.finalize().to_vec()
        }
        match self {
            Self::Md5 => hash::<Md5>(id, secret, challenge),
            Self::Sha1 => hash::<Sha1>(id, secret, challenge),
            Self::Sha256 => hash::<Sha256>(id, secret, challenge),
        }
    }
}

/// Why authentication failed. Logged for the administrator; the initiator only receives the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// There is no common algorithm.
    #[error("no common CHAP algorithm")]
    NoCommonAlgorithm,
    /// A key is missing, malformed or out of sequence.
    #[error("malformed CHAP exchange")]
    Malformed,
    /// Name or response is wrong.
    #[error("wrong CHAP name or response")]
    Wrong,
    /// The target's own challenge was sent back, or both directions have the same secret.
    #[error("reflected CHAP challenge")]
    Reflected,
    /// The initiator requests mutual authentication, but the target has no credentials for it.
    #[error("mutual CHAP is not set up")]
    NoMutualSecret,
}

/// The state of the exchange.
#[derive(Debug)]
enum Step {
    AwaitAlgorithm,
    AwaitResponse {
        algorithm: Algorithm,
        id: u8,
        challenge: Vec<u8>,
    },
    Done,
}

/// One CHAP exchange.
#[derive(Debug)]
pub struct ChapExchange {
    chap: Chap,
    /// The initiator's name.
    initiator: IscsiName,
    step: Step,
}

/// The CHAP keys of one request.
#[derive(Default, Debug)]
pub struct ChapKeys<'a> {
    /// CHAP_A
    pub algorithms: Option<&'a str>,
    /// CHAP_I
    pub id: Option<&'a str>,
    /// CHAP_C
    pub challenge: Option<&'a str>,
    /// CHAP_N
    pub name: Option<&'a str>,
    /// CHAP_R
    pub response: Option<&'a str>,
}

impl<'a> ChapKeys<'a> {
    /// Stores a pair if it is a CHAP key; a repeated key is an error.
    pub fn take(&mut self, key: &str, value: &'a str) -> Result<bool, ChapError> {
        let place = match key {
            "CHAP_A" => &mut self.algorithms,
            "CHAP_I" => &mut self.id,
            "CHAP_C" => &mut self.challenge,
            "CHAP_N" => &mut self.name,
            "CHAP_R" => &mut self.response,
            _ => return Ok(false),
        };
        match place.replace(value) {
            None => Ok(true),
            Some(_) => Err(ChapError::Malformed),
        }
    }

    /// Whether the request had no CHAP key.
    pub fn is_empty(&self) -> bool {
        let all = [
            self.algorithms,
            self.id,
            self.challenge,
            self.name,
            self.response,
        ];
        all.iter().all(Option::is_none)
    }
}

impl ChapExchange {
    /// Starts an exchange after the initiator of that name chose AuthMethod=CHAP.
    pub fn new(chap: Chap, initiator: IscsiName) -> Self {
        Self {
            chap,
            initiator,
            step: Step::AwaitAlgorithm,
        }
    }

    /// Whether the initiator is authenticated.
    pub fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    /// Handles the keys of one request. `random` fills bytes that cannot be predicted.
    pub fn receive(
        &mut self,
        keys: &ChapKeys<'_>,
        answers: &mut ResponsePairs,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), ChapError> {
        match std::mem::replace(&mut self.step, Step::AwaitAlgorithm) {
            Step::AwaitAlgorithm => self.choose(keys, answers, random),
            Step::AwaitResponse {
                algorithm,
                id,
                challenge,
            } => {
                self.check(keys, algorithm, id, &challenge)?;
                self.prove(keys, algorithm, &challenge, answers)?;
                self.step = Step::Done;
                Ok(())
            }
            Step::Done => Err(ChapError::Malformed),
        }
    }

    fn choose(
        &mut self,
        keys: &ChapKeys<'_>,
        answers: &mut ResponsePairs,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), ChapError> {
        let offered = keys.algorithms.ok_or(ChapError::Malformed)?;
        let algorithm = offered
            .split(',')
            .find_map(|offer| number(offer).and_then(Algorithm::from_number))
            .ok_or(ChapError::NoCommonAlgorithm)?;
        let mut id = [0];
        let mut challenge = vec![0; algorithm.digest_bytes()];
        random(&mut id);
        random(&mut challenge);
        answers.add("CHAP_A", algorithm.number());
        answers.add("CHAP_I", id[0]);
        answers.add("CHAP_C", to_hex(&challenge));
        self.step = Step::AwaitResponse {
            algorithm,
            id: id[0],
            challenge,
        };
        Ok(())
    }

    fn check(
        &self,
        keys: &ChapKeys<'_>,
        algorithm: Algorithm,
        id: u8,
        challenge: &[u8],
    ) -> Result<(), ChapError> {
        let name = keys.name.ok_or(ChapError::Malformed)?;
        let response = keys.response.ok_or(ChapError::Malformed)?;
        let response = binary(response, algorithm.digest_bytes()).ok_or(ChapError::Malformed)?;
        // All are compared, so that the timing does not reveal the existing names.
        let mut same = subtle::Choice::from(0);
        for known in &self.chap.initiators {
            let expected = algorithm.response(id, &known.secret, challenge);
            let same_name = name.as_bytes().ct_eq(known.user.as_bytes());
            // An initiator with the secret of one host must not use the name of another host, with
            // its sessions and reservations.
            let is_theirs = subtle::Choice::from(u8::from(known.are_for(&self.initiator)));
            same |= same_name & is_theirs & expected.ct_eq(&response);
        }
        if name.len() <= NAME_BYTES_MAX && bool::from(same) {
            Ok(())
        } else {
            Err(ChapError::Wrong)
        }
    }

    fn prove(
        &self,
        keys: &ChapKeys<'_>,
        algorithm: Algorithm,
        our_challenge: &[u8],
        answers: &mut ResponsePairs,
    ) -> Result<(), ChapError> {
        let (id, challenge) = match (keys.id, keys.challenge) {
            (None, None) => return Ok(()),
            (Some(id), Some(challenge)) => (id, challenge),
            _ => return Err(ChapError::Malformed),
        };
        let id = number(id)
            .and_then(|id| u8::try_from(id).ok())
            .ok_or(ChapError::Malformed)?;
        let challenge = binary(challenge, CHALLENGE_BYTES_MAX).ok_or(ChapError::Malformed)?;
        if challenge.is_empty() {
            return Err(ChapError::Malformed);
        }
        let mutual = self.chap.mutual.as_ref().ok_or(ChapError::NoMutualSecret)?;
        // Section 12.1.3: a reflected challenge must be refused, and both directions must not share
        // a secret. Otherwise the target would compute the response to its own challenge for an
        // attacker.
        let mut known = self.chap.initiators.iter();
        if challenge == our_challenge || known.any(|one| mutual.secret.is_same_as(&one.secret)) {
            return Err(ChapError::Reflected);
        }
        let response = algorithm.response(id, &mutual.secret, &challenge);
        answers.add("CHAP_N", &mutual.user);
        answers.add("CHAP_R", to_hex(&response));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(user: &str, secret: &str) -> Credentials {
        Credentials {
            user: user.to_owned(),
            secret: Secret::new(secret.as_bytes().to_vec()),
            initiators: Vec::new(),
        }
    }

    fn host(name: &str) -> IscsiName {
        format!("iqn.2026-01.org.example:{name}").parse().unwrap()
    }

    fn chap() -> Chap {
        Chap {
            initiators: vec![
                credentials("bob", "a secret of bob"),
                credentials("alice", "a secret of alice"),
            ],
            mutual: Some(credentials("target", "a secret of ours")),
        }
    }

    fn begin(chap: Chap, algorithms: &str) -> (ChapExchange, String) {
        let mut exchange = ChapExchange::new(chap, host("alice"));
        let mut answers = ResponsePairs::default();
        let keys = ChapKeys {
            algorithms: Some(algorithms),
            ..ChapKeys::default()
        };
        exchange
            .receive(&keys, &mut answers, &mut |bytes| bytes.fill(7))
            .unwrap();
        let text = String::from_utf8(answers.into_bytes()).unwrap();
        (exchange, text)
    }

    fn respond(exchange: &mut ChapExchange, keys: &ChapKeys<'_>) -> Result<String, ChapError> {
        let mut answers = ResponsePairs::default();
        exchange.receive(keys, &mut answers, &mut |_| ())?;
        Ok(String::from_utf8(answers.into_bytes()).unwrap())
    }

    /// Algorithm numbers and the bytes of their digests.
    const RESPONSES: [(&str, usize); 3] = [("5", 16), ("6", 20), ("7", 32)];

    #[test]
    fn correct_secret_is_accepted_with_every_algorithm() {
        for (number, bytes) in RESPONSES {
            let (mut exchange, text) = begin(chap(), number);
            let challenge = format!("CHAP_C=0x{}", "07".repeat(bytes));
            assert!(text.contains(&challenge), "{text}");
            let algorithm = Algorithm::from_number(number.parse().unwrap()).unwrap();
            let response = algorithm.response(7, &chap().initiators[1].secret, &vec![7; bytes]);
            let response = to_hex(&response);
            let keys = ChapKeys {
                name: Some("alice"),
                response: Some(&response),
                ..ChapKeys::default()
            };
            assert_eq!(respond(&mut exchange, &keys), Ok(String::new()));
            assert!(exchange.is_done());
        }
    }

    #[test]
    fn md5_response_matches_rfc_1994() {
        // printf '\x01secret\xaa\xbb' | md5sum
        let response = Algorithm::Md5.response(1, &Secret::new(b"secret".to_vec()), &[0xaa, 0xbb]);
        assert_eq!(to_hex(&response), "0x52b84dd1a7253536d2f969cd661a25de");
    }

    #[test]
    fn a_wrong_response_is_refused() {
        let (mut exchange, _) = begin(chap(), "56,5");
        let response = to_hex(&[0; 16]);
        let keys = ChapKeys {
            name: Some("alice"),
            response: Some(&response),
            ..ChapKeys::default()
        };
        assert_eq!(respond(&mut exchange, &keys), Err(ChapError::Wrong));
        assert!(!exchange.is_done());
    }

    /// Under the name of another host it would end that host's sessions and hold its reservations.
    #[test]
    fn chap_user_is_refused_for_another_initiator() {
        for (bound, is_let_in) in [(vec!["bob"], false), (vec!["bob", "alice"], true)] {
            let mut chap = chap();
            chap.initiators[1].initiators = bound.into_iter().map(host).collect();
            let (mut exchange, _) = begin(chap.clone(), "7");
            let response = Algorithm::Sha256.response(7, &chap.initiators[1].secret, &[7; 32]);
            let response = to_hex(&response);
            let keys = ChapKeys {
                name: Some("alice"),
                response: Some(&response),
                ..ChapKeys::default()
            };
            let outcome = respond(&mut exchange, &keys);
            assert_eq!(outcome.is_ok(), is_let_in, "{outcome:?}");
            assert_eq!(exchange.is_done(), is_let_in);
        }
    }

    #[test]
    fn a_reflected_challenge_is_refused() {
        let (mut exchange, _) = begin(chap(), "5");
        let response = Algorithm::Md5.response(7, &chap().initiators[1].secret, &[7; 16]);
        let (response, challenge) = (to_hex(&response), to_hex(&[7; 16]));
        let keys = ChapKeys {
            name: Some("alice"),
            response: Some(&response),
            id: Some("9"),
            challenge: Some(&challenge),
            ..ChapKeys::default()
        };
        assert_eq!(respond(&mut exchange, &keys), Err(ChapError::Reflected));
    }

    #[test]
    fn mutual_authentication_proves_the_target() {
        let (mut exchange, _) = begin(chap(), "7");
        let response = Algorithm::Sha256.response(7, &chap().initiators[1].secret, &[7; 32]);
        let response = to_hex(&response);
        let keys = ChapKeys {
            name: Some("alice"),
            response: Some(&response),
            id: Some("9"),
            challenge: Some("0x0102"),
            ..ChapKeys::default()
        };
        let ours = Algorithm::Sha256.response(9, &chap().mutual.unwrap().secret, &[1, 2]);
        let text = respond(&mut exchange, &keys).unwrap();
        assert_eq!(text, format!("CHAP_N=target\0CHAP_R={}\0", to_hex(&ours)));
    }

    #[test]
    fn no_common_algorithm_is_an_error() {
        for offer in ["56", "", "SHA1", "8,9"] {
            let mut exchange = ChapExchange::new(chap(), host("alice"));
            let keys = ChapKeys {
                algorithms: Some(offer),
                ..ChapKeys::default()
            };
            assert_eq!(
                respond(&mut exchange, &keys),
                Err(ChapError::NoCommonAlgorithm)
            );
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert!(!format!("{:?}", chap()).contains("of alice"));
    }
}
