//! `bulkhead growth`: from the arguments to the plan.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use control::Failure;
use growth::crush::CrushMap;
use growth::osdmap::OsdMap;
use growth::plan::{Inputs, Plan, assemble};
use growth::rates::Rates;
use growth::request::{prepared, reached_pools, resolve};
use growth::reweight::{ROUNDS_MAX, next_reweights, over_full};
use growth::stored::Stored;
use growth::{GrowthError, OsdId, stages};
use rendering::Printer;

use crate::arguments::{GrowthCommand, PlanArgs};
use crate::files::{FILE_BYTES_MAX, read, write};
use crate::model::Model;
use crate::tools::{Tools, failure};
use crate::{live, text, watch};

/// Performs the command.
///
/// # Errors
///
/// The input is wrong, or a tool of Ceph is missing or fails.
pub fn run(command: &GrowthCommand, out: Printer) -> Result<ExitCode, Failure> {
    match command {
        GrowthCommand::Plan(args) => plan(args, out)?,
        GrowthCommand::Watch(args) => watch::run(args, out)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &PlanArgs, out: Printer) -> Result<(), Failure> {
    let started = Instant::now();
    let tools = Tools::new()?;
    let (map, crush) = load(args, &tools)?;
    if map.pools.is_empty() {
        let advice = "a simulated map has a pool with --with-default-pool";
        return Err(Failure::usage("the map has no pools, so no data can move").advise(advice));
    }
    check_existing(&map, &crush)?;
    let stored = stored(args, &map)?;
    let of_growth = |error: GrowthError| failure(&error);
    let growth =
        resolve(&map, &crush, &args.add, &args.remove, args.first_osd).map_err(of_growth)?;
    let prepared = prepared(&crush, &growth).map_err(of_growth)?;
    let reached = reached_pools(&map, &prepared, &growth).map_err(of_growth)?;
    let stages = stages::divide(&growth, args.stages).map_err(of_growth)?;
    let maps = stages::maps(&prepared, &growth, &stages).map_err(of_growth)?;
    let model = Model {
        tools: &tools,
        map: &map,
        growth: &growth,
    };
    let placements = model.placements(&crush, &maps)?;
    let rates = rates(args);
    let inputs = Inputs {
        map: &map,
        before: &crush,
        after: maps.last().unwrap_or(&prepared),
        growth: &growth,
        stored: &stored,
        rates: &rates,
        stages: &stages,
        placements: &placements,
        over: f64::from(args.over) / 100.0,
    };
    let mut plan = assemble(&inputs);
    if !growth.added.is_empty() {
        let missed = reached.iter().filter(|(_, reached)| !**reached);
        plan.notes.extend(
            missed.map(|(pool, _)| format!("the rule of pool {pool} does not use the new disks")),
        );
    }
    if args.reweight && !plan.over_full.is_empty() {
        propose(&mut plan, &inputs, &model, &maps)?;
    }
    write_files(args, &plan)?;
    out.either(&plan, || text::plan(&plan, args.all))?;
    out.progress(&format!(
        "{} placements of {} groups in {:.1} s; nothing was changed",
        placements.len(),
        map.pgs(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

fn load(args: &PlanArgs, tools: &Tools) -> Result<(OsdMap, CrushMap), Failure> {
    match &args.osdmap {
        Some(path) => tools.load(path),
        None if args.live.is_given() => {
            let path = tools.path("live-osdmap");
            live::write_map(&args.live, &path)?;
            tools.load(&path)
        }
        None => Err(Failure::usage("no cluster and no map is named").advise(
            "give --osdmap FILE for a saved map, or --cluster NAME or --conf FILE for a live cluster",
        )),
    }
}

/// A disk of the hierarchy that does not exist in the map holds no data.
fn check_existing(map: &OsdMap, crush: &CrushMap) -> Result<(), Failure> {
    let disks = crush.disks();
    let is_used = |osd: &OsdId| map.osds.get(osd).is_some_and(|state| state.reweight > 0);
    match disks.keys().any(is_used) {
        true => Ok(()),
        false => {
            let message = format!("none of the {} disks of the map is in", disks.len());
            Err(Failure::usage(message).advise(
                "of a simulated map, mark them: `osdmaptool FILE --mark-up-in --import-crush CRUSH`",
            ))
        }
    }
}

fn stored(args: &PlanArgs, map: &OsdMap) -> Result<Stored, Failure> {
    let of_growth = |error: GrowthError| failure(&error);
    match (&args.osdmap, &args.pg_dump) {
        (_, Some(path)) => {
            Stored::from_pg_dump(map, &read(path, FILE_BYTES_MAX)?).map_err(of_growth)
        }
        (None, None) if args.pool_bytes.is_empty() => {
            Stored::from_pg_dump(map, &live::pg_dump(&args.live)?).map_err(of_growth)
        }
        _ => Stored::evenly(map, &args.pool_bytes).map_err(of_growth),
    }
}

fn rates(args: &PlanArgs) -> Rates {
    let rate =
        |rate: Option<units::ByteCount>| rate.map(|rate| rate.get()).filter(|&rate| rate > 0);
    Rates {
        disk: rate(args.disk_rate),
        network: rate(args.network_rate),
        journal: rate(args.journal_rate),
        journals_per_host: args.journals,
        journal_factor: args.journal_factor,
        measured: rate(args.rate),
    }
}

/// Lowers the reweights of over-full disks, round by round, and retains the best result.
fn propose(
    plan: &mut Plan,
    inputs: &Inputs<'_>,
    model: &Model<'_>,
    maps: &[CrushMap],
) -> Result<(), Failure> {
    let highest = |fills: &BTreeMap<OsdId, f64>| fills.values().copied().fold(0.0, f64::max);
    let mean = plan.mean_fill_after;
    let mut fills = plan.fills();
    let states = inputs.map.osds.iter();
    let lowered = states.filter(|(_, state)| state.reweight < growth::reweight::REWEIGHT_ONE);
    let mut reweights: BTreeMap<OsdId, u32> =
        lowered.map(|(&osd, state)| (osd, state.reweight)).collect();
    let mut best = None;
    let mut best_fill = highest(&fills);
    for _ in 0..ROUNDS_MAX {
        if over_full(&fills, mean, inputs.over).is_empty() {
            break;
        }
        reweights = next_reweights(&fills, mean, inputs.over, &reweights);
        let placement = model.reweighted(maps, &reweights)?;
        fills = plan.fills_reweighted(inputs, &placement);
        if highest(&fills) < best_fill {
            best_fill = highest(&fills);
            best = Some((reweights.clone(), placement));
        }
    }
    if let Some((reweights, placement)) = best {
        plan.set_reweights(inputs, &reweights, &placement);
    }
    Ok(())
}

fn write_files(args: &PlanArgs, plan: &Plan) -> Result<(), Failure> {
    if let Some(path) = &args.svg {
        write(path, &plan.chart().to_svg())?;
    }
    if let Some(path) = &args.save {
        write(path, &rendering::document(plan))?;
    }
    Ok(())
}
