//! Lists of named values (nvlists), the form of the ZFS library's configuration, status and
//! properties.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use zpool_sys as sys;

/// A list that we own.
pub struct NvList(NonNull<sys::nvlist>);

// SAFETY: a list is plain memory without thread affinity; `&NvList` offers reading only.
unsafe impl Send for NvList {}
// SAFETY: the library's lookups on a list do not write to it, apart from a hash index that is
// built while entries are added, which needs `&mut`.
unsafe impl Sync for NvList {}

/// A list inside another list.
#[derive(Clone, Copy)]
pub struct NvRef<'a> {
    raw: NonNull<sys::nvlist>,
    owner: PhantomData<&'a NvList>,
}

/// A value, of the types that the library uses in the lists read here.
#[derive(Clone, Debug)]
pub enum NvValue<'a> {
    /// The name is there, without a value.
    Present,
    /// True or false.
    Boolean(bool),
    /// Any signed integer.
    Signed(i64),
    /// Any unsigned integer.
    Unsigned(u64),
    /// Text; invalid UTF-8 is replaced.
    Text(String),
    /// Several unsigned integers.
    UnsignedArray(&'a [u64]),
    /// Another list.
    List(NvRef<'a>),
    /// Several lists.
    Lists(Vec<NvRef<'a>>),
    /// A type that we have no use for.
    Other,
}

fn c_name(name: &str) -> CString {
    CString::new(name).expect("names of entries are our own constants or checked names")
}

/// The library's lists fail to grow only when memory is exhausted, which is fatal for the process;
/// and to be packed only when they are malformed, which would be a bug here.
fn must(code: c_int, doing: &str) {
    assert!(code == 0, "nvlist: {doing}: error {code}");
}

impl Default for NvList {
    fn default() -> Self {
        Self::new()
    }
}

impl NvList {
    /// An empty list.
    pub fn new() -> Self {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is valid for the result.
        let code = unsafe { sys::nvlist_alloc(&mut raw, sys::NV_UNIQUE_NAME, 0) };
        must(code, "allocate");
        Self(NonNull::new(raw).expect("allocated"))
    }

    /// Becomes the owner of a list that the library returned; `None` for NULL.
    ///
    /// # Safety
    /// `raw` is NULL or a list that no other code frees or changes.
    pub unsafe fn from_raw(raw: *mut sys::nvlist) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Decodes a packed list, such as a label of a device; `None` if it is none.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the library reads `length` bytes and writes none, despite the type; `raw` is
        // valid for the result.
        let code = unsafe {
            sys::nvlist_unpack(bytes.as_ptr().cast_mut().cast(), bytes.len(), &mut raw, 0)
        };
        if code == 0 {
            NonNull::new(raw).map(Self)
        } else {
            None
        }
    }

    /// For a function of the library that reads the list, or adds to it.
    pub fn as_raw(&self) -> *mut sys::nvlist {
        self.0.as_ptr()
    }

    /// Reads.
    pub fn view(&self) -> NvRef<'_> {
        NvRef {
            raw: self.0,
            owner: PhantomData,
        }
    }

    /// Adds or replaces an integer.
    pub fn set_u64(&mut self, name: &str, value: u64) -> &mut Self {
        let name = c_name(name);
        // SAFETY: the list is live; the name is copied.
        must(
            unsafe { sys::nvlist_add_uint64(self.as_raw(), name.as_ptr(), value) },
            "add integer",
        );
        self
    }

    /// Adds or replaces a text. A text is cut at its first NUL.
    pub fn set_text(&mut self, name: &str, value: &str) -> &mut Self {
        let name = c_name(name);
        let until_nul = value.split('\0').next().unwrap_or_default();
        let value = CString::new(until_nul).expect("no NUL is left");
        // SAFETY: the list is live; both strings are copied.
        must(
            unsafe { sys::nvlist_add_string(self.as_raw(), name.as_ptr(), value.as_ptr()) },
            "add text",
        );
        self
    }

    /// Adds or replaces a name without a value.
    pub fn set_present(&mut self, name: &str) -> &mut Self {
        let name = c_name(name);
        // SAFETY: the list is live; the name is copied.
        must(
            unsafe { sys::nvlist_add_boolean(self.as_raw(), name.as_ptr()) },
            "add name",
        );
        self
    }

    /// Adds or replaces a list by a copy of `value`.
    pub fn set_list(&mut self, name: &str, value: NvRef<'_>) -> &mut Self {
        let name = c_name(name);
        // SAFETY: both lists are live; `value` is copied.
        must(
            unsafe { sys::nvlist_add_nvlist(self.as_raw(), name.as_ptr(), value.raw.as_ptr()) },
            "add list",
        );
        self
    }

    /// Adds or replaces an array of lists by copies of `values`.
    pub fn set_lists(&mut self, name: &str, values: &[NvList]) -> &mut Self {
        let name = c_name(name);
        let raws: Vec<*const sys::nvlist> =
            values.iter().map(|v| v.as_raw().cast_const()).collect();
        // SAFETY: all lists are are valid for the call and are copied.
        must(
            unsafe {
                sys::nvlist_add_nvlist_array(
                    self.as_raw(),
                    name.as_ptr(),
                    raws.as_ptr(),
                    raws.len() as c_uint,
                )
            },
            "add lists",
        );
        self
    }

    /// Adds or replaces an array of integers.
    pub fn set_u64s(&mut self, name: &str, values: &[u64]) -> &mut Self {
        let name = c_name(name);
        // SAFETY: the list is live; `values` are copied.
        must(
            unsafe {
                sys::nvlist_add_uint64_array(
                    self.as_raw(),
                    name.as_ptr(),
                    values.as_ptr(),
                    values.len() as c_uint,
                )
            },
            "add integers",
        );
        self
    }

    /// Removes an entry, if present.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        let name = c_name(name);
        // SAFETY: the list is live. The only failure is that no such entry exists.
        let _ = unsafe { sys::nvlist_remove_all(self.as_raw(), name.as_ptr()) };
        self
    }
}

