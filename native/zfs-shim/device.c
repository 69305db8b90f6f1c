/*
 * The library's device driver for files and disks, implemented by a table of functions that the Rust side fills in.
 *
 * The library finds its drivers in a table of addresses that the dynamic linker fills in, so that the two symbols
 * defined at the end, found first in the executable, replace the library's own. The checks in device_open() detect a
 * failure of that, and a structure with a layout other than in our headers.
 */
#include "internal.h"

static const struct bh_device_driver *driver;

void
bh_driver_install(const struct bh_device_driver *functions)
{
	driver = functions;
}

const struct bh_device_driver *
bh_driver(void)
{
	return (driver);
}

static struct bh_io *
to_io(zio_t *zio)
{
	return ((struct bh_io *)zio);
}

static zio_t *
to_zio(struct bh_io *io)
{
	return ((zio_t *)io);
}

struct piece_list {
	struct bh_piece *pieces;
	uint32_t count;
	uint32_t count_max;
};

static int
append_piece(void *data, size_t length, void *arg)
{
	struct piece_list *list = arg;

	if (list->count == list->count_max)
		return (1);
	list->pieces[list->count].data = data;
	list->pieces[list->count].length = length;
	list->count++;
	return (0);
}

uint32_t
bh_io_pieces(struct bh_io *io, struct bh_piece *pieces, uint32_t pieces_max)
{
	zio_t *zio = to_zio(io);
	struct piece_list list = { pieces, 0, pieces_max };

	if (abd_iterate_func(zio->io_abd, 0, zio->io_size, append_piece, &list) != 0)
		return (0);
	return (list.count);
}

void
bh_io_copy_to(struct bh_io *io, void *data)
{
	abd_copy_to_buf(data, to_zio(io)->io_abd, to_zio(io)->io_size);
}

void
bh_io_copy_from(struct bh_io *io, const void *data)
{
	abd_copy_from_buf(to_zio(io)->io_abd, data, to_zio(io)->io_size);
}

static boolean_t
is_of_a_log(const zio_t *zio)
{
	return (zio->io_type == ZIO_TYPE_FLUSH || (zio->io_type == ZIO_TYPE_WRITE &&
	    zio->io_priority == ZIO_PRIORITY_SYNC_WRITE));
}

/*
 * Whether it belongs to no client but to a scrub, a resilver or a rebuild. Indirect blocks are read into the cache,
 * where a client may wait for the same read.
 */
static boolean_t
is_of_a_copy(const zio_t *zio)
{
	const zio_t *logical = zio->io_logical;

	if (zio->io_priority == ZIO_PRIORITY_REBUILD)
		return (B_TRUE);
	return (zio->io_priority == ZIO_PRIORITY_SCRUB && (logical == NULL || logical->io_bookmark.zb_level == 0));
}

/*
 * Whether it belongs only to the read of a volume. The continuation acquires the locks of its blocks and of the cache,
 * which are never held across an I/O: the library itself completes a read from the cache on the calling thread.
 */
static boolean_t
is_of_a_volume_read(const zio_t *zio)
{
	zio_t *logical = zio->io_logical;
	zio_link_t *link = NULL;

	if (zio->io_type != ZIO_TYPE_READ || logical == NULL)
		return (B_FALSE);
	mutex_enter(&logical->io_lock);
	zio_t *parent = zio_walk_parents(logical, &link);
	boolean_t is_begun = parent != NULL && bh_is_read_root(parent) &&
	    zio_walk_parents(logical, &link) == NULL;
	mutex_exit(&logical->io_lock);
	return (is_begun);
}

/*
 * Whether the continuation of a finished I/O may run on the thread that finished it.
 *
 * A flush or a write of the intent log is followed by the log's bookkeeping, which does not block. Other writes are
 * followed by locks that can be held across I/O, so that a driver's thread must not wait for them; the library's own
 * thread may, because it also acquires them on the way to the device and completes writes of holes itself. Writes
 * without a logical parent (labels) are issued by threads that hold locks.
 */
