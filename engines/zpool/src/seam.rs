//! The library as one of several engines.

use std::path::PathBuf;

use engine::pool::{Candidate, DiscoverError, ImportOptions, PoolError, PoolSpec, SafeToOwn};
use engine::{Claimed, HostId};
use units::ByteCount;

use crate::pool::{ClaimedPool, Pool, discover_all, same_host_and_locked};
use crate::runtime::Engine;

impl engine::Engine for &'static Engine {
    fn host_id(&self) -> HostId {
        Engine::host_id(self)
    }

    fn cache_bytes(&self) -> (ByteCount, ByteCount) {
        Engine::cache_bytes(self)
    }

    fn create(&self, spec: &PoolSpec) -> Result<Box<dyn engine::Pool>, PoolError> {
        Ok(Box::new(Pool::create(self, spec)?))
    }

    fn discover(&self, places: &[PathBuf]) -> Result<Vec<Candidate>, DiscoverError> {
        discover_all(places, &[])
    }

    fn same_host_and_locked(&self, candidate: &Candidate) -> Result<SafeToOwn, PoolError> {
        same_host_and_locked(self, candidate)
    }

    fn claim<'a>(
        &self,
        candidate: &'a Candidate,
        proof: SafeToOwn,
        options: &'a ImportOptions,
    ) -> Result<Box<dyn Claimed + 'a>, PoolError> {
        Ok(Box::new(Pool::claim(self, candidate, proof, options)?))
    }
}

impl Claimed for ClaimedPool<'_> {
    fn is_certain(&self) -> bool {
        ClaimedPool::is_certain(self)
    }

    fn note(&self) -> Option<&str> {
        ClaimedPool::note(self)
    }

    fn open(self: Box<Self>) -> Result<Box<dyn engine::Pool>, PoolError> {
        Ok(Box::new(ClaimedPool::open(*self)?))
    }
}
