//! Implements the interface of `leg-door` to a pool.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::operations::pool::DeviceGroup;
use control::{Answer, Failure};
use engine::pool::{Candidate, PreviousOwner};
use engine::{Engine, Pool};
use leg_door::{
    Claim, LegControl, LegPool, LegRequest, LegStatus, MemberRequest, NewRecord, Opened, OwnedLegs,
};
use legs::{Bootstrap, Legs, Reporter, Viewer};
use units::PoolName;

use crate::multi_head::{LegsOfPool, refused};
use crate::on_record;

impl LegPool for LegsOfPool {
    fn record(&self) -> u64 {
        self.record()
    }

    fn path(&self) -> &Path {
        self.path()
    }

    fn own_paths(&self) -> Vec<PathBuf> {
        self.own_paths()
    }

    fn groups(&self) -> Vec<DeviceGroup> {
        self.groups()
    }

    fn with_names(&self, failure: Failure) -> Failure {
        self.with_names(failure)
    }

    fn install(&self, options: &mut dyn Any) {
        self.install(options);
    }

    fn begin_pool(&self, may_overwrite: bool) -> Result<Box<dyn NewRecord>, Failure> {
        Ok(Box::new(Begun {
            bootstrap: self.begin_bootstrap(may_overwrite)?,
            pool: self.name().clone(),
            advice: "the pool has no record, and is unusable without one: create it again, with --overwrite-old-labels",
        }))
    }

    fn are_present(&self) -> Result<(), Failure> {
        on_record::are_present(self)
    }

    fn begin_record(&self, candidate: &Candidate) -> Result<Box<dyn NewRecord>, Failure> {
        let is_labelled = on_record::may_record(candidate, self)?;
        Ok(Box::new(Begun {
            bootstrap: self.begin_record(is_labelled)?,
            pool: self.name().clone(),
            advice: "repeat the command when all members respond: until then, the pool cannot be opened",
        }))
    }

    fn open_unrecorded(&self, engine: &dyn Engine) -> Result<Box<dyn Pool>, Failure> {
        self.open_unrecorded(engine)
    }

    fn open(
        self: Arc<Self>,
        engine: Arc<dyn Engine>,
        owner_before: &PreviousOwner,
        disk_wait: Duration,
        claim: Box<Claim>,
    ) -> Result<Opened, Failure> {
        let (pool, legs) = LegsOfPool::open(&self, engine, owner_before, disk_wait, claim)?;
        Ok((pool, Box::new(Owned { of: self, legs })))
    }
}

/// A record that is being created on its members.
struct Begun {
    bootstrap: Bootstrap,
    pool: PoolName,
    /// Remedy if a member does not respond.
    advice: &'static str,
}

impl NewRecord for Begun {
    fn is_taken_up(&self) -> bool {
        self.bootstrap.is_taken_up()
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let finished = self.bootstrap.finish();
        finished.map_err(|error| refused(&self.pool, &error).advise(self.advice))
    }
}

/// The legs of a pool that this process owns.
struct Owned {
    of: Arc<LegsOfPool>,
    legs: Legs,
}

impl OwnedLegs for Owned {
    fn control(&self) -> Arc<dyn LegControl> {
        Arc::new(Control {
            of: Arc::clone(&self.of),
            viewer: self.legs.viewer(),
            reporter: self.legs.reporter(),
        })
    }

    fn close(self: Box<Self>) {
        let shown = self.legs.close();
        tracing::info!(stage = ?shown.stage, "the pool is given up");
    }
}

struct Control {
    of: Arc<LegsOfPool>,
    viewer: Viewer,
    reporter: Reporter,
}

impl LegControl for Control {
    fn show(&self) -> LegStatus {
        self.of.status(&self.viewer, &self.reporter)
    }

    fn request(&self, leg: &str, request: LegRequest) -> Result<Answer, Failure> {
        let owner = (&self.viewer, &self.reporter);
        self.of.perform(owner, leg, &request)
    }

    fn change_members(&self, request: MemberRequest<'_>) -> Result<Answer, Failure> {
        let owner = (&self.viewer, &self.reporter);
        self.of.change_members(owner, request)
    }
}
