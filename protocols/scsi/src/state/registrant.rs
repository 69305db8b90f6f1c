//! The stored form of an I_T nexus (`docs/formats/reservations.md`).

use ::reservations::{Registrant, Stored};
use serde::{Deserialize, Serialize};
use units::IscsiName;

use crate::command::NexusId;

/// The reservations of a logical unit.
pub(crate) type Reservations = ::reservations::Reservations<NexusId>;

/// One registration.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    initiator: IscsiName,
    isid: String,
    portal_group: u16,
    key: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all_target_ports: bool,
}

impl Stored for NexusId {
    type Form = Form;

    fn store(registrant: &Registrant<Self>) -> Form {
        let nexus = &registrant.nexus;
        Form {
            initiator: nexus.initiator.clone(),
            isid: nexus.isid.iter().map(|b| format!("{b:02x}")).collect(),
            portal_group: nexus.portal_group,
            key: format!("{:x}", registrant.key),
            all_target_ports: registrant.all_target_ports,
        }
    }

    fn restore(form: Form) -> Result<Registrant<Self>, &'static str> {
        Ok(Registrant {
            nexus: Self {
                initiator: form.initiator,
                isid: parse_isid(&form.isid).ok_or("an ISID is not 12 digits")?,
                portal_group: form.portal_group,
            },
            key: u64::from_str_radix(&form.key, 16).map_err(|_| "a key is not hexadecimal")?,
            all_target_ports: form.all_target_ports,
        })
    }
}

/// 12 hexadecimal digits.
pub(crate) fn parse_isid(digits: &str) -> Option<[u8; 6]> {
    if digits.len() != 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
    Some([a, b, c, d, e, f])
}
