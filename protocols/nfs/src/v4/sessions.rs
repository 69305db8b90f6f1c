//! Operations on clients, sessions and stateids.

use super::compound::Call;
use super::numbers::Status;
use super::state::{Channel, Introduction};
use crate::rpc::{AUTH_GSS, AUTH_NONE, AUTH_SYS, read_system_credential};
use crate::xdr::{Malformed, Reader, Writer};

/// Maximum bytes of a peer's names.
const OPAQUE_BYTES_MAX: usize = 1024;
/// Algorithms that a peer may offer.
const ALGORITHMS_MAX: usize = 64;
/// Words of a bitmap of operations.
const WORDS_MAX: usize = 16;
/// Security flavors for callbacks that a peer may offer.
const CALLBACK_SECURITIES_MAX: usize = 16;
/// Stateids that are tested at once.
const TESTED_MAX: usize = 1024;

/// Bits of `eia_flags` that a client may set.
const EXCHANGE_FLAGS: u32 = 0x4007_0103;
/// `EXCHGID4_FLAG_SUPP_FENCE_OPS`, since NFS 4.2.
const SUPPORTS_FENCING: u32 = 0x4;
const UPDATE_CONFIRMED: u32 = 0x4000_0000;
const IS_CONFIRMED: u32 = 0x8000_0000;
const USE_NON_PNFS: u32 = 0x1_0000;
/// Bits of `csa_flags`.
const SESSION_FLAGS: u32 = 7;

impl Call<'_> {
    pub(super) fn exchange_id(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let verifier = reader.array()?;
        let owner = reader.opaque(OPAQUE_BYTES_MAX)?;
        let flags = reader.u32()?;
        let protection = reader.u32()?;
        match protection {
            0 => {}
            1 => skip_operations(reader)?,
            2 => skip_ssv(reader)?,
            _ => return Err(Status::BADXDR),
        }
        for _ in 0..reader.count(1)? {
            reader.opaque(OPAQUE_BYTES_MAX)?;
            reader.opaque(OPAQUE_BYTES_MAX)?;
            reader.i64()?;
            reader.u32()?;
        }
        let known = if self.minor < 2 {
            EXCHANGE_FLAGS
        } else {
            EXCHANGE_FLAGS | SUPPORTS_FENCING
        };
        if flags & !known != 0 {
            return Err(Status::INVAL);
        }
        match protection {
            0 => {}
            // Linux continues without it.
            1 => return Err(Status::INVAL),
            _ => return Err(Status::ENCR_ALG_UNSUPP),
        }
        let introduction = Introduction {
            owner,
            verifier,
            principal: self.principal(),
            kerberos: self.caller.credential.kerberos(),
            is_update: flags & UPDATE_CONFIRMED != 0,
            address: self.caller.from.address,
            network: self.caller.from.network(),
        };
        let now_ms = self.caller.now_ms;
        let (client, sequence, confirmed) =
            self.service.state().exchange_id(&introduction, now_ms)?;
        out.u64(client);
        out.u32(sequence);
        out.u32(USE_NON_PNFS | if confirmed { IS_CONFIRMED } else { 0 });
        out.u32(0);
        let name = &self.service.presentation.owner;
        out.u64(0);
        out.opaque(name);
        out.opaque(name);
        out.u32(0);
        Ok(())
    }

    pub(super) fn create_session(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let client = reader.u64()?;
        let sequence = reader.u32()?;
        let flags = reader.u32()?;
        let fore = read_channel(reader)?;
        let back = read_channel(reader)?;
        let _callback_program = reader.u32()?;
        for _ in 0..reader.count(CALLBACK_SECURITIES_MAX)? {
            skip_callback_security(reader)?;
        }
        if flags & !SESSION_FLAGS != 0 {
            return Err(Status::INVAL);
        }
        let back = back.agreed()?;
        let (requester, connection) = (self.requester(), self.caller.connection);
        let now_ms = self.caller.now_ms;
        let mut state = self.service.state();
        let created =
            state.create_session(client, sequence, requester, fore, connection, now_ms)?;
        out.fixed(&created.session);
        out.u32(created.sequence);
        // Neither persistent nor with callbacks: the server never calls back.
        out.u32(0);
        write_channel(out, &created.fore);
        write_channel(out, &back);
        Ok(())
    }

    pub(super) fn bind_connection(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let session = reader.array()?;
        let direction = reader.u32()?;
        let _rdma = reader.boolean()?;
        // Fore (1), back (2), or either (3, 7). There is no back channel.
        match direction {
            1 | 3 | 7 => {}
            2 => return Err(Status::INVAL),
            _ => return Err(Status::BADXDR),
        }
        let (principal, connection) = (self.principal(), self.caller.connection);
        self.service.state().bind(&session, connection, principal)?;
        out.fixed(&session);
        out.u32(1);
        out.boolean(false);
        Ok(())
    }

    pub(super) fn destroy_session(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let session = reader.array()?;
        let (principal, connection) = (self.principal(), self.caller.connection);
        self.service
            .state()
            .destroy_session(&session, connection, principal)
    }

    pub(super) fn destroy_client(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let client = reader.u64()?;
        let requester = self.requester();
        self.service.state().destroy_client(client, requester)
    }

    pub(super) fn reclaim_complete(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        if reader.boolean()? {
            self.node()?;
            return Ok(());
        }
        let principal = self.principal();
        self.service
            .state()
            .reclaim_complete(self.client, principal)
    }

    pub(super) fn backchannel(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let _callback_program = reader.u32()?;
        for _ in 0..reader.count(CALLBACK_SECURITIES_MAX)? {
            skip_callback_security(reader)?;
        }
        Ok(())
    }

    pub(super) fn test_stateids(
        &mut self,
        reader: &mut Reader<'_>,
        out: &mut Writer,
    ) -> Result<(), Status> {
        let count = reader.count(TESTED_MAX)?;
        out.u32(count as u32);
        for _ in 0..count {
            let status = match self.read_stateid(reader) {
                Ok(id) => self.service.state().test(self.client, &id),
                Err(Status::BADXDR) => return Err(Status::BADXDR),
                Err(status) => status,
            };
            out.u32(status.0);
        }
        Ok(())
    }

    pub(super) fn free_stateid(&mut self, reader: &mut Reader<'_>) -> Result<(), Status> {
        let id = self.read_stateid(reader)?;
        self.check_creator(&id)?;
        self.service.state().free(self.client, &id)
    }
}

