//! The placement before and after each stage: runs of Ceph's tools, in parallel, checked against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use control::Failure;
use growth::crush::CrushMap;
use growth::osdmap::{OsdMap, Pool};
use growth::placement::{Exceptions, MapDump, Placement, PoolPlacement, SeedRange, Seeds, verify};
use growth::request::Growth;
use growth::reweight::REWEIGHT_ONE;
use growth::{GrowthError, OsdId};

use crate::tools::{Tools, failure};

/// Inputs of one run of `crushtool`.
const RANGE_LENGTH: u32 = 16_384;

/// Inputs of each pool by which the model is checked against the map before the growth.
const CHECKED_MAX: u32 = 4_096;

/// Most runs at the same time.
const WORKERS_MAX: usize = 16;

/// Computes placements for one map.
pub struct Model<'a> {
    /// The tools, with the map.
    pub tools: &'a Tools,
    /// The map.
    pub map: &'a OsdMap,
    /// The growth.
    pub growth: &'a Growth,
}

/// Does `work` for each item with several threads, and returns the results in order, or the first failure.
fn parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = workers.min(WORKERS_MAX).min(items.len());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let failed = Mutex::new(None);
    let one = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            match work(item) {
                Ok(result) => drop(lock(&results).insert(index, result)),
                Err(error) => {
                    lock(&failed).get_or_insert(error);
                    // The rest is not begun.
                    next.store(items.len(), Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(one);
        }
    });
    let failure = lock(&failed).take();
    match failure {
        Some(failure) => Err(failure),
        None => Ok(std::mem::take(&mut *lock(&results)).into_values().collect()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn ranges(pool: &Pool, inputs_max: u32) -> Vec<SeedRange> {
    let inputs = pool.placed_pgs.min(inputs_max);
    let starts = (0..inputs).step_by(RANGE_LENGTH as usize);
    starts
        .map(|first| SeedRange {
            first,
            last: (first + RANGE_LENGTH - 1).min(inputs - 1),
        })
        .collect()
}

/// One run of a tool.
enum Run<'a> {
    Dump(&'a Pool),
    Seeds(usize, &'a Pool, SeedRange),
}

impl Model<'_> {
    /// The placement before, and after each of `stages`. `before` is the map that was loaded.
    pub fn placements(
        &self,
        before: &CrushMap,
        stages: &[CrushMap],
    ) -> Result<Vec<Placement>, Failure> {
        let maps: Vec<(String, &CrushMap)> = std::iter::once(before)
            .chain(stages)
            .enumerate()
            .map(|(index, map)| (stage_name(index), map))
            .collect();
        parallel(&maps, |(name, map)| self.tools.compile(map, name))?;
        let mut runs = Vec::new();
        for pool in self.map.pools.values() {
            runs.push(Run::Dump(pool));
            for range in ranges(pool, CHECKED_MAX) {
                runs.push(Run::Seeds(0, pool, range));
            }
            for stage in 1..maps.len() {
                let ranges = ranges(pool, u32::MAX).into_iter();
                runs.extend(ranges.map(|range| Run::Seeds(stage, pool, range)));
            }
        }
        let weights = self.weights(&BTreeMap::new());
        let outputs = parallel(&runs, |run| match run {
            Run::Dump(pool) => self.tools.placement(pool),
            Run::Seeds(stage, pool, range) => self.seeds(*stage, pool, *range, &weights),
        })?;
        let mut results = Results::new(self.map, maps.len());
        for (run, output) in runs.iter().zip(outputs) {
            results
                .read(run, &output)
                .map_err(|error| failure(&error))?;
        }
        let mut placements = vec![
            self.before(before, &results)
                .map_err(|error| failure(&error))?,
        ];
        for (stage, map) in (1..).zip(stages) {
            let placed = results.stages[stage].clone();
            placements.push(self.after(map, placed).map_err(|error| failure(&error))?);
        }
        Ok(placements)
    }

    /// The placement after the last stage with other reweights.
    pub fn reweighted(
        &self,
        stages: &[CrushMap],
        reweights: &BTreeMap<OsdId, u32>,
    ) -> Result<Placement, Failure> {
        let stage = stages.len();
        let mut runs = Vec::new();
        for pool in self.map.pools.values() {
            let ranges = ranges(pool, u32::MAX).into_iter();
            runs.extend(ranges.map(|range| Run::Seeds(stage, pool, range)));
        }
        let weights = self.weights(reweights);
        let outputs = parallel(&runs, |run| match run {
            Run::Dump(pool) => self.tools.placement(pool),
            Run::Seeds(stage, pool, range) => self.seeds(*stage, pool, *range, &weights),
        })?;
        let mut results = Results::new(self.map, stage + 1);
        for (run, output) in runs.iter().zip(outputs) {
            results
                .read(run, &output)
                .map_err(|error| failure(&error))?;
        }
        let map = stages
            .last()
            .ok_or_else(|| Failure::usage("there is no stage"))?;
        let placed = results.stages[stage].clone();
        self.after(map, placed).map_err(|error| failure(&error))
    }

    fn seeds(
        &self,
        stage: usize,
        pool: &Pool,
        range: SeedRange,
        weights: &[String],
    ) -> Result<String, Failure> {
        let mut words = Seeds::arguments(pool, range);
        words.extend(weights.iter().cloned());
        self.tools.mappings(&stage_name(stage), words)
    }

    /// Disks that are not entirely in, as arguments of `crushtool`. New disks are in.
    fn weights(&self, changed: &BTreeMap<OsdId, u32>) -> Vec<String> {
        let added: BTreeSet<OsdId> = self.growth.added.iter().map(|disk| disk.osd).collect();
        let mut reweights: BTreeMap<OsdId, u32> = BTreeMap::new();
        let states = self.map.osds.iter();
        reweights.extend(states.map(|(&osd, state)| (osd, state.reweight)));
        reweights.retain(|osd, _| !added.contains(osd));
        reweights.extend(changed);
        let mut words = Vec::new();
        for (osd, reweight) in reweights {
            if reweight != REWEIGHT_ONE {
                // The tool rounds down.
                let fraction = (f64::from(reweight) + 0.25) / f64::from(REWEIGHT_ONE);
                words.extend(["--weight".to_owned(), osd.to_string()]);
                words.push(match reweight {
                    0 => "0".to_owned(),
                    _ => format!("{fraction:.9}"),
                });
            }
        }
        words
    }

    fn exceptions(&self, crush: &CrushMap) -> Exceptions<'_> {
        let states = self.map.osds.iter();
        let out = states.filter(|(_, state)| state.reweight == 0);
        let mut domains = BTreeMap::new();
        if !self.map.upmaps.items.is_empty() {
            for pool in self.map.pools.values() {
                if let Some(kind) = crush.failure_domain(pool.rule) {
                    domains.insert(pool.id, crush.domains(&kind));
                }
            }
        }
        Exceptions {
            upmaps: &self.map.upmaps,
            out: out.map(|(&osd, _)| osd).collect(),
            domains,
        }
    }

    fn before(&self, crush: &CrushMap, results: &Results<'_>) -> Result<Placement, GrowthError> {
        let exceptions = self.exceptions(crush);
        let mut placement = Placement::new();
        for pool in self.map.pools.values() {
            let dump = results.dumps.get(&pool.id);
            let dump = dump
                .ok_or_else(|| GrowthError::output(format!("pool {} was not placed", pool.name)))?;
            let mut placed = dump.raw.clone();
            exceptions.apply(pool.id, &mut placed);
            verify(self.map, pool, dump, &results.stages[0][&pool.id], &placed)?;
            placement.insert(pool.id, placed);
        }
        Ok(placement)
    }

    fn after(
        &self,
        crush: &CrushMap,
        seeds: BTreeMap<i64, Seeds<'_>>,
    ) -> Result<Placement, GrowthError> {
        let exceptions = self.exceptions(crush);
        let mut placement = Placement::new();
        for (pool, seeds) in seeds {
            let mut placed: PoolPlacement = seeds.into_placement()?;
            exceptions.apply(pool, &mut placed);
            placement.insert(pool, placed);
        }
        Ok(placement)
    }
}

fn stage_name(stage: usize) -> String {
    format!("crush-{stage}")
}

/// The parsed outputs of all runs.
struct Results<'a> {
    dumps: BTreeMap<i64, MapDump>,
    stages: Vec<BTreeMap<i64, Seeds<'a>>>,
}

impl<'a> Results<'a> {
    fn new(map: &'a OsdMap, stages: usize) -> Self {
        let seeds: BTreeMap<i64, Seeds<'a>> = map
            .pools
            .values()
            .map(|pool| (pool.id, Seeds::new(pool)))
            .collect();
        Self {
            dumps: BTreeMap::new(),
            stages: vec![seeds; stages],
        }
    }

    fn read(&mut self, run: &Run<'_>, output: &str) -> Result<(), GrowthError> {
        match run {
            Run::Dump(pool) => {
                self.dumps.insert(pool.id, MapDump::parse(pool, output)?);
                Ok(())
            }
            Run::Seeds(stage, pool, range) => {
                let seeds = self.stages.get_mut(*stage);
                let seeds = seeds.and_then(|pools| pools.get_mut(&pool.id));
                seeds.map_or(Ok(()), |seeds| seeds.read(*range, output))
            }
        }
    }
}
