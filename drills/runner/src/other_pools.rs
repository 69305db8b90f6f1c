//! The other pools of the appliance, with clients of their own: a fault in one pool or on its head must not affect
//! clients of the other pools.

use std::time::Duration;

use drill_verdict::{Clients, OtherPoolRound, Timestamp};
use lab::{ClusterState, Lab};
use units::{HeadName, PoolName};

use crate::client::{Client, Pace};
use crate::client_events::ClientEvents;
use crate::error::DrillError;
use crate::fault::Fault;
use crate::watch::Watch;
use crate::workload::{self, START_LIMIT};

/// How long reading back one of these pools may take.
const VERIFY_LIMIT: Duration = Duration::from_secs(120);

/// A pool, its clients, and the watch over its disks.
pub struct OtherPools {
    /// The pool.
    pub pool: PoolName,
    /// Its clients.
    pub client: Client,
    watch: Watch,
    path_count: usize,
}

impl OtherPools {
    /// Offers volumes of `pool`, and puts clients to work on them.
    ///
    /// # Errors
    ///
    /// A command or a client fails.
    pub fn begin(
        lab: &Lab,
        pool: &PoolName,
        head: &HeadName,
        clients: Clients,
        seed: u64,
    ) -> Result<Self, DrillError> {
        let (client, watch) =
            workload::start_workload(lab, pool, head, 0, clients, Pace::Calm, seed)?;
        Ok(Self {
            pool: pool.clone(),
            client,
            watch,
            path_count: workload::path_count(lab, pool),
        })
    }

    /// Blocks until its clients are active.
    ///
    /// # Errors
    ///
    /// They do not begin.
    pub fn wait_ready(&mut self) -> Result<(), DrillError> {
        if self
            .client
            .listen_until(START_LIMIT, |seen| seen.is_ready)?
        {
            return Ok(());
        }
        let refusals = &self.client.seen.refusals;
        let message = format!("those of {} do not begin: {refusals:?}", self.pool);
        Err(DrillError::Client(message))
    }

    /// The reason why its clients are not well, or `None`.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub fn unhealthy(&mut self, fresh: Timestamp) -> Result<Option<String>, DrillError> {
        self.client.listen(Duration::ZERO)?;
        let seen = &self.client.seen;
        let is_well = seen.all_responded_since(fresh) && seen.paths_up.len() >= self.path_count;
        let pool = &self.pool;
        let (up, refusals) = (&seen.paths_up, &seen.refusals);
        Ok((!is_well).then(|| format!("clients of {pool} wait: up {up:?}, {refusals:?}")))
    }

    /// Discards the state from before the fault. Returns the head that serves the pool now.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub fn begin_round(&mut self, state: &ClusterState) -> Result<Option<HeadName>, DrillError> {
        self.client.listen(Duration::ZERO)?;
        self.client.seen.begin_round();
        self.watch.findings();
        Ok(workload::serving_head(state, &self.pool))
    }

    /// Blocks until I/O resumes, at most for `limit`, verifies all data, and returns the effect of the fault. The head
    /// that serves the pool afterwards is filled in later.
    ///
    /// # Errors
    ///
    /// The client is gone.
    pub fn end_round(
        &mut self,
        fault: &Fault,
        served_before: Option<HeadName>,
        limit: Duration,
    ) -> Result<OtherPoolRound, DrillError> {
        let now = Timestamp::now();
        let is_back = |seen: &ClientEvents| seen.all_responded_since(now);
        let came_back = self.client.listen_until(limit, is_back)?;
        let pauses = self.client.seen.pauses(fault.at);
        let pause_s = pauses.values().map(|pause| pause.seconds);
        let pause_s = pause_s.max_by(f64::total_cmp).filter(|_| came_back);
        self.client.verify()?;
        let is_verified = |seen: &ClientEvents| seen.verified.is_some();
        let is_verified = self.client.listen_until(VERIFY_LIMIT, is_verified)?;
        let seen = &self.client.seen;
        Ok(OtherPoolRound {
            was_struck: fault.victim.is_some() && fault.victim == served_before,
            served_before,
            served_after: None,
            pause_s,
            errors: seen.errors.clone(),
            violations: seen.violations.clone(),
            is_verified,
            double_imports: self.watch.findings(),
        })
    }
}
