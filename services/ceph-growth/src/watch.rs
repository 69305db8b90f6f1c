//! `growth watch`: samples of the disks' fill, next to the plan.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::Failure;
use growth::GrowthError;
use growth::progress::{Sample, SavedPlan, chart, compare, parse_samples, push};
use rendering::Printer;

use crate::arguments::WatchArgs;
use crate::files::{FILE_BYTES_MAX, read, write};
use crate::tools::failure;
use crate::{live, text};

/// Samples until the movement is complete, or one comparison of saved samples.
pub fn run(args: &WatchArgs, out: Printer) -> Result<(), Failure> {
    let of_growth = |error: GrowthError| failure(&error);
    let plan = SavedPlan::parse(&read(&args.plan, FILE_BYTES_MAX)?).map_err(of_growth)?;
    let mut samples = match &args.samples {
        Some(path) if path.exists() || !args.live.is_given() => {
            let text = String::from_utf8(read(path, FILE_BYTES_MAX)?);
            let text =
                text.map_err(|_| Failure::usage(format!("{} is no text", path.display())))?;
            parse_samples(&text).map_err(of_growth)?
        }
        _ => Vec::new(),
    };
    if !args.live.is_given() {
        if args.samples.is_none() {
            let message = "no cluster and no samples are named";
            let advice = "give --cluster NAME or --conf FILE for a live cluster, or --samples FILE";
            return Err(Failure::usage(message).advise(advice));
        }
        return show(args, &plan, &samples, out);
    }
    let mut count = 0;
    loop {
        let sample = Sample {
            time_s: now_s(),
            disks: live::disks(&args.live)?,
        };
        if let Some(path) = &args.samples {
            append(path, &sample)?;
        }
        push(&mut samples, sample);
        count += 1;
        let progress = compare(&plan, args.stage, &samples).map_err(of_growth)?;
        draw(args, &plan, &samples)?;
        if progress.is_settled || args.count.is_some_and(|most| count >= most) {
            return out.either(&progress, || text::progress(&progress, args.all));
        }
        out.progress(&text::progress_line(&progress));
        // The interval of a measurement, not a wait for an event.
        std::thread::sleep(Duration::from_secs(args.interval));
    }
}

fn show(
    args: &WatchArgs,
    plan: &SavedPlan,
    samples: &[Sample],
    out: Printer,
) -> Result<(), Failure> {
    let progress = compare(plan, args.stage, samples).map_err(|error| failure(&error))?;
    draw(args, plan, samples)?;
    out.either(&progress, || text::progress(&progress, args.all))
}

fn draw(args: &WatchArgs, plan: &SavedPlan, samples: &[Sample]) -> Result<(), Failure> {
    match &args.svg {
        Some(path) => write(path, &chart(plan, args.stage, samples).to_svg()),
        None => Ok(()),
    }
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn append(path: &Path, sample: &Sample) -> Result<(), Failure> {
    let mut line = serde_json::to_string(sample).map_err(Failure::of("write a sample"))?;
    line.push('\n');
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(Failure::of(format!("append to {}", path.display())))
}
