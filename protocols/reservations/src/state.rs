//! The state machine: registrations, the reservation, and the effect of each service action. A
//! transition is computed from the old state and published (and stored) by the caller.

use crate::REGISTRANTS_MAX;

/// The access of a command, as far as reservations restrict it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads data or state.
    Read,
    /// Changes data or state.
    Write,
}

/// Reservation types, by their codes in SPC-4, table 50. NVMe numbers the same six types from 1 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive = 0x1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 0x3,
    /// Only registrants write; one of them holds it.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Only registrants read and write; one of them holds it.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// Only registrants write; all of them hold it.
    WriteExclusiveAllRegistrants = 0x7,
    /// Only registrants read and write; all of them hold it.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl ReservationType {
    /// Converts the TYPE field of SCSI.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x1 => Self::WriteExclusive,
            0x3 => Self::ExclusiveAccess,
            0x5 => Self::WriteExclusiveRegistrantsOnly,
            0x6 => Self::ExclusiveAccessRegistrantsOnly,
            0x7 => Self::WriteExclusiveAllRegistrants,
            0x8 => Self::ExclusiveAccessAllRegistrants,
            _ => return None,
        })
    }

    /// Whether every registrant is a holder.
    pub fn is_all_registrants(self) -> bool {
        matches!(
            self,
            Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants
        )
    }

    /// Whether registration is enough for access.
    pub fn admits_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// Whether unregistered clients may read.
    pub fn is_write_exclusive(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }
}

/// One registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrant<N> {
    /// The registered client: an I_T nexus of SCSI, a host of NVMe.
    pub nexus: N,
    /// Its reservation key, not zero.
    pub key: u64,
    /// Whether it was registered with ALL_TG_PT.
    pub all_target_ports: bool,
}

/// The reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder<N> {
    /// Its type.
    pub kind: ReservationType,
    /// The holder; meaningless for the all registrants types.
    pub nexus: N,
}

/// All persistent reservation state of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservations<N> {
    /// PRGENERATION.
    pub generation: u32,
    /// Whether the state survives a power loss, as requested by the last registration.
    pub aptpl: bool,
    /// All registrations, at most [`REGISTRANTS_MAX`].
    pub registrants: Vec<Registrant<N>>,
    /// The reservation, if there is one.
    pub holder: Option<Holder<N>>,
}

/// A change that a client requests: a service action of PERSISTENT RESERVE OUT, or a reservation command of NVMe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<N> {
    /// REGISTER, and REGISTER AND IGNORE EXISTING KEY if `key` is `None`.
    Register {
        /// The key that the nexus must have.
        key: Option<u64>,
        /// Its new key; zero unregisters.
        new_key: u64,
        /// APTPL.
        aptpl: bool,
        /// ALL_TG_PT.
        all_target_ports: bool,
        /// Other initiator ports to register (SPEC_I_PT).
        others: Vec<N>,
    },
    /// RESERVE.
    Reserve {
        /// Reservation key.
        key: u64,
        /// Type.
        kind: ReservationType,
    },
    /// RELEASE.
    Release {
        /// Reservation key.
        key: u64,
        /// Type.
        kind: ReservationType,
    },
    /// CLEAR.
    Clear {
        /// Reservation key.
        key: u64,
    },
    /// PREEMPT, and PREEMPT AND ABORT if `abort` is set.
    Preempt {
        /// Reservation key.
        key: u64,
        /// The key of the registrations to remove.
        victim: u64,
        /// Type of the new reservation; used only if the reservation itself is preempted.
        kind: Option<ReservationType>,
        /// Whether the victims' commands are aborted.
        abort: bool,
    },
    /// REGISTER AND MOVE.
    Move {
        /// Reservation key.
        key: u64,
        /// Key of the nexus that gets the reservation.
        new_key: u64,
        /// That nexus.
        to: N,
        /// Whether the mover is unregistered.
        unregister: bool,
        /// APTPL.
        aptpl: bool,
    },
}

