//! A target on a device in memory, and initiators that act like a transport.

#![allow(dead_code)]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use block_device::{
    BlockDevice, DeviceError, ErrorKind, Extent, Geometry, MemoryDevice, ReadLoan, StatusRun,
    Update, WaitMode, WriteLoan, Zero,
};
use scsi::{
    Cdb, Command, DataIn, DataOut, Executed, Identity, Lun, ModeStore, Nexus, NexusId,
    NoReservationStore, Outcome, Plan, ReservationStore, Status, Target, TargetConfig,
    TaskAttribute, UnitConfig, Visibility,
};

pub const BLOCK: usize = 512;
pub const BLOCKS: u64 = 1 << 16;

/// A device in memory with fault injection, which counts flushes.
pub struct TestDevice {
    inner: MemoryDevice,
    pub fail: Mutex<Option<ErrorKind>>,
    pub always_blocks: AtomicBool,
    pub flushes: AtomicUsize,
}

impl TestDevice {
    pub fn new() -> Arc<Self> {
        Self::with_blocks(BLOCKS)
    }

    pub fn with_blocks(blocks: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(blocks * BLOCK as u64, BLOCK as u32),
            fail: Mutex::new(None),
            always_blocks: AtomicBool::new(false),
            flushes: AtomicUsize::new(0),
        })
    }

    fn check(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        if !wait_mode.may_block() && self.always_blocks.load(Ordering::Relaxed) {
            return Err(DeviceError::new(ErrorKind::WouldBlock, "test", extent));
        }
        match *self.fail.lock().unwrap() {
            Some(kind) => Err(DeviceError::new(kind, "test", extent)),
            None => Ok(()),
        }
    }
}

impl BlockDevice for TestDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn read(
        &self,
        extent: Extent,
        wait_mode: WaitMode<'_>,
    ) -> Result<Box<dyn ReadLoan>, DeviceError> {
        self.check(extent, wait_mode)?;
        self.inner.read(extent, wait_mode)
    }
    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        self.inner.lend(extent)
    }
    fn write(&self, offset: u64, data: &[u8], wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        self.check(Extent::new(offset, data.len() as u64), wait_mode)?;
        self.inner.write(offset, data, wait_mode)
    }
    fn write_zeroes(
        &self,
        extent: Extent,
        zero: Zero,
        wait_mode: WaitMode<'_>,
    ) -> Result<(), DeviceError> {
        self.check(extent, wait_mode)?;
        self.inner.write_zeroes(extent, zero, wait_mode)
    }
    fn unmap(&self, extent: Extent, wait_mode: WaitMode<'_>) -> Result<(), DeviceError> {
        self.check(extent, wait_mode)?;
        self.inner.unmap(extent, wait_mode)
    }
    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        self.check(extent, WaitMode::MayBlock)?;
        self.inner.update(extent, change)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.check(Extent::new(0, 0), WaitMode::MayBlock)?;
        self.inner.flush()
    }
    fn is_clean(&self) -> bool {
        self.inner.is_clean()
    }
    fn status(&self, extent: Extent, runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        self.check(extent, WaitMode::MayBlock)?;
        self.inner.status(extent, runs_max)
    }
}

/// Stores the saved bytes in memory; can be set to fail.
#[derive(Default)]
pub struct TestStore {
    pub saved: Mutex<Option<Vec<u8>>>,
    pub fails: AtomicBool,
}

impl ReservationStore for TestStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.saved.lock().unwrap().clone())
    }
    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the pool is full"));
        }
        *self.saved.lock().unwrap() = Some(bytes.to_vec());
        Ok(())
    }
}

impl ModeStore for TestStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        ReservationStore::load(self)
    }
    fn save(&self, bytes: &[u8]) -> io::Result<()> {
        ReservationStore::save(self, bytes)
    }
}

pub fn unit(lun: u16, device: Arc<TestDevice>) -> UnitConfig {
    let mut naa = vec![0x60; 16];
    naa[15] = lun as u8;
    UnitConfig {
        lun,
        device,
        identity: Identity {
            naa,
            serial: format!("serial-{lun}"),
            eui: None,
        },
        write_cache: true,
        ready: true,
        read_only: false,
        thin: true,
        show_physical_block: false,
        visibility: Visibility::All,
        reservations: Arc::new(NoReservationStore),
        modes: Arc::new(NoReservationStore),
    }
}

pub fn target() -> Arc<Target> {
    Target::new(TargetConfig {
        name: "iqn.2026-01.org.example:target".parse().unwrap(),
        vendor: "VENDOR".into(),
        product: "PRODUCT".into(),
        revision: "0.1".into(),
        portal_groups: vec![1, 2],
    })
}

/// A result with the fields that tests check.
#[derive(Debug)]
pub struct Reply {
    pub status: Status,
    /// Key, additional sense code and qualifier.
    pub sense: Option<(u8, u8, u8)>,
    pub sense_bytes: Vec<u8>,
    pub data: Vec<u8>,
    pub abort: Vec<NexusId>,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        let data = match &outcome.data_in {
            DataIn::None => Vec::new(),
            DataIn::Bytes(bytes) => bytes.clone(),
            DataIn::Loan(loan) => {
                let mut parts = Vec::new();
                loan.append_parts(&mut parts);
                parts.concat()
            }
        };
        let sense_bytes = outcome.sense.unwrap_or_default();
        let sense = match sense_bytes.first().map(|first| first & 0x7f) {
            Some(0x70) => Some((sense_bytes[2] & 0x0f, sense_bytes[12], sense_bytes[13])),
            Some(0x72) => Some((sense_bytes[1], sense_bytes[2], sense_bytes[3])),
            _ => None,
        };
        Self {
            status: outcome.status,
            sense,
            sense_bytes,
            data,
            abort: outcome.abort,
        }
    }
}