fn skip_bitmap(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    for _ in 0..reader.count(WORDS_MAX)? {
        reader.u32()?;
    }
    Ok(())
}

/// `state_protect_ops4`.
fn skip_operations(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    skip_bitmap(reader)?;
    skip_bitmap(reader)
}

/// `ssv_sp_parms4`.
fn skip_ssv(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    skip_operations(reader)?;
    for _ in 0..2 {
        for _ in 0..reader.count(ALGORITHMS_MAX)? {
            reader.opaque(OPAQUE_BYTES_MAX)?;
        }
    }
    reader.u32()?;
    reader.u32()?;
    Ok(())
}

/// `callback_sec_parms4`.
fn skip_callback_security(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    match reader.u32()? {
        AUTH_NONE => Ok(()),
        AUTH_SYS => read_system_credential(reader).map(|_| ()),
        AUTH_GSS => {
            reader.u32()?;
            reader.opaque(OPAQUE_BYTES_MAX)?;
            reader.opaque(OPAQUE_BYTES_MAX)?;
            Ok(())
        }
        _ => Err(Malformed),
    }
}

fn read_channel(reader: &mut Reader<'_>) -> Result<Channel, Malformed> {
    let _header_padding = reader.u32()?;
    let channel = Channel {
        request_bytes_max: reader.u32()?,
        response_bytes_max: reader.u32()?,
        cached_bytes_max: reader.u32()?,
        operations_max: reader.u32()?,
        slots: reader.u32()?,
    };
    for _ in 0..reader.count(1)? {
        reader.u32()?;
    }
    Ok(channel)
}

fn write_channel(out: &mut Writer, channel: &Channel) {
    out.u32(0);
    out.u32(channel.request_bytes_max);
    out.u32(channel.response_bytes_max);
    out.u32(channel.cached_bytes_max);
    out.u32(channel.operations_max);
    out.u32(channel.slots);
    out.u32(0);
}
