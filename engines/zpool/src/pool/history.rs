//! The history that a pool stores in itself. ZFS logs changes of the pool there; records are text,
//! and the oldest are overwritten by the newest. `zpool history` shows them, too.

use engine::HistoryRecord;
use engine::capabilities::History;
use zpool_sys as sys;

use super::{Pool, c_text, history_records};
use crate::error::{PoolError, SystemError};

impl History for Pool {
    fn add_to_history(&self, text: &str) -> Result<(), PoolError> {
        let text = c_text(text);
        // SAFETY: the library runs; both texts are copied.
        let code = unsafe { sys::bh_pool_history_add(self.c_name().as_ptr(), text.as_ptr()) };
        SystemError::check(code).map_err(|cause| {
            PoolError::common("add to the history of", self.name().as_str(), cause)
        })
    }

    fn history_tail(&self, bytes_max: usize) -> Result<Vec<u8>, PoolError> {
        let mut data = vec![0; bytes_max];
        let mut length = bytes_max as u64;
        // SAFETY: the library runs; there is room for as many bytes as passed.
        let code = unsafe {
            let data = data.as_mut_ptr().cast();
            sys::bh_pool_history_tail(self.c_name().as_ptr(), data, &mut length)
        };
        SystemError::check(code).map_err(|cause| {
            PoolError::common("read the history of", self.name().as_str(), cause)
        })?;
        data.truncate(length as usize);
        Ok(data)
    }

    fn history_records(&self, bytes_max: usize) -> Result<Vec<HistoryRecord>, PoolError> {
        Ok(history_records::records(&self.history_tail(bytes_max)?))
    }
}