/// An event for a registrant, caused by a request of another registrant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The reservation was released.
    Released,
    /// The reservation was preempted, and all registrations with it.
    ReservationPreempted,
    /// Its registration was preempted.
    RegistrationPreempted,
}

/// A notification for a registrant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice<N> {
    /// The registrant.
    pub nexus: N,
    /// The event.
    pub event: Event,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<N> {
    /// The new state.
    pub next: Reservations<N>,
    /// Registrants to notify.
    pub notices: Vec<Notice<N>>,
    /// Registrants with commands to abort.
    pub abort: Vec<N>,
}

/// Lists a client at each port of the target.
pub type Ports<'a, N> = dyn Fn(&N) -> Vec<N> + 'a;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The requester does not have the key or the reservation that the request requires.
    Conflict,
    /// The unit has [`REGISTRANTS_MAX`] registrations.
    TooManyRegistrants,
    /// Other ports can only be registered with the first registration.
    OthersAfterFirst,
    /// The reservation is of another type than the one to release.
    OtherType,
    /// The reservation is preempted, and the request has no valid type for the new one.
    NoType,
    /// A key must not be zero here: the second key of a preemption or a move.
    ZeroKey,
    /// A reservation cannot be moved to its holder.
    MoveToSelf,
}

impl<N> Default for Reservations<N> {
    fn default() -> Self {
        Self {
            generation: 0,
            aptpl: false,
            registrants: Vec::new(),
            holder: None,
        }
    }
}

impl<N: Clone + PartialEq> Reservations<N> {
    /// Whether any access may be denied.
    pub fn restricts(&self) -> bool {
        self.holder.is_some()
    }

    /// The registration of a nexus.
    pub fn registrant(&self, nexus: &N) -> Option<&Registrant<N>> {
        self.registrants.iter().find(|one| one.nexus == *nexus)
    }

    /// Whether a nexus holds the reservation.
    pub fn is_holder(&self, nexus: &N) -> bool {
        match &self.holder {
            None => false,
            Some(holder) if holder.kind.is_all_registrants() => self.registrant(nexus).is_some(),
            Some(holder) => holder.nexus == *nexus,
        }
    }

    /// Whether the reservation permits an access of a nexus (SBC-4, table 14; NVM Express Base 2.0,
    /// figure 85).
    pub fn permits(&self, nexus: &N, access: Access) -> bool {
        let Some(holder) = &self.holder else {
            return true;
        };
        match access {
            Access::Read if holder.kind.is_write_exclusive() => true,
            Access::Read | Access::Write => {
                self.is_holder(nexus)
                    || holder.kind.admits_registrants() && self.registrant(nexus).is_some()
            }
        }
    }

    /// Returns the result of `request` from `nexus`. `at_all_ports` lists the registrations that a
    /// client gets with ALL_TG_PT: itself at each port of the target.
    pub fn decide(
        &self,
        nexus: &N,
        at_all_ports: &Ports<'_, N>,
        request: Request<N>,
    ) -> Result<Transition<N>, Refusal> {
        let mut change = Change {
            by: nexus,
            next: self.clone(),
            notices: Vec::new(),
            abort: Vec::new(),
        };
        match request {
            Request::Register {
                key,
                new_key,
                aptpl,
                all_target_ports,
                others,
            } => {
                let ports = all_target_ports.then_some(at_all_ports);
                change.register(key, new_key, aptpl, ports, others)?;
            }
            Request::Reserve { key, kind } => {
                change.require_key(key)?;
                change.reserve(kind)?;
            }
            Request::Release { key, kind } => {
                change.require_key(key)?;
                change.release(kind)?;
            }
            Request::Clear { key } => {
                change.require_key(key)?;
                change.clear();
            }
            Request::Preempt {
                key,
                victim,
                kind,
                abort,
            } => {
                change.require_key(key)?;
                change.preempt(victim, kind)?;
                if !abort {
                    change.abort.clear();
                }
            }
            Request::Move {
                key,
                new_key,
                to,
                unregister,
                aptpl,
            } => {
                change.require_key(key)?;
                change.relocate(new_key, to, unregister, aptpl)?;
            }
        }
        debug_assert!(change.next.invariant_holds());
        Ok(Transition {
            next: change.next,
            notices: change.notices,
            abort: change.abort,
        })
    }

