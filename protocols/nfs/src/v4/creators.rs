//! The creators of opens and locks where Kerberos authenticates the calls: no other principal may
//! change or remove them (RFC 8881, 2.10.8.3). Clients use no state protection (`SP4_NONE`), so
//! that the state is only protected by the principal of its user.

use std::hash::BuildHasher;

use file_system::Handle;

use super::compound::Call;
use super::numbers::Status;
use super::opens::StateId;
use super::state::{Client, Requester, State};
use crate::rpc::Credential;

impl State {
    /// Records that a Kerberos principal created this state in the current call.
    pub fn record_creator(&mut self, client: u64, id: &StateId, principal: Option<u64>) {
        let number = self.number_of(client, id);
        let held = number.ok().and_then(|number| self.held.get_mut(&number));
        if let Some(held) = held.filter(|held| held.sequence == 1) {
            held.principal = principal;
        }
    }

    /// Refuses to change or remove state of another Kerberos principal. A stateid is visible on the
    /// wire with `krb5` and `krb5i`, and AUTH_SYS proves no user, so that neither identifies the
    /// creator. State created with AUTH_SYS belongs to the client.
    pub fn check_creator(&self, id: &StateId, principal: Option<u64>) -> Result<(), Status> {
        let (start, number) = id.other.split_at(4);
        let number = number.try_into().map(u64::from_be_bytes);
        match number {
            Ok(number) if start == self.start.to_be_bytes() => {
                self.check_creator_of(number, principal)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_creator_of(
        &self,
        number: u64,
        principal: Option<u64>,
    ) -> Result<(), Status> {
        let Some(held) = self.held.get(&number) else {
            return Ok(());
        };
        let client = self.clients.get(&held.client);
        let of_client = client.and_then(Client::proven_principal);
        let is_allowed = held.principal.is_none()
            || held.principal == principal
            || (of_client.is_some() && of_client == principal);
        if is_allowed {
            Ok(())
        } else {
            Err(Status::ACCESS)
        }
    }

    /// Performs the same check for an owner that opens a file once more.
    pub fn check_opener(
        &self,
        (client, owner): (u64, &[u8]),
        file: Handle,
        principal: Option<u64>,
    ) -> Result<(), Status> {
        let found = self.files.get(&file);
        let number = found.and_then(|found| found.open_of(client, owner));
        number.map_or(Ok(()), |number| self.check_creator_of(number, principal))
    }
}

impl Call<'_> {
    /// Returns the Kerberos principal of the call; `None` with AUTH_SYS.
    pub(super) fn proven_principal(&self) -> Option<u64> {
        let is_proven = self.caller.credential.kerberos().is_some();
        is_proven.then(|| self.principal())
    }

    pub(super) fn principal(&self) -> u64 {
        match self.caller.credential {
            Credential::Nobody => u64::MAX,
            Credential::System { uid, .. } => (*uid).into(),
            Credential::Kerberos(principal) => {
                // Different at each start, so that collisions cannot be searched for. User IDs are
                // smaller.
                self.service.names.hash_one(&principal.name) | 1 << 63
            }
        }
    }

    pub(super) fn requester(&self) -> Requester {
        Requester {
            principal: self.principal(),
            address: self.caller.from.address,
        }
    }

    /// Refuses to change or remove state of another principal, before a seqid of the owner is
    /// consumed.
    pub(super) fn check_creator(&self, id: &StateId) -> Result<(), Status> {
        let principal = self.proven_principal();
        self.service.state().check_creator(id, principal)
    }
}
