//! The layout of a new pool, and its translation into the library's tree of devices.

use std::path::{Path, PathBuf};

use engine::pool::{GroupKind, GroupRole, GroupSpec, PoolProperty, PoolSpec};
use zpool_sys as sys;

use super::c_text;
use super::compatibility::{self, Allowed};
use crate::error::{PoolError, PoolErrorKind, errno, static_text};
use crate::nvlist::NvList;

/// The property that selects the other systems that must be able to open the pool.
const COMPATIBILITY: &str = "compatibility";

/// Smallest and largest block size (as a power of two) that a pool may assume of its devices.
pub(super) const ASHIFT_RANGE: std::ops::RangeInclusive<u64> = 9..=16;

/// Longest comment of a pool (`ZPROP_MAX_COMMENT`).
const COMMENT_BYTES_MAX: usize = 32;

fn shape<T>(why: &str) -> Result<T, PoolErrorKind> {
    Err(PoolErrorKind::Shape {
        why: why.to_owned(),
    })
}

fn ashift_of(spec: &PoolSpec) -> Result<Option<u64>, PoolErrorKind> {
    let Some((_, text)) = spec.properties.iter().find(|(name, _)| name == "ashift") else {
        return Ok(None);
    };
    check_value("ashift", text)?;
    Ok(text.parse().ok().filter(|shift| *shift != 0))
}

/// The library's tree for the groups of `spec`.
pub(super) fn tree_of(spec: &PoolSpec) -> Result<NvList, PoolErrorKind> {
    let data = spec
        .groups
        .iter()
        .any(|group| group.role == GroupRole::Data);
    if !data {
        return shape("name at least one device for data");
    }
    vdev_tree(&spec.groups, ashift_of(spec)?)
}

/// The library's form of the properties of `spec`, with all features enabled.
pub(super) fn create_properties(spec: &PoolSpec) -> Result<NvList, PoolError> {
    let mut list = NvList::new();
    let disabled: Vec<&str> = spec
        .properties
        .iter()
        .filter(|(name, value)| name.starts_with("feature@") && value == "disabled")
        .map(|(name, _)| name.as_str())
        .collect();
    let mut own = spec.properties.iter();
    let own = own.find(|(name, _)| name == COMPATIBILITY);
    let allowed = allowed_by(own.map_or("off", |(_, value)| value))
        .map_err(|kind| PoolError::new("create", spec.name.as_str(), kind))?;
    for feature in features() {
        let name = format!("feature@{feature}");
        if allowed.has(feature) && !disabled.contains(&name.as_str()) {
            list.set_u64(&name, 0);
        }
    }
    for (name, value) in &spec.properties {
        if !disabled.contains(&name.as_str()) {
            add_property(&mut list, name, value, true)
                .map_err(|kind| PoolError::new("create", spec.name.as_str(), kind))?;
        }
    }
    Ok(list)
}

/// The features that a pool with these properties may have.
pub(super) fn allowed(properties: &[PoolProperty]) -> Result<Allowed, PoolErrorKind> {
    let mut own = properties.iter().filter(|one| one.name == COMPATIBILITY);
    allowed_by(own.next().map_or("off", |one| &one.value))
}

fn allowed_by(value: &str) -> Result<Allowed, PoolErrorKind> {
    compatibility::read(value, features()).map_err(|why| PoolErrorKind::Property {
        property: COMPATIBILITY.to_owned(),
        why,
    })
}

/// The valid values of a property of pools in words; none if there is no such property.
pub fn property_values(property: &str) -> Option<String> {
    let name = c_text(property);
    // SAFETY: the name is only read; the result is a constant of the library or NULL.
    let values = unsafe { static_text(sys::bh_pool_property_values(name.as_ptr())) };
    values.map(str::to_owned)
}

/// The same for a property of file systems and volumes.
pub fn dataset_property_values(property: &str) -> Option<String> {
    let name = c_text(property);
    // SAFETY: the name is only read; the result is a constant of the library or NULL.
    let values = unsafe { static_text(sys::bh_property_values(name.as_ptr())) };
    values.map(str::to_owned)
}

/// Names of the features that the library supports.
pub fn features() -> impl Iterator<Item = &'static str> + Clone {
    (0..).map_while(|index| {
        // SAFETY: the library's table of features is a constant.
        unsafe { static_text(sys::bh_feature_name(index)) }
    })
}