static boolean_t
may_continue(const zio_t *zio, uint32_t place)
{
	if (place == BH_CONTINUE_ELSEWHERE || zio->io_error != 0)
		return (B_FALSE);
	if (is_of_a_volume_read(zio))
		return (B_TRUE);
	/* A walk along a log blocks on each block, and holds no lock that reading acquires. */
	if (place == BH_CONTINUE_SUBMITTER && bh_in_place_is_walked(zio))
		return (B_TRUE);
	return (is_of_a_log(zio) || (place == BH_CONTINUE_SUBMITTER &&
	    zio->io_type == ZIO_TYPE_WRITE && zio->io_logical != NULL &&
	    zio->io_logical->io_type == ZIO_TYPE_WRITE));
}

void
bh_io_complete(struct bh_io *io, int32_t error, uint32_t place)
{
	zio_t *zio = to_zio(io);

	zio->io_error = error;
	if (may_continue(zio, place))
		bh_in_place_continue(zio, is_of_a_log(zio));
	else
		zio_interrupt(zio);
}

/*
 * Whether a flush, or a durable write, may run on the calling thread without a deadline: if it hangs, the pool stalls
 * either way, because it has no other device.
 */
static boolean_t
may_wait_here(const vdev_t *vd)
{
	return (bh_in_place_is_committing() && vd == vd->vdev_top &&
	    vd->vdev_parent->vdev_children == 1);
}

/* Whether another device of the same mirror is on another host. */
static boolean_t
has_far_sibling(const vdev_t *vd)
{
	const vdev_t *parent = vd->vdev_parent;

	for (uint64_t c = 0; c < parent->vdev_children; c++) {
		const vdev_t *sibling = parent->vdev_child[c];

		if (sibling != vd && sibling->vdev_tsd != NULL && bh_device_is_ours(sibling) &&
		    bh_device_is_far(sibling))
			return (B_TRUE);
	}
	return (B_FALSE);
}

/* Determines how a write of a log is carried out. B_FALSE if it is deferred. */
static boolean_t
log_write_kind(zio_t *zio, uint32_t *kind)
{
	vdev_t *vd = zio->io_vd;

	*kind = may_wait_here(vd) ? BH_IO_WRITE_HERE : BH_IO_WRITE_OF_LOG;
	if (!bh_in_place_is_committing() || !bh_is_log_block(zio) || vd->vdev_tsd == NULL)
		return (B_TRUE);
	if (bh_device_is_far(vd)) {
		*kind = BH_IO_WRITE_AWAITED;
		bh_in_place_await();
		return (B_TRUE);
	}
	return (!has_far_sibling(vd) || !bh_in_place_defer(zio));
}

static uint64_t
shift_of(uint32_t block)
{
	return (MAX(highbit64(block), SPA_MINBLOCKSHIFT + 1) - 1);
}

static int
device_open(vdev_t *vd, uint64_t *size, uint64_t *size_max, uint64_t *logical_shift,
    uint64_t *physical_shift BH_OPENED_FOR)
{
	struct bh_device_shape shape = { 0 };
	int error;

	if (!bh_device_is_ours(vd))
		panic("libzpool does not match this binary: a device has another layout");
	if (vd->vdev_path == NULL || vd->vdev_path[0] != '/') {
		vd->vdev_stat.vs_aux = VDEV_AUX_BAD_LABEL;
		return (EINVAL);
	}
	bh_space_note_device(vd);
	if (bh_is_given_up(vd)) {
		vd->vdev_stat.vs_aux = VDEV_AUX_OPEN_FAILED;
		return (ENXIO);
	}

	if (vd->vdev_tsd != NULL)
		error = driver->reshape(vd->vdev_tsd, &shape);
	else
		error = driver->open(vd->vdev_path, vd->vdev_guid,
		    (spa_mode(vd->vdev_spa) & SPA_MODE_WRITE) != 0, &shape, &vd->vdev_tsd);
	if (error != 0) {
		vd->vdev_stat.vs_aux = VDEV_AUX_OPEN_FAILED;
		return (error);
	}

	/* Mostly decides how much I/O is aggregated: it also determines how often a mirror's reads switch between local
	 * legs. */
	vd->vdev_nonrot = shape.merges == 0;
	vd->vdev_has_trim = shape.trim != 0;
	vd->vdev_has_securetrim = B_FALSE;
	*size_max = *size = shape.bytes;
	*logical_shift = shift_of(shape.logical_block);
	*physical_shift = shift_of(shape.physical_block);
	return (0);
}

