//! Freezes and thaws volumes: all that are named, or none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::BlockDevice;
use control::answer::{Done, FrozenView};
use control::calendar::utc;
use control::{Answer, Failure, FailureKind};
use operations::events::NewEvent;
use units::VolumeName;

use super::core::Core;
use super::freeze::Thawed;
use super::lazy::LazyVolume;

/// Longest wait for active changes. They complete when the pool's devices respond.
const PAUSE_WAIT: Duration = Duration::from_secs(10);

/// Thaws the volumes unless the whole freeze succeeds.
struct AllOrNone<'a> {
    devices: &'a [(&'a VolumeName, Arc<LazyVolume>)],
    is_done: bool,
}

impl Drop for AllOrNone<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        for (_, device) in self.devices {
            device.freeze_gate().thaw();
        }
    }
}

impl Core {
    /// Holds the changes of `names` by clients from one point in time on, after all earlier changes are durable. If all
    /// the volumes are frozen already, their freezes are extended.
    pub fn freeze_volumes(
        &self,
        names: &[VolumeName],
        lasting: Duration,
    ) -> Result<Answer, Failure> {
        let devices = self.served(names)?;
        let is_frozen = |device: &LazyVolume| device.freeze_gate().frozen().is_some();
        let frozen = devices.iter().filter(|(_, device)| is_frozen(device));
        let view = match frozen.count() {
            0 => begin(&devices, lasting)?,
            count if count == devices.len() => extend(&devices, lasting)?,
            _ => {
                let message = "only some of the volumes are frozen already";
                return Err(Failure::new(FailureKind::Busy, message)
                    .advise("thaw them first: `bulkhead volume thaw`"));
            }
        };
        let message = format!("{} frozen until {}", are(names), until(view));
        let news = NewEvent::of_pool("volume_frozen", message.clone(), false);
        self.watch.journal().add(news);
        Ok(Done::changed(message))
    }

    /// Removes the freezes of `names`. Fails if one of them was over before: a copy made since then is not consistent.
    pub fn thaw_volumes(&self, names: &[VolumeName]) -> Result<Answer, Failure> {
        let devices = self.serving.volumes.shown(names);
        let mut lost = Vec::new();
        for (name, device) in devices {
            match device.map_or(Thawed::Never, |device| device.freeze_gate().thaw()) {
                Thawed::Frozen(_) => {}
                Thawed::Expired(view) => {
                    lost.push(format!("the freeze of {name} expired at {}", until(view)));
                }
                Thawed::Never => lost.push(format!("{name} is not frozen")),
            }
        }
        if lost.is_empty() {
            let message = format!("{} thawed", are(names));
            let news = NewEvent::of_pool("volume_thawed", message.clone(), false);
            self.watch.journal().add(news);
            return Ok(Done::changed(message));
        }
        Err(Failure::new(FailureKind::Exists, lost.join("; ")).advise(
            "a copy that was made since is not consistent: freeze, copy and thaw again. A freeze expires at its bound, \
             and with the server of the pool",
        ))
    }

    /// Reports expired freezes.
    pub fn report_expired_freezes(&self) {
        for (name, view) in self.serving.volumes.expired_freezes() {
            let message = format!(
                "the freeze of {name} expired at {}: clients write again",
                until(view)
            );
            let news = NewEvent::of_pool("freeze_expired", message, true);
            self.watch.journal().add(news);
        }
    }

    /// Refuses to change `name` while it or a descendant is frozen.
    pub fn refuse_frozen(&self, name: &VolumeName) -> Result<(), Failure> {
        match self.serving.volumes.frozen_below(name) {
            None => Ok(()),
            Some((frozen, view)) => {
                let message = format!("{frozen} is frozen until {}", until(view));
                Err(Failure::new(FailureKind::Busy, message).advise(format!(
                    "`bulkhead volume thaw {frozen}` removes the freeze"
                )))
            }
        }
    }

    /// The devices of the exported volumes.
    fn served<'a>(
        &self,
        names: &'a [VolumeName],
    ) -> Result<Vec<(&'a VolumeName, Arc<LazyVolume>)>, Failure> {
        let mut devices = Vec::new();
        for (name, device) in self.serving.volumes.shown(names) {
            let Some(device) = device else {
                let message = format!("no client can use {name}: it is not exported");
                return Err(Failure::new(FailureKind::Unavailable, message)
                    .advise("leave it out: nothing writes to it"));
            };
            self.serving.volumes.open(name)?;
            devices.push((name, device));
        }
        Ok(devices)
    }
}

fn begin(
    devices: &[(&VolumeName, Arc<LazyVolume>)],
    lasting: Duration,
) -> Result<FrozenView, Failure> {
    let mut all = AllOrNone {
        devices,
        is_done: false,
    };
    let deadline = Instant::now() + PAUSE_WAIT;
    for (name, device) in devices {
        let wait = deadline.saturating_duration_since(Instant::now());
        let frozen = device.freeze_gate().freeze(wait, PAUSE_WAIT + lasting);
        frozen.map_err(|_| {
            let seconds = PAUSE_WAIT.as_secs();
            let message = format!(
                "commands on {name} did not end within {seconds} seconds, and nothing is frozen"
            );
            Failure::new(FailureKind::Busy, message)
                .advise("`bulkhead status` shows whether a device is slow; then try again")
        })?;
    }
    // No change of any of them is active: this is the point in time.
    for (_, device) in devices {
        let flushed = device.flush();
        flushed.map_err(|error| Failure::from_chain(FailureKind::Failed, &error))?;
    }
    let view = lasting_all(devices, lasting)?;
    all.is_done = true;
    Ok(view)
}

fn extend(
    devices: &[(&VolumeName, Arc<LazyVolume>)],
    lasting: Duration,
) -> Result<FrozenView, Failure> {
    let bound = Duration::from_secs(FrozenView::SECONDS_MAX);
    for (name, device) in devices {
        let frozen = device.freeze_gate().frozen();
        if let Some((_, since)) = frozen.filter(|(_, since)| *since + lasting > bound) {
            let (since, bound) = (since.as_secs(), bound.as_secs());
            let message = format!(
                "{name} is frozen for {since} s already, and at most {bound} s are allowed"
            );
            return Err(Failure::usage(message).advise("thaw it, and freeze it again"));
        }
    }
    lasting_all(devices, lasting)
}

/// Extends the freezes of all by `lasting` from now.
fn lasting_all(
    devices: &[(&VolumeName, Arc<LazyVolume>)],
    lasting: Duration,
) -> Result<FrozenView, Failure> {
    let mut newest = None;
    for (name, device) in devices {
        newest = device.freeze_gate().extend(lasting);
        if newest.is_none() {
            let message = format!("the freeze of {name} was removed concurrently");
            return Err(Failure::new(FailureKind::Busy, message).advise("try again"));
        }
    }
    newest.ok_or_else(|| Failure::usage("no volume is named"))
}

fn are(names: &[VolumeName]) -> String {
    let list: Vec<&str> = names.iter().map(VolumeName::as_str).collect();
    match list.as_slice() {
        [one] => format!("{one} is"),
        all => format!("{} are", all.join(", ")),
    }
}

fn until(view: FrozenView) -> String {
    utc(view.until_ms / 1000)
}
