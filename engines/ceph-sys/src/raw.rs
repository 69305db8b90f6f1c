//! The functions of librados and librbd that the safe layer uses, declaration for declaration.
//! `tests/declarations.rs` compares every line with the C headers. Units, ownership and errors are documented there.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `rados_write_op_create`: fails if the object exists.
pub const LIBRADOS_CREATE_EXCLUSIVE: c_int = 1;
/// `rados_write_op_create`: an object that exists is no error.
pub const LIBRADOS_CREATE_IDEMPOTENT: c_int = 0;
/// `rados_write_op_omap_cmp2`: the stored value must be equal.
pub const LIBRADOS_CMPXATTR_OP_EQ: u8 = 1;
/// The exclusive mode of an image's lock, without automatic transitions.
pub const RBD_LOCK_MODE_EXCLUSIVE: c_uint = 0;
/// Number of the option "features" of a new image.
pub const RBD_IMAGE_OPTION_FEATURES: c_int = 1;
/// Number of the option "order" of a new image: its objects have 2^order bytes.
pub const RBD_IMAGE_OPTION_ORDER: c_int = 2;
/// Number of the option "clone format": format 2 needs no protected snapshot.
pub const RBD_IMAGE_OPTION_CLONE_FORMAT: c_int = 12;
/// Zeroed ranges stay allocated.
pub const RBD_WRITE_ZEROES_FLAG_THICK_PROVISION: c_int = 1;
/// A snapshot that a user made.
pub const RBD_SNAP_NAMESPACE_TYPE_USER: c_uint = 0;

/// Called once when an asynchronous request completes, on a thread of librbd.
pub type rbd_callback_t = extern "C" fn(*mut c_void, *mut c_void);
/// Called for each extent of a comparison: offset, length, whether it exists, and the argument.
pub type diff_t = extern "C" fn(u64, usize, c_int, *mut c_void) -> c_int;
/// Called with the progress of a long operation.
pub type librbd_progress_fn_t = extern "C" fn(u64, u64, *mut c_void) -> c_int;

/// An image in a list.
#[repr(C)]
pub struct rbd_image_spec_t {
    /// Its internal name.
    pub id: *mut c_char,
    /// Its name.
    pub name: *mut c_char,
}

/// A snapshot in a list.
#[repr(C)]
pub struct rbd_snap_info_t {
    /// Its number in its image.
    pub id: u64,
    /// The size of the image then, in bytes.
    pub size: u64,
    /// Its name.
    pub name: *const c_char,
}

/// An image that depends on another image.
#[repr(C)]
pub struct rbd_linked_image_spec_t {
    /// Number of its pool.
    pub pool_id: i64,
    /// Name of its pool.
    pub pool_name: *mut c_char,
    /// Its namespace.
    pub pool_namespace: *mut c_char,
    /// Its internal name.
    pub image_id: *mut c_char,
    /// Its name.
    pub image_name: *mut c_char,
    /// Whether it is in the trash.
    pub trash: bool,
}

