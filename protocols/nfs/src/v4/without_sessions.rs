//! NFS 4.0 clients, which have no sessions: their identities, and the operations that only they use
//! (RFC 7530, 9.1 and 16).

use file_system::Receipt;

use super::compound::{Call, Service};
use super::numbers::{Status, op};
use super::opens::StateId;
use super::seqids::{Owner, Purpose, Replied, Request, SeqidOutcome};
use super::state::{Introduction, Manner, State, WithoutSessions};
use crate::xdr::{Reader, Writer};

/// Maximum bytes of a peer's names.
const OPAQUE_BYTES_MAX: usize = 1024;
/// Maximum bytes of a network ID and of a network address.
const ADDRESS_BYTES_MAX: usize = 256;

/// How a request identifies its owner.
pub(super) enum OwnerSource<'a> {
    /// The client ID and the open owner.
    Opener(u64, &'a [u8]),
    /// A stateid of the owner.
    State(&'a StateId),
}

/// A request that consumes a seqid of an owner.
pub(super) struct ConsumedSeqid {
    owner: Owner,
    request: Request,
}

impl State {
    pub(super) fn is_without_sessions(&self, client: u64) -> bool {
        let found = self.clients.get(&client);
        found.is_some_and(|found| found.without_sessions.is_some())
    }

    /// `SETCLIENTID`. Returns the client ID and the verifier that confirms it.
    pub fn set_client(
        &mut self,
        who: &Introduction<'_>,
        now_ms: u64,
    ) -> Result<(u64, u64), Status> {
        let (known, confirmed) = self.known(Manner::WithoutSessions, who.owner);
        let confirmation = self.number();
        if let Some(id) = confirmed {
            let is_expired = self.is_expired(id, now_ms);
            let client = self.clients.get_mut(&id).ok_or(Status::STALE_CLIENTID)?;
            let is_same = client.principal == who.principal;
            if !is_same && !client.held.is_empty() && !is_expired {
                return Err(Status::CLID_INUSE);
            }
            let without_sessions = client.without_sessions.as_mut();
            if let Some(found) =
                without_sessions.filter(|_| is_same && client.verifier == who.verifier)
            {
                found.update = Some(confirmation);
                return Ok((id, confirmation));
            }
        }
        for id in known.into_iter().filter(|id| Some(*id) != confirmed) {
            self.forget_client(id);
        }
        let without_sessions = WithoutSessions {
            confirmation,
            ..WithoutSessions::default()
        };
        let id = self.introduce(who, Some(without_sessions), None, now_ms)?;
        Ok((id, confirmation))
    }

    /// `SETCLIENTID_CONFIRM`.
    pub fn confirm_client(
        &mut self,
        id: u64,
        confirmation: u64,
        principal: u64,
        now_ms: u64,
    ) -> Result<(), Status> {
        let is_expired = self.is_expired(id, now_ms);
        let client = self.clients.get_mut(&id).ok_or(Status::STALE_CLIENTID)?;
        let found = client
            .without_sessions
            .as_mut()
            .ok_or(Status::STALE_CLIENTID)?;
        let is_update = found.update == Some(confirmation);
        if !is_update && found.confirmation != confirmation {
            return Err(Status::STALE_CLIENTID);
        }
        if client.principal != principal {
            return Err(Status::CLID_INUSE);
        }
        if !client.is_confirmed && is_expired {
            self.forget_client(id);
            return Err(Status::STALE_CLIENTID);
        }
        if is_update {
            (found.confirmation, found.update) = (confirmation, None);
        }
        client.renewed_ms = now_ms;
        // It may have been idle for so long that it is no longer recorded.
        client.has_reclaimed &= !client.held.is_empty();
        if !std::mem::replace(&mut client.is_confirmed, true) {
            // The client has restarted: its earlier state is removed.
            self.forget_others(id);
        }
        Ok(())
    }

    /// Checks that a client is known, and renews its lease. A client with an expired lease and no
    /// state must introduce itself again, because it is not recorded as a holder.
    pub fn check_client(&mut self, id: u64, now_ms: u64) -> Result<(), Status> {
        if (id >> 32) as u32 != self.start {
            return Err(Status::STALE_CLIENTID);
        }
        let is_expired = self.is_expired(id, now_ms);
        let client = self.clients.get_mut(&id);
        let client = client.filter(|client| client.without_sessions.is_some());
        let client = client.ok_or(Status::EXPIRED)?;
        if !client.is_confirmed {
            return Err(Status::STALE_CLIENTID);
        }
        if is_expired && client.held.is_empty() {
            self.forget_client(id);
            return Err(Status::EXPIRED);
        }
        client.renewed_ms = now_ms;
        Ok(())
    }

    /// `RENEW`.
    pub fn renew(&mut self, id: u64, principal: u64, now_ms: u64) -> Result<(), Status> {
        if let Some(client) = self.clients.get(&id) {
            client.check_principal(principal, Status::ACCESS)?;
        }
        self.check_client(id, now_ms)
    }

    /// Returns the number in a stateid of this server.
    pub(super) fn number_without_sessions(&self, id: &StateId) -> Result<u64, Status> {
        if id.other == StateId::ANONYMOUS.other || id.other == StateId::BYPASS.other {
            return Err(Status::BAD_STATEID);
        }
        let (start, number) = id.other.split_at(4);
        if start != self.start.to_be_bytes() {
            return Err(Status::STALE_STATEID);
        }
        let number = number.try_into().map(u64::from_be_bytes);
        number.map_err(|_| Status::BAD_STATEID)
    }
}

impl Service {
    /// Whether a call without a session and with this receipt is a retransmission.
    pub(crate) fn is_repeated(&self, receipt: &Receipt, now_ms: u64) -> bool {
        let repeats = self.repeats.lock().expect("no holder panics");
        repeats.is_repeated(&receipt.place, now_ms)
    }

    /// Records that a call without a session and with this receipt is executed.
    pub(crate) fn executes(&self, receipt: &Receipt, now_ms: u64) {
        let mut repeats = self.repeats.lock().expect("no holder panics");
        repeats.executed(receipt.place, now_ms);
    }
}

impl Call<'_> {
    /// Checks whether the request of an owner is a retransmission, and writes the cached reply.
    /// Sessions have their own mechanism.
    pub(super) fn is_repeated(
        &mut self,
        whose: &OwnerSource<'_>,
        (sequence, purpose): (u32, Purpose),
        out: &mut Writer,
    ) -> Result<bool, Status> {
        if self.minor > 0 {
            return Ok(false);
        }
        let now_ms = self.caller.now_ms;
        let request = Request {
            sequence,
            fingerprint: self.fingerprint.wrapping_add(self.index.into()),
            purpose,
        };
        let mut state = self.service.state();
        let (client, owner) = match whose {
            OwnerSource::Opener(client, name) => {
                state.check_client(*client, now_ms)?;
                (*client, Owner::Open(name.to_vec()))
            }
            OwnerSource::State(id) => state.owner_of(id, now_ms)?,
        };
        self.client = client;
        let turn = state.begin_seqid(client, &owner, &request)?;
        drop(state);
        match turn {
            SeqidOutcome::New => {
                self.taken = Some(ConsumedSeqid { owner, request });
                Ok(false)
            }
            SeqidOutcome::Repeated(answered) => {
                out.append(&answered.body);
                if let Some(file) = answered.file {
                    let place = self.exports.place(file).ok_or(Status::STALE)?;
                    self.go_to(place)?;
                }
                match answered.status {
                    Status::OK => Ok(true),
                    status => Err(status),
                }
            }
        }
    }

    /// Completes an operation, and its turn if it has one.
    pub(super) fn end_seqid(
        &mut self,
        operation: u32,
        status: Status,
        out: &mut Writer,
        body: usize,
    ) {
        let Some(taken) = self.taken.take() else {
            return;
        };
        let opened = self
            .current
            .filter(|_| operation == op::OPEN && status == Status::OK);
        let answered = Replied {
            status,
            body: out.own()[body..].to_vec(),
            file: opened.map(|place| self.exports.handle(place)),
        };
        let mut state = self.service.state();
        state.end_seqid(self.client, &taken.owner, &taken.request, answered);
    }

    pub(super) fn set_client(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let verifier = reader.array()?;
        let owner = reader.opaque(OPAQUE_BYTES_MAX)?;
        // The server sends no callbacks, because there are no delegations.
        let _callback_program = reader.u32()?;
        reader.opaque(ADDRESS_BYTES_MAX)?;
        reader.opaque(ADDRESS_BYTES_MAX)?;
        let _callback_number = reader.u32()?;
        let introduction = Introduction {
            owner,
            verifier,
            principal: self.principal(),
            kerberos: self.caller.credential.kerberos(),
            is_update: false,
            address: self.caller.from.address,
            network: self.caller.from.network(),
        };
        let now_ms = self.caller.now_ms;
        let set = self.service.state().set_client(&introduction, now_ms);
        if set == Err(Status::CLID_INUSE) {
            out.opaque(b"tcp");
            out.opaque(b"0.0.0.0.0.0");
        }
        let (client, confirmation) = set?;
        out.u64(client);
        out.u64(confirmation);
        Ok(())
    }

    pub(super) fn confirm_client(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let (client, confirmation) = (reader.u64()?, reader.u64()?);
        let (principal, now_ms) = (self.principal(), self.caller.now_ms);
        let mut state = self.service.state();
        state.confirm_client(client, confirmation, principal, now_ms)
    }

    pub(super) fn renew(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let client = reader.u64()?;
        let (principal, now_ms) = (self.principal(), self.caller.now_ms);
        self.service.state().renew(client, principal, now_ms)
    }

    pub(super) fn confirm_open(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let id = self.read_raw_stateid(reader)?;
        let sequence = reader.u32()?;
        let file = self.file(self.node()?);
        self.check_creator(&id)?;
        if self.is_repeated(&OwnerSource::State(&id), (sequence, Purpose::Confirms), out)? {
            return Ok(());
        }
        let id = self.service.state().confirm_open(self.client, &id, file)?;
        self.answer_state(id, out);
        Ok(())
    }

    pub(super) fn release_owner(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let (client, owner) = (reader.u64()?, reader.opaque(OPAQUE_BYTES_MAX)?);
        let now_ms = self.caller.now_ms;
        let mut state = self.service.state();
        state.check_client(client, now_ms)?;
        state.release_owner(client, owner, self.proven_principal())
    }
}