/// Checks that the library leaves to its caller. It would store any of these values, and fail on
/// them later.
fn check_value(name: &str, value: &str) -> Result<(), PoolErrorKind> {
    if name == COMPATIBILITY {
        return allowed_by(value).map(drop);
    }
    let refused = match name {
        "ashift" => match value.parse() {
            Ok(0) => None,
            Ok(shift) if ASHIFT_RANGE.contains(&shift) => None,
            _ => {
                Some("choose 9 (512 bytes) to 16 (64K), or 0 for the size that the devices report")
            }
        },
        "readonly" => Some("it belongs to an import, and cannot be set"),
        "comment" => {
            let is_plain = value.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
            (!is_plain || value.len() > COMMENT_BYTES_MAX)
                .then_some("use at most 32 printable ASCII characters")
        }
        _ => None,
    };
    match refused {
        None => Ok(()),
        Some(why) => Err(PoolErrorKind::Property {
            property: name.to_owned(),
            why: why.to_owned(),
        }),
    }
}

/// Adds a property given as text.
pub(crate) fn add_property(
    list: &mut NvList,
    name: &str,
    value: &str,
    creating: bool,
) -> Result<(), PoolErrorKind> {
    use rustix::io::Errno;
    check_value(name, value)?;
    let (c_name, c_value) = (c_text(name), c_text(value));
    // SAFETY: the list is live and ours; both texts are copied.
    let code = unsafe {
        sys::bh_pool_property_parse(
            list.as_raw(),
            c_name.as_ptr(),
            c_value.as_ptr(),
            creating.into(),
        )
    };
    let why = match errno(code) {
        _ if code == 0 => return Ok(()),
        Errno::NOENT => "no such property",
        Errno::ROFS => "it cannot be set",
        _ => "it does not take this value",
    };
    Err(PoolErrorKind::Property {
        property: name.to_owned(),
        why: why.to_owned(),
    })
}

/// The library's tree for `groups`: a root with a child per group or striped device, and lists of
/// spares and caches.
pub(crate) fn vdev_tree(
    groups: &[GroupSpec],
    ashift: Option<u64>,
) -> Result<NvList, PoolErrorKind> {
    let mut children = Vec::new();
    let mut spares = Vec::new();
    let mut caches = Vec::new();
    for group in groups {
        check_group(group)?;
        match group.role {
            GroupRole::Spare => spares.extend(leaves(&group.devices, ashift)),
            GroupRole::Cache => caches.extend(leaves(&group.devices, ashift)),
            GroupRole::Data | GroupRole::Log => children.extend(top_level(group, ashift)),
        }
    }
    let mut root = NvList::new();
    root.set_text("type", "root");
    root.set_lists("children", &children);
    if !spares.is_empty() {
        root.set_lists("spares", &spares);
    }
    if !caches.is_empty() {
        root.set_lists("l2cache", &caches);
    }
    Ok(root)
}

fn check_group(group: &GroupSpec) -> Result<(), PoolErrorKind> {
    if group.devices.len() < group.kind.devices_min() {
        return shape(&format!(
            "a {:?} needs at least {} devices",
            group.kind,
            group.kind.devices_min()
        ));
    }
    let plain = group.kind == GroupKind::Stripe;
    match group.role {
        GroupRole::Log if group.kind.parity().is_some() => shape("a log is one device or a mirror"),
        GroupRole::Cache | GroupRole::Spare if !plain => {
            shape("caches and spares are single devices")
        }
        _ => match group.devices.iter().find(|path| !path.is_absolute()) {
            Some(path) => Err(PoolErrorKind::DeviceUnusable {
                path: path.clone(),
                why: "write its absolute path".to_owned(),
            }),
            None => Ok(()),
        },
    }
}

fn top_level(group: &GroupSpec, ashift: Option<u64>) -> Vec<NvList> {
    let log = group.role == GroupRole::Log;
    let mark = |mut vdev: NvList| {
        vdev.set_u64("is_log", log.into());
        if log {
            vdev.set_text("alloc_bias", "log");
        }
        vdev
    };
    let members: Vec<NvList> = leaves(&group.devices, ashift).collect();
    if group.kind == GroupKind::Stripe {
        return members.into_iter().map(mark).collect();
    }
    let mut vdev = NvList::new();
    match group.kind.parity() {
        Some(parity) => vdev.set_text("type", "raidz").set_u64("nparity", parity),
        None => vdev.set_text("type", "mirror"),
    };
    vdev.set_lists("children", &members);
    vec![mark(vdev)]
}

fn leaves(devices: &[PathBuf], ashift: Option<u64>) -> impl Iterator<Item = NvList> + '_ {
    devices.iter().map(move |path| leaf(path, ashift))
}

/// One device. Kernel ZFS opens files and disks by different drivers: the type has to be right for
/// a pool that moves there.
pub(crate) fn leaf(path: &Path, ashift: Option<u64>) -> NvList {
    use std::os::unix::fs::FileTypeExt;
    let disk = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device());
    let mut vdev = NvList::new();
    vdev.set_text("path", &path.to_string_lossy());
    vdev.set_text("type", if disk { "disk" } else { "file" });
    if disk {
        vdev.set_u64("whole_disk", 0);
    }
    if let Some(ashift) = ashift {
        vdev.set_u64("ashift", ashift);
    }
    vdev
}