static void
device_close(vdev_t *vd)
{
	if (vd->vdev_reopening || vd->vdev_tsd == NULL)
		return;
	driver->close(vd->vdev_tsd);
	vd->vdev_tsd = NULL;
	vd->vdev_delayed_close = B_FALSE;
}

static void
submit(zio_t *zio, uint32_t kind)
{
	vdev_t *vd = zio->io_vd;

	/*
	 * A flush bypasses the queue, where a closed device would have been noticed. A device that has failed since its writes
	 * also receives flushes, and the driver determines the fate of those writes.
	 */
	if (vd->vdev_tsd == NULL || bh_is_given_up(vd)) {
		zio->io_error = ENXIO;
		zio_interrupt(zio);
		return;
	}
	driver->submit(vd->vdev_tsd, to_io(zio), kind, zio->io_offset, zio->io_size);
}

void
bh_device_write_here(zio_t *zio)
{
	submit(zio, BH_IO_WRITE_HERE);
}

void
bh_device_write_of_log(zio_t *zio)
{
	submit(zio, BH_IO_WRITE_OF_LOG);
}

boolean_t
bh_device_receive(void)
{
	return (driver->receive() != 0);
}

void
bh_device_release(void)
{
	driver->release();
}

static void
device_io_start(zio_t *zio)
{
	vdev_t *vd = zio->io_vd;
	uint32_t kind;

	switch (zio->io_type) {
	case ZIO_TYPE_READ:
		if (is_of_a_copy(zio))
			kind = BH_IO_READ_OF_COPY;
		else
			kind = zio->io_priority == ZIO_PRIORITY_SCRUB ? BH_IO_READ_OF_SCAN : BH_IO_READ;
		break;
	case ZIO_TYPE_WRITE:
		kind = BH_IO_WRITE;
		if (is_of_a_log(zio) && !log_write_kind(zio, &kind))
			return;
		break;
	case ZIO_TYPE_FLUSH:
		kind = may_wait_here(vd) ? BH_IO_FLUSH_HERE : BH_IO_FLUSH;
		break;
	case ZIO_TYPE_TRIM:
		kind = BH_IO_TRIM;
		break;
	default:
		zio->io_error = ENOTSUP;
		zio_interrupt(zio);
		return;
	}
	submit(zio, kind);
}

static void
device_io_done(zio_t *zio)
{
	bh_sync_state_note(zio);
	if (zio->io_type == ZIO_TYPE_WRITE && zio->io_error != 0)
		bh_failed_write_note(zio);
}

static void
device_hold(vdev_t *vd)
{
}

#define	BH_DEVICE_OPS(type_name) {			\
	.vdev_op_open = device_open,			\
	.vdev_op_close = device_close,			\
	.vdev_op_asize = vdev_default_asize,		\
	.vdev_op_min_asize = vdev_default_min_asize,	\
	.vdev_op_io_start = device_io_start,		\
	.vdev_op_io_done = device_io_done,		\
	.vdev_op_hold = device_hold,			\
	.vdev_op_rele = device_hold,			\
	.vdev_op_xlate = vdev_default_xlate,		\
	.vdev_op_type = type_name,			\
	.vdev_op_leaf = B_TRUE				\
}

vdev_ops_t vdev_file_ops = BH_DEVICE_OPS(VDEV_TYPE_FILE);
vdev_ops_t vdev_disk_ops = BH_DEVICE_OPS(VDEV_TYPE_DISK);

void
bh_device_state_changed(vdev_t *vd)
{
	if (spa_writeable(vd->vdev_spa) && bh_device_is_ours(vd) && !vdev_writeable(vd))
		driver->unusable(vd->vdev_guid);
}

boolean_t
bh_device_is_ours(const vdev_t *vd)
{
	return (vd->vdev_ops->vdev_op_io_start == device_io_start);
}

boolean_t
bh_device_is_far(const vdev_t *vd)
{
	return (driver->is_far(vd->vdev_tsd) != 0);
}