unsafe extern "C" {
    pub fn rados_create(cluster: *mut *mut c_void, id: *const c_char) -> c_int;
    pub fn rados_conf_read_file(cluster: *mut c_void, path: *const c_char) -> c_int;
    pub fn rados_conf_set(
        cluster: *mut c_void,
        option: *const c_char,
        value: *const c_char,
    ) -> c_int;
    pub fn rados_connect(cluster: *mut c_void) -> c_int;
    pub fn rados_shutdown(cluster: *mut c_void);
    pub fn rados_getaddrs(cluster: *mut c_void, addrs: *mut *mut c_char) -> c_int;
    pub fn rados_buffer_free(buf: *mut c_char);
    pub fn rados_blocklist_add(
        cluster: *mut c_void,
        client_address: *mut c_char,
        expire_seconds: u32,
    ) -> c_int;
    pub fn rados_wait_for_latest_osdmap(cluster: *mut c_void) -> c_int;
    pub fn rados_mon_command(
        cluster: *mut c_void,
        cmd: *mut *const c_char,
        cmdlen: usize,
        inbuf: *const c_char,
        inbuflen: usize,
        outbuf: *mut *mut c_char,
        outbuflen: *mut usize,
        outs: *mut *mut c_char,
        outslen: *mut usize,
    ) -> c_int;
    pub fn rados_pool_list(cluster: *mut c_void, buf: *mut c_char, len: usize) -> c_int;
    pub fn rados_ioctx_create(
        cluster: *mut c_void,
        pool_name: *const c_char,
        ioctx: *mut *mut c_void,
    ) -> c_int;
    pub fn rados_ioctx_destroy(io: *mut c_void);
    pub fn rados_ioctx_set_namespace(io: *mut c_void, nspace: *const c_char);
    pub fn rados_remove(io: *mut c_void, oid: *const c_char) -> c_int;
    pub fn rados_create_write_op() -> *mut c_void;
    pub fn rados_release_write_op(write_op: *mut c_void);
    pub fn rados_write_op_create(write_op: *mut c_void, exclusive: c_int, category: *const c_char);
    pub fn rados_write_op_omap_cmp2(
        write_op: *mut c_void,
        key: *const c_char,
        comparison_operator: u8,
        val: *const c_char,
        key_len: usize,
        val_len: usize,
        prval: *mut c_int,
    );
    pub fn rados_write_op_omap_set(
        write_op: *mut c_void,
        keys: *const *const c_char,
        vals: *const *const c_char,
        lens: *const usize,
        num: usize,
    );
    pub fn rados_write_op_omap_rm_keys(
        write_op: *mut c_void,
        keys: *const *const c_char,
        keys_len: usize,
    );
    pub fn rados_write_op_operate(
        write_op: *mut c_void,
        io: *mut c_void,
        oid: *const c_char,
        mtime: *mut i64,
        flags: c_int,
    ) -> c_int;
    pub fn rados_create_read_op() -> *mut c_void;
    pub fn rados_release_read_op(read_op: *mut c_void);
    pub fn rados_read_op_omap_get_vals2(
        read_op: *mut c_void,
        start_after: *const c_char,
        filter_prefix: *const c_char,
        max_return: u64,
        iter: *mut *mut c_void,
        pmore: *mut u8,
        prval: *mut c_int,
    );
    pub fn rados_read_op_operate(
        read_op: *mut c_void,
        io: *mut c_void,
        oid: *const c_char,
        flags: c_int,
    ) -> c_int;
    pub fn rados_omap_get_next2(
        iter: *mut c_void,
        key: *mut *mut c_char,
        val: *mut *mut c_char,
        key_len: *mut usize,
        val_len: *mut usize,
    ) -> c_int;
    pub fn rados_omap_get_end(iter: *mut c_void);
    pub fn rbd_namespace_create(io: *mut c_void, namespace_name: *const c_char) -> c_int;
    pub fn rbd_namespace_remove(io: *mut c_void, namespace_name: *const c_char) -> c_int;
    pub fn rbd_namespace_list(
        io: *mut c_void,
        namespace_names: *mut c_char,
        size: *mut usize,
    ) -> c_int;
    pub fn rbd_list2(
        io: *mut c_void,
        images: *mut rbd_image_spec_t,
        max_images: *mut usize,
    ) -> c_int;
    pub fn rbd_image_spec_list_cleanup(images: *mut rbd_image_spec_t, num_images: usize);
    pub fn rbd_image_options_create(opts: *mut *mut c_void);
    pub fn rbd_image_options_destroy(opts: *mut c_void);
    pub fn rbd_image_options_set_uint64(opts: *mut c_void, optname: c_int, optval: u64) -> c_int;
    pub fn rbd_create4(io: *mut c_void, name: *const c_char, size: u64, opts: *mut c_void)
    -> c_int;
    pub fn rbd_clone3(
        p_ioctx: *mut c_void,
        p_name: *const c_char,
        p_snapname: *const c_char,
        c_ioctx: *mut c_void,
        c_name: *const c_char,
        c_opts: *mut c_void,
    ) -> c_int;
    pub fn rbd_remove(io: *mut c_void, name: *const c_char) -> c_int;
    pub fn rbd_open(
        io: *mut c_void,
        name: *const c_char,
        image: *mut *mut c_void,
        snap_name: *const c_char,
    ) -> c_int;
    pub fn rbd_open_read_only(
        io: *mut c_void,
        name: *const c_char,
        image: *mut *mut c_void,
        snap_name: *const c_char,
    ) -> c_int;
    pub fn rbd_close(image: *mut c_void) -> c_int;
    pub fn rbd_get_size(image: *mut c_void, size: *mut u64) -> c_int;
    pub fn rbd_resize2(
        image: *mut c_void,
        size: u64,
        allow_shrink: bool,
        cb: Option<librbd_progress_fn_t>,
        cbdata: *mut c_void,
    ) -> c_int;
    pub fn rbd_lock_acquire(image: *mut c_void, lock_mode: c_uint) -> c_int;
    pub fn rbd_lock_release(image: *mut c_void) -> c_int;
    pub fn rbd_lock_get_owners(
        image: *mut c_void,
        lock_mode: *mut c_uint,
        lock_owners: *mut *mut c_char,
        max_lock_owners: *mut usize,
    ) -> c_int;
    pub fn rbd_lock_get_owners_cleanup(lock_owners: *mut *mut c_char, lock_owner_count: usize);
    pub fn rbd_lock_break(
        image: *mut c_void,
        lock_mode: c_uint,
        lock_owner: *const c_char,
    ) -> c_int;
    pub fn rbd_snap_create(image: *mut c_void, snapname: *const c_char) -> c_int;
    pub fn rbd_snap_remove(image: *mut c_void, snapname: *const c_char) -> c_int;
    pub fn rbd_snap_list(
        image: *mut c_void,
        snaps: *mut rbd_snap_info_t,
        max_snaps: *mut c_int,
    ) -> c_int;
    pub fn rbd_snap_list_end(snaps: *mut rbd_snap_info_t);
    pub fn rbd_snap_get_namespace_type(
        image: *mut c_void,
        snap_id: u64,
        namespace_type: *mut c_uint,
    ) -> c_int;
    pub fn rbd_flatten(image: *mut c_void) -> c_int;
    pub fn rbd_list_children3(
        image: *mut c_void,
        images: *mut rbd_linked_image_spec_t,
        max_images: *mut usize,
    ) -> c_int;
    pub fn rbd_linked_image_spec_list_cleanup(
        images: *mut rbd_linked_image_spec_t,
        num_images: usize,
    );
    pub fn rbd_aio_create_completion(
        cb_arg: *mut c_void,
        complete_cb: Option<rbd_callback_t>,
        c: *mut *mut c_void,
    ) -> c_int;
    pub fn rbd_aio_wait_for_complete(c: *mut c_void) -> c_int;
    pub fn rbd_aio_get_return_value(c: *mut c_void) -> isize;
    pub fn rbd_aio_release(c: *mut c_void);
    pub fn rbd_aio_read2(
        image: *mut c_void,
        off: u64,
        len: usize,
        buf: *mut c_char,
        c: *mut c_void,
        op_flags: c_int,
    ) -> c_int;
    pub fn rbd_aio_write2(
        image: *mut c_void,
        off: u64,
        len: usize,
        buf: *const c_char,
        c: *mut c_void,
        op_flags: c_int,
    ) -> c_int;
    pub fn rbd_aio_write_zeroes(
        image: *mut c_void,
        off: u64,
        len: usize,
        c: *mut c_void,
        zero_flags: c_int,
        op_flags: c_int,
    ) -> c_int;
    pub fn rbd_aio_flush(image: *mut c_void, c: *mut c_void) -> c_int;
    pub fn rbd_diff_iterate2(
        image: *mut c_void,
        fromsnapname: *const c_char,
        ofs: u64,
        len: u64,
        include_parent: u8,
        whole_object: u8,
        cb: Option<diff_t>,
        arg: *mut c_void,
    ) -> c_int;
}
