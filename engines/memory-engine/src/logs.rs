//! Intent logs: a test sets which of them are pending.

use engine::capabilities::IntentLogs;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use units::VolumeName;

use crate::state::MemoryPool;
use crate::tree::WaitingLog;

impl IntentLogs for MemoryPool {
    fn unreplayed_volumes(&self) -> Result<Vec<VolumeName>, DatasetError> {
        let of = DatasetRef::from(&self.name);
        let state = self.begin("unreplayed_volumes", "look for logs in", of)?;
        let all = state.tree.datasets.iter();
        let waiting = all.filter(|(_, one)| one.log != WaitingLog::None);
        Ok(waiting.filter_map(|(name, _)| name.parse().ok()).collect())
    }

    fn is_unreplayed(&self, name: &VolumeName) -> Result<bool, DatasetError> {
        const DOING: &str = "look at the log of";
        let state = self.begin("is_unreplayed", DOING, name.into())?;
        let dataset = state.tree.get(name.as_str());
        let dataset = dataset.map_err(|kind| DatasetError::new(DOING, name.as_str(), kind))?;
        Ok(dataset.log != WaitingLog::None)
    }

    fn replay(&self, name: &VolumeName) -> Result<(), DatasetError> {
        const DOING: &str = "replay the log of";
        let mut state = self.begin_change("replay", DOING, name.into())?;
        let fail = |kind| DatasetError::new(DOING, name.as_str(), kind);
        let is_locked = state.tree.is_locked(name.as_str());
        let dataset = state.tree.get_mut(name.as_str()).map_err(fail)?;
        match dataset.log {
            WaitingLog::None => Ok(()),
            _ if is_locked => Err(fail(DatasetErrorKind::KeyMissing)),
            WaitingLog::Unreadable => Err(fail(DatasetErrorKind::LogUnreadable)),
            WaitingLog::Waits => {
                dataset.log = WaitingLog::None;
                Ok(())
            }
        }
    }

    fn discard_log(&self, name: &VolumeName) -> Result<bool, DatasetError> {
        const DOING: &str = "discard the log of";
        let mut state = self.begin_change("discard_log", DOING, name.into())?;
        let dataset = state.tree.get_mut(name.as_str());
        let dataset = dataset.map_err(|kind| DatasetError::new(DOING, name.as_str(), kind))?;
        if dataset.is_open {
            return Err(DatasetError::new(
                DOING,
                name.as_str(),
                DatasetErrorKind::Busy,
            ));
        }
        Ok(std::mem::take(&mut dataset.log) != WaitingLog::None)
    }
}
