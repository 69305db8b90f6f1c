//! The exports: as configured, as served, and as visible to one client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block_device::SharedDevice;
use serving::{Counters, FlushGroup};

use super::access::{Access, Client, Verdict};
use crate::protocol::wire::PAYLOAD_BYTES_MAX;
use crate::protocol::{Directory, ExportInfo, Listing, Lookup, TlsPolicy};

/// Minimum preferred block size of the protocol.
const PREFERRED_BLOCK_MIN: u32 = 512;

/// A configured export.
#[derive(Clone)]
pub struct DesiredExport {
    /// Its name; the empty name is the default export.
    pub name: String,
    /// For operators; may be empty.
    pub description: String,
    /// The device.
    pub device: SharedDevice,
    /// Refuses writes, even if the device permits them.
    pub read_only: bool,
    /// The clients that may use it.
    pub access: Access,
    /// Neither listed nor the default: only for clients that have its name. Only the part before a
    /// slash is logged.
    pub hidden: bool,
}

/// A served export. Flushes and counters survive a change of the rules.
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) device: SharedDevice,
    /// As configured; see [`Export::is_read_only`].
    read_only: bool,
    pub(crate) access: Access,
    hidden: bool,
    pub(crate) flushes: Arc<FlushGroup>,
    pub(crate) counters: Arc<Counters>,
}

impl Export {
    /// The name for the log. The name of a hidden export grants access, so that only the part
    /// before the slash is logged.
    pub(crate) fn logged_name(&self) -> &str {
        match (self.hidden, self.name.split_once('/')) {
            (false, _) => &self.name,
            (true, Some((what, _))) => what,
            (true, None) => "hidden",
        }
    }

    /// Creates an export, reusing the state of `before` if it serves the same device.
    pub(crate) fn new(desired: DesiredExport, before: Option<&Export>) -> Self {
        let (flushes, counters) = match before {
            Some(before) if Arc::ptr_eq(&before.device, &desired.device) => {
                (Arc::clone(&before.flushes), Arc::clone(&before.counters))
            }
            _ => (
                Arc::new(FlushGroup::new(Arc::clone(&desired.device))),
                Arc::default(),
            ),
        };
        Self {
            name: desired.name,
            description: desired.description,
            device: desired.device,
            read_only: desired.read_only,
            access: desired.access,
            hidden: desired.hidden,
            flushes,
            counters,
        }
    }

    /// Whether writes are refused, by configuration or by the device. Evaluated when a client
    /// connects: a device may have to be searched for, which must not happen for a thousand exports
    /// at the start.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only || self.device.geometry().read_only
    }

    /// Whether a session on `self` can continue when the export becomes `next`.
    pub(crate) fn can_become(&self, next: &Export) -> bool {
        Arc::ptr_eq(&self.device, &next.device) && self.read_only == next.read_only
    }

    /// Whether `next` is identical.
    pub(crate) fn equals(&self, next: &Export) -> bool {
        self.can_become(next)
            && self.description == next.description
            && self.access == next.access
            && self.hidden == next.hidden
    }

    fn info(&self) -> ExportInfo {
        let geometry = self.device.geometry();
        ExportInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            size: geometry.size,
            read_only: self.read_only || geometry.read_only,
            preferred_block: geometry
                .physical_block
                .max(PREFERRED_BLOCK_MIN)
                .next_power_of_two()
                .min(PAYLOAD_BYTES_MAX),
        }
    }
}

/// All exports by name. Replaced as a whole, so that a handshake sees one state.
pub(crate) type Catalog = BTreeMap<String, Arc<Export>>;

/// The exports that are visible to one client.
pub(crate) struct View<'a> {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) client: &'a Client,
    pub(crate) tls: TlsPolicy,
    pub(crate) stopping: &'a AtomicBool,
}

impl View<'_> {
    fn visible(&self) -> impl Iterator<Item = &Arc<Export>> {
        self.catalog
            .values()
            .filter(|export| !export.hidden)
            .filter(|export| export.access.judge(self.client) == Verdict::Admitted)
    }

    /// Finds an export. The default export is the one without a name, or the only one that is
    /// visible to this client.
    fn resolve(&self, name: &str) -> Option<&Arc<Export>> {
        if let Some(export) = self.catalog.get(name) {
            return Some(export);
        }
        if !name.is_empty() {
            return None;
        }
        let mut visible = self.visible();
        let only = visible.next()?;
        visible.next().is_none().then_some(only)
    }
}

impl Directory for View<'_> {
    fn list(&self) -> Vec<Listing> {
        self.visible()
            .map(|export| Listing {
                name: export.name.clone(),
                description: export.description.clone(),
            })
            .collect()
    }

    fn find(&self, name: &str) -> Lookup {
        let Some(export) = self.resolve(name) else {
            return Lookup::Unknown;
        };
        match export.access.judge(self.client) {
            Verdict::Admitted => Lookup::Found(export.info()),
            Verdict::NeedsTls if self.tls != TlsPolicy::Off => Lookup::NeedsTls,
            Verdict::NeedsTls | Verdict::Refused => Lookup::Unknown,
        }
    }

    fn is_shutting_down(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_device::MemoryDevice;

    #[test]
    fn secret_export_names_are_not_logged() {
        let named = |name: &str, hidden| {
            let desired = DesiredExport {
                name: name.to_owned(),
                description: String::new(),
                device: Arc::new(MemoryDevice::new(1 << 20, 4096)),
                read_only: false,
                access: Access::Everyone,
                hidden,
            };
            Export::new(desired, None).logged_name().to_owned()
        };
        assert_eq!(named("tank/disk", false), "tank/disk");
        assert_eq!(named("11/0f0e0d", true), "11");
        assert_eq!(named("0f0e0d", true), "hidden");
    }
}