impl fmt::Debug for NvList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

impl fmt::Debug for NvRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.entries()).finish()
    }
}

impl Drop for NvList {
    fn drop(&mut self) {
        // SAFETY: we own it, and references to it do not outlive it.
        unsafe { sys::nvlist_free(self.0.as_ptr()) }
    }
}

impl Clone for NvList {
    fn clone(&self) -> Self {
        self.view().to_owned()
    }
}

impl<'a> NvRef<'a> {
    /// A copy that we own.
    pub fn to_owned(self) -> NvList {
        let mut raw = ptr::null_mut();
        // SAFETY: the source is live; `raw` is valid for the result.
        must(
            unsafe { sys::nvlist_dup(self.raw.as_ptr(), &mut raw, 0) },
            "copy",
        );
        NvList(NonNull::new(raw).expect("copied"))
    }

    fn pair(self, name: &str) -> Option<NonNull<sys::nvpair>> {
        let name = c_name(name);
        let mut pair = ptr::null_mut();
        // SAFETY: the list is live; `pair` is valid for the result.
        let code =
            unsafe { sys::nvlist_lookup_nvpair(self.raw.as_ptr(), name.as_ptr(), &mut pair) };
        if code == 0 { NonNull::new(pair) } else { None }
    }

    /// The entry called `name`.
    pub fn get(self, name: &str) -> Option<NvValue<'a>> {
        // SAFETY: a pair found in a live list is live as long as the list.
        self.pair(name).map(|pair| unsafe { value_of(pair) })
    }

    /// The entry called `name`, if it is an unsigned integer.
    pub fn u64(self, name: &str) -> Option<u64> {
        match self.get(name)? {
            NvValue::Unsigned(value) => Some(value),
            _ => None,
        }
    }

    /// The entry called `name`, if it is a text.
    pub fn text(self, name: &str) -> Option<String> {
        match self.get(name)? {
            NvValue::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The entry called `name`, if it is a list.
    pub fn list(self, name: &str) -> Option<NvRef<'a>> {
        match self.get(name)? {
            NvValue::List(value) => Some(value),
            _ => None,
        }
    }

    /// The entry called `name`, if it is an array of lists; else nothing.
    pub fn lists(self, name: &str) -> Vec<NvRef<'a>> {
        match self.get(name) {
            Some(NvValue::Lists(values)) => values,
            _ => Vec::new(),
        }
    }

    /// The entry called `name`, if it is an array of integers; else nothing.
    pub fn u64s(self, name: &str) -> &'a [u64] {
        match self.get(name) {
            Some(NvValue::UnsignedArray(values)) => values,
            _ => &[],
        }
    }

    /// The entries of the list called `name` that are integers, in order; else nothing.
    pub fn numbers(self, name: &str) -> Vec<(String, u64)> {
        let entries = self.list(name).map(NvRef::entries);
        let numbers = entries.into_iter().flatten();
        let numbers = numbers.filter_map(|(name, value)| match value {
            NvValue::Unsigned(number) => Some((name, number)),
            _ => None,
        });
        numbers.collect()
    }

    /// All entries, in order.
    pub fn entries(self) -> Vec<(String, NvValue<'a>)> {
        let mut entries = Vec::new();
        let mut last = ptr::null_mut();
        loop {
            // SAFETY: the list is live; `last` is NULL or a pair of it.
            let next = unsafe { sys::nvlist_next_nvpair(self.raw.as_ptr(), last) };
            let Some(pair) = NonNull::new(next) else {
                return entries;
            };
            // SAFETY: the pair is live, and so are its name and value.
            let (name, value) = unsafe {
                let name = CStr::from_ptr(sys::nvpair_name(next));
                (name.to_string_lossy().into_owned(), value_of(pair))
            };
            entries.push((name, value));
            last = next;
        }
    }
}