pub struct Initiator {
    pub nexus: Nexus,
    pub lun: Lun,
}

pub fn nexus_id(name: &str) -> NexusId {
    NexusId {
        initiator: format!("iqn.2026-01.org.example:{name}").parse().unwrap(),
        isid: [0x80, 0, 0, 0, 0, 1],
        portal_group: 1,
    }
}

impl Initiator {
    /// Logs in and consumes the power on attentions of LUN 0.
    pub fn login(target: &Arc<Target>, name: &str) -> Self {
        let fresh = Self::fresh(target, name);
        fresh.clear_attentions();
        fresh
    }

    pub fn fresh(target: &Arc<Target>, name: &str) -> Self {
        Self {
            nexus: target.login(nexus_id(name)),
            lun: Lun::ZERO,
        }
    }

    pub fn clear_attentions(&self) {
        while self.run(&[0; 6]).status != Status::Good {}
    }

    pub fn run(&self, cdb: &[u8]) -> Reply {
        self.send(cdb, &[])
    }

    /// Sends a command as a transport would: plan, collect, execute, wait, flush.
    pub fn send(&self, cdb: &[u8], out: &[u8]) -> Reply {
        self.try_send(cdb, out).expect("the session stays")
    }

    pub fn try_send(&self, cdb: &[u8], out: &[u8]) -> Option<Reply> {
        let target = Arc::clone(self.nexus.target());
        let command = Command {
            lun: self.lun,
            cdb: Cdb::new(cdb),
            attribute: TaskAttribute::Simple,
            expected_data_out: out.len() as u32,
            expected_data_in: 1 << 20,
        };
        let data = match target.plan(&self.nexus, &command) {
            Plan::NoData => DataOut::None,
            Plan::Refuse(outcome) => return Some(outcome.into()),
            Plan::DataOut { bytes, landing } => {
                let out = &out[..out.len().min(bytes as usize)];
                let lent = landing.and_then(|landing| landing.lend(out.len() as u32));
                match lent {
                    Some(mut loan) if out.len() > 2048 => {
                        let mut rest = out;
                        let mut parts = Vec::new();
                        loan.append_parts(&mut parts);
                        for part in parts {
                            let (head, tail) = rest.split_at(part.len());
                            part.copy_from_slice(head);
                            rest = tail;
                        }
                        DataOut::Loan(loan)
                    }
                    _ => DataOut::Slice(out),
                }
            }
        };
        let mut executed = target.execute(&self.nexus, &command, data, WaitMode::NoWait);
        if let Executed::WouldBlock(pending) = executed {
            executed = pending.execute(&|| true);
        }
        match executed {
            Executed::Done(outcome) => Some(outcome.into()),
            Executed::Durable { device, then } => {
                let flushed = device.flush();
                then.after_flush(flushed.as_ref().copied()).map(Reply::from)
            }
            Executed::Reading(_) => panic!("a device in memory has its data at hand"),
            Executed::WouldBlock(_) => panic!("a worker may block"),
            Executed::DropSession => None,
        }
    }

    pub fn good(&self, cdb: &[u8], out: &[u8]) -> Vec<u8> {
        let answer = self.send(cdb, out);
        assert_eq!(answer.status, Status::Good, "{cdb:02x?} {answer:02x?}");
        answer.data
    }

    /// Expects CHECK CONDITION with a key, a code and a qualifier.
    pub fn fails(&self, cdb: &[u8], out: &[u8], sense: (u8, u8, u8)) -> Reply {
        let answer = self.send(cdb, out);
        assert_eq!(answer.status, Status::CheckCondition, "{cdb:02x?}");
        assert_eq!(answer.sense, Some(sense), "{cdb:02x?} {answer:02x?}");
        answer
    }

    pub fn conflicts(&self, cdb: &[u8], out: &[u8]) {
        let answer = self.send(cdb, out);
        assert_eq!(answer.status, Status::ReservationConflict, "{cdb:02x?}");
    }
}

pub const ILLEGAL_CDB: (u8, u8, u8) = (5, 0x24, 0);
pub const OUT_OF_RANGE: (u8, u8, u8) = (5, 0x21, 0);
pub const NO_SUCH_COMMAND: (u8, u8, u8) = (5, 0x20, 0);

/// A target with one thin unit and an initiator without pending attentions.
pub fn one_unit() -> (Arc<Target>, Arc<TestDevice>, Initiator) {
    let target = target();
    let device = TestDevice::new();
    target.apply(vec![unit(0, Arc::clone(&device))]);
    let initiator = Initiator::login(&target, "a");
    (target, device, initiator)
}

/// READ or WRITE (10).
pub fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let [a, b, c, d] = lba.to_be_bytes();
    let [high, low] = blocks.to_be_bytes();
    [opcode, flags, a, b, c, d, 0, high, low, 0]
}

/// A 16-byte command.
pub fn sixteen(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}