    /// A reservation's holder is registered; no nexus is registered twice; no key is zero.
    pub fn invariant_holds(&self) -> bool {
        let held_by_registrant = match &self.holder {
            None => true,
            Some(holder) if holder.kind.is_all_registrants() => !self.registrants.is_empty(),
            Some(holder) => self.registrant(&holder.nexus).is_some(),
        };
        let distinct = self.registrants.iter().enumerate().all(|(at, one)| {
            one.key != 0
                && self.registrants[..at]
                    .iter()
                    .all(|other| other.nexus != one.nexus)
        });
        held_by_registrant && distinct && self.registrants.len() <= REGISTRANTS_MAX
    }
}

/// A transition under construction.
struct Change<'a, N> {
    by: &'a N,
    next: Reservations<N>,
    notices: Vec<Notice<N>>,
    abort: Vec<N>,
}

impl<N: Clone + PartialEq> Change<'_, N> {
    fn require_key(&self, key: u64) -> Result<(), Refusal> {
        match self.next.registrant(self.by) {
            Some(own) if own.key == key => Ok(()),
            _ => Err(Refusal::Conflict),
        }
    }

    fn bump(&mut self) {
        self.next.generation = self.next.generation.wrapping_add(1);
    }

    /// Notifies all registrants except the one that sent the request.
    fn notify_registrants(&mut self, event: Event) {
        for one in &self.next.registrants {
            if one.nexus != *self.by {
                self.notices.push(Notice {
                    nexus: one.nexus.clone(),
                    event,
                });
            }
        }
    }

    fn put(&mut self, nexus: N, key: u64, all_target_ports: bool) -> Result<(), Refusal> {
        if let Some(one) = self
            .next
            .registrants
            .iter_mut()
            .find(|one| one.nexus == nexus)
        {
            one.key = key;
            one.all_target_ports = all_target_ports;
            return Ok(());
        }
        if self.next.registrants.len() >= REGISTRANTS_MAX {
            return Err(Refusal::TooManyRegistrants);
        }
        self.next.registrants.push(Registrant {
            nexus,
            key,
            all_target_ports,
        });
        Ok(())
    }

    /// SPC-4, sections 5.13.7 and 5.13.11.2 (unregistering). `ports`: with ALL_TG_PT.
    fn register(
        &mut self,
        key: Option<u64>,
        new_key: u64,
        aptpl: bool,
        ports: Option<&Ports<'_, N>>,
        others: Vec<N>,
    ) -> Result<(), Refusal> {
        let own_key = self.next.registrant(self.by).map(|own| own.key);
        if key.is_some_and(|key| key != own_key.unwrap_or(0)) {
            return Err(Refusal::Conflict);
        }
        if !others.is_empty() && own_key.is_some() {
            return Err(Refusal::OthersAfterFirst);
        }
        if new_key == 0 {
            if own_key.is_some() {
                self.bump();
                self.next.aptpl = aptpl;
                self.unregister_own();
            }
            return Ok(());
        }
        for nexus in std::iter::once(self.by.clone()).chain(others) {
            if nexus != *self.by && self.next.registrant(&nexus).is_some() {
                return Err(Refusal::Conflict);
            }
            let everywhere = ports.map_or_else(Vec::new, |ports| ports(&nexus));
            self.put(nexus, new_key, !everywhere.is_empty())?;
            for nexus in everywhere {
                self.put(nexus, new_key, true)?;
            }
        }
        self.bump();
        self.next.aptpl = aptpl;
        Ok(())
    }

    fn unregister_own(&mut self) {
        let was_holder = self.next.is_holder(self.by);
        let by = self.by;
        self.next.registrants.retain(|one| one.nexus != *by);
        let Some(holder) = &self.next.holder else {
            return;
        };
        let kind = holder.kind;
        if kind.is_all_registrants() {
            if self.next.registrants.is_empty() {
                self.next.holder = None;
            }
        } else if was_holder {
            self.next.holder = None;
            if kind.admits_registrants() {
                self.notify_registrants(Event::Released);
            }
        }
    }

    fn reserve(&mut self, kind: ReservationType) -> Result<(), Refusal> {
        match &self.next.holder {
            None => {
                self.next.holder = Some(Holder {
                    kind,
                    nexus: self.by.clone(),
                });
                Ok(())
            }
            Some(holder) if holder.kind == kind && self.next.is_holder(self.by) => Ok(()),
            Some(_) => Err(Refusal::Conflict),
        }
    }

    fn release(&mut self, kind: ReservationType) -> Result<(), Refusal> {
        let Some(holder) = &self.next.holder else {
            return Ok(());
        };
        if !self.next.is_holder(self.by) {
            return Ok(());
        }
        if holder.kind != kind {
            return Err(Refusal::OtherType);
        }
        self.next.holder = None;
        if kind.admits_registrants() {
            self.notify_registrants(Event::Released);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.notify_registrants(Event::ReservationPreempted);
        self.next.registrants.clear();
        self.next.holder = None;
        self.bump();
    }

    /// SPC-4, section 5.13.11.4.
    fn preempt(&mut self, victim: u64, kind: Option<ReservationType>) -> Result<(), Refusal> {
        let holder = self.next.holder.clone();
        let takes_reservation = match &holder {
            Some(holder) if holder.kind.is_all_registrants() => victim == 0,
            Some(holder) => self
                .next
                .registrant(&holder.nexus)
                .is_some_and(|one| one.key == victim),
            None => false,
        };
        if takes_reservation {
            let kind = kind.ok_or(Refusal::NoType)?;
            self.remove(|one| victim == 0 || one.key == victim, true)?;
            let changed = holder.is_some_and(|old| old.kind != kind);
            self.next.holder = Some(Holder {
                kind,
                nexus: self.by.clone(),
            });
            if changed {
                self.notify_registrants(Event::Released);
            }
        } else {
            if victim == 0 {
                return Err(Refusal::ZeroKey);
            }
            self.remove(|one| one.key == victim, false)?;
            if self.next.registrants.is_empty() {
                self.next.holder = None;
            }
        }
        self.bump();
        Ok(())
    }

    /// Removes registrations and notifies their owners. A preemptor of the reservation remains
    /// registered.
    fn remove(
        &mut self,
        which: impl Fn(&Registrant<N>) -> bool,
        spare_own: bool,
    ) -> Result<(), Refusal> {
        if !self.next.registrants.iter().any(&which) {
            // Only an all registrants reservation without another registration reaches this with
            // `spare_own`.
            return if spare_own {
                Ok(())
            } else {
                Err(Refusal::Conflict)
            };
        }
        let by = self.by;
        let mut removed = Vec::new();
        self.next.registrants.retain(|one| {
            let stays = !which(one) || spare_own && one.nexus == *by;
            if !stays && one.nexus != *by {
                removed.push(one.nexus.clone());
            }
            stays
        });
        for nexus in removed {
            self.notices.push(Notice {
                nexus: nexus.clone(),
                event: Event::RegistrationPreempted,
            });
            self.abort.push(nexus);
        }
        Ok(())
    }

    /// REGISTER AND MOVE: SPC-4, section 5.13.8.
    fn relocate(
        &mut self,
        new_key: u64,
        to: N,
        unregister: bool,
        aptpl: bool,
    ) -> Result<(), Refusal> {
        let kind = match &self.next.holder {
            Some(holder) if holder.nexus == *self.by && !holder.kind.is_all_registrants() => {
                holder.kind
            }
            _ => return Err(Refusal::Conflict),
        };
        if new_key == 0 {
            return Err(Refusal::ZeroKey);
        }
        if to == *self.by {
            return Err(Refusal::MoveToSelf);
        }
        self.put(to.clone(), new_key, false)?;
        self.next.holder = Some(Holder { kind, nexus: to });
        if unregister {
            let by = self.by;
            self.next.registrants.retain(|one| one.nexus != *by);
        }
        self.next.aptpl = aptpl;
        self.bump();
        Ok(())
    }
}