/// Reads with one of the library's typed getters.
macro_rules! read_as {
    ($getter:path, $pair:expr, $initial:expr) => {{
        let mut value = $initial;
        must($getter($pair, &mut value), "read a value of its own type");
        value
    }};
}

/// # Safety
/// `pair` belongs to a list that stays alive and unchanged for `'a`.
unsafe fn value_of<'a>(pair: NonNull<sys::nvpair>) -> NvValue<'a> {
    let raw = pair.as_ptr();
    let nested = |list: *mut sys::nvlist| NvRef {
        raw: NonNull::new(list).expect("a list value is a list"),
        owner: PhantomData,
    };
    // SAFETY: each getter is called for a pair of its own type, and its result is valid as long as
    // the pair.
    unsafe {
        match sys::nvpair_type(raw) {
            sys::DATA_TYPE_BOOLEAN => NvValue::Present,
            sys::DATA_TYPE_BOOLEAN_VALUE => {
                NvValue::Boolean(read_as!(sys::nvpair_value_boolean_value, raw, 0) != 0)
            }
            sys::DATA_TYPE_INT32 => {
                NvValue::Signed(read_as!(sys::nvpair_value_int32, raw, 0).into())
            }
            sys::DATA_TYPE_INT64 => NvValue::Signed(read_as!(sys::nvpair_value_int64, raw, 0)),
            sys::DATA_TYPE_UINT8 => {
                NvValue::Unsigned(read_as!(sys::nvpair_value_uint8, raw, 0).into())
            }
            sys::DATA_TYPE_UINT32 => {
                NvValue::Unsigned(read_as!(sys::nvpair_value_uint32, raw, 0).into())
            }
            sys::DATA_TYPE_UINT64 => NvValue::Unsigned(read_as!(sys::nvpair_value_uint64, raw, 0)),
            sys::DATA_TYPE_STRING => {
                let text: *const c_char = read_as!(sys::nvpair_value_string, raw, ptr::null());
                NvValue::Text(CStr::from_ptr(text).to_string_lossy().into_owned())
            }
            sys::DATA_TYPE_NVLIST => NvValue::List(nested(read_as!(
                sys::nvpair_value_nvlist,
                raw,
                ptr::null_mut()
            ))),
            sys::DATA_TYPE_UINT64_ARRAY => {
                let (mut values, mut count) = (ptr::null_mut(), 0);
                must(
                    sys::nvpair_value_uint64_array(raw, &mut values, &mut count),
                    "read integers",
                );
                NvValue::UnsignedArray(slice_of(values, count))
            }
            sys::DATA_TYPE_NVLIST_ARRAY => {
                let (mut values, mut count) = (ptr::null_mut(), 0);
                must(
                    sys::nvpair_value_nvlist_array(raw, &mut values, &mut count),
                    "read lists",
                );
                NvValue::Lists(slice_of(values, count).iter().map(|l| nested(*l)).collect())
            }
            _ => NvValue::Other,
        }
    }
}

/// # Safety
/// `values` points to `count` values that live for `'a`, or `count` is zero.
unsafe fn slice_of<'a, T>(values: *mut T, count: c_uint) -> &'a [T] {
    if count == 0 || values.is_null() {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(values, count as usize) }
}

/// The text of a C string.
///
/// # Safety
/// `raw` is NUL-terminated.
pub(crate) unsafe fn text(raw: *const c_char) -> String {
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(raw) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvlist_returns_the_stored_values() {
        let mut child = NvList::new();
        child.set_text("path", "/x").set_u64("id", 7);
        let mut list = NvList::new();
        list.set_u64("a", 1)
            .set_u64("a", u64::MAX)
            .set_u64s("n", &[1, 2])
            .set_lists("children", &[child.clone(), child.clone()])
            .set_list("one", child.view())
            .set_present("here");
        let view = list.view();
        assert_eq!(view.u64("a"), Some(u64::MAX));
        assert_eq!(view.u64s("n"), [1, 2]);
        assert_eq!(view.lists("children")[1].text("path").unwrap(), "/x");
        assert_eq!(view.list("one").unwrap().u64("id"), Some(7));
        assert!(matches!(view.get("here"), Some(NvValue::Present)));
        assert_eq!(view.entries().len(), 5);
        list.remove("a");
        assert_eq!(list.view().u64("a"), None);
    }

    #[test]
    fn garbage_is_not_parsed_as_nvlist() {
        assert!(NvList::unpack(b"").is_none());
        assert!(NvList::unpack(&[0xff; 64]).is_none());
    }
}
