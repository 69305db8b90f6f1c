/*
 * Legs: leaves that have a record outside the pool of whether their data is complete.
 *
 * A failed leaf is removed from that record before the library receives an error: only then may a write that it misses
 * be acknowledged. Until then the library must neither fault the leaf nor stop writing to it, so it is not probed.
 * Reads are sent to other leaves at once. After that the leaf is given up like one with a failed flush (given_up.c): it
 * gets no more I/O, and misses all data since the group in the record.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/txg.h>
#include <sys/zio_checksum.h>

#include <pthread.h>

/* Concurrently; as many legs as a record can name. */
#define	BH_FAILED_LEGS_MAX	1024

static struct {
	pthread_mutex_t fl_mutex;
	uint64_t fl_guids[BH_FAILED_LEGS_MAX];
	/* How many there are; read without the mutex. */
	uint32_t fl_count;
} failed = { .fl_mutex = PTHREAD_MUTEX_INITIALIZER };

/* Its index, or the number of listed ones. The caller has the mutex. */
static uint32_t
index_of(uint64_t guid)
{
	uint32_t at = 0;

	while (at < failed.fl_count && failed.fl_guids[at] != guid)
		at++;
	return (at);
}

static boolean_t
is_failed(const vdev_t *vd)
{
	if (__atomic_load_n(&failed.fl_count, __ATOMIC_ACQUIRE) == 0)
		return (B_FALSE);
	VERIFY0(pthread_mutex_lock(&failed.fl_mutex));
	boolean_t listed = index_of(vd->vdev_guid) < failed.fl_count;
	VERIFY0(pthread_mutex_unlock(&failed.fl_mutex));
	return (listed);
}

void
bh_leg_failed(uint64_t guid)
{
	VERIFY0(pthread_mutex_lock(&failed.fl_mutex));
	uint32_t at = index_of(guid);
	if (at == failed.fl_count) {
		VERIFY3U(at, <, BH_FAILED_LEGS_MAX);
		failed.fl_guids[at] = guid;
		__atomic_add_fetch(&failed.fl_count, 1, __ATOMIC_RELEASE);
	}
	VERIFY0(pthread_mutex_unlock(&failed.fl_mutex));
}

static void
forget_failed(uint64_t guid)
{
	VERIFY0(pthread_mutex_lock(&failed.fl_mutex));
	uint32_t at = index_of(guid);
	if (at < failed.fl_count) {
		failed.fl_guids[at] = failed.fl_guids[failed.fl_count - 1];
		__atomic_sub_fetch(&failed.fl_count, 1, __ATOMIC_RELEASE);
	}
	VERIFY0(pthread_mutex_unlock(&failed.fl_mutex));
}

void
bh_leg_excluded(uint64_t pool, uint64_t guid, uint64_t since)
{
	bh_give_up_leg(pool, guid, since);
	forget_failed(guid);
}

void
bh_leg_used_again(uint64_t guid)
{
	forget_failed(guid);
}

/* Interposes the library's function, which faults a leaf that it cannot read or write. */
zio_t *
vdev_probe(vdev_t *vd, zio_t *zio)
{
	zio_t *(*library)(vdev_t *, zio_t *) = bh_library_function(__func__);

	if (zio != NULL && is_failed(vd))
		return (NULL);
	return (library(vd, zio));
}

/*
 * The error of a read causes the library to read from another leaf, and an error of the repair of such a block has no
 * effect. Any other error is treated as a write that the leaf misses, or is ignored.
 */
uint32_t
bh_io_is_binding(struct bh_io *io)
{
	const zio_t *zio = (const zio_t *)io;

	if (zio->io_type == ZIO_TYPE_READ)
		return (0);
	return ((zio->io_flags & ZIO_FLAG_IO_REPAIR) == 0 || (zio->io_flags & ZIO_FLAG_SCAN_THREAD) != 0);
}

void
bh_io_read_elsewhere(struct bh_io *io)
{
	/* As set by the library's own probe; reopening the leaf clears it. */
	((zio_t *)io)->io_vd->vdev_cant_read = B_TRUE;
}

void
bh_io_read_here(struct bh_io *io)
{
	((zio_t *)io)->io_vd->vdev_cant_read = B_FALSE;
}

int32_t
bh_pool_leg_missing_data(const char *name, uint64_t guid, uint64_t since, uint32_t waits)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	/* A leg is not opened before it is on record that it was given up. */
	bh_given_up_await(spa);
	error = bh_note_missing(spa, guid, MAX(since, TXG_INITIAL));
	if (error == 0 && waits)
		txg_wait_synced(spa_get_dsl(spa), 0);
	spa_close(spa, FTAG);
	return (error);
}

/* A group without changes writes and flushes nothing. */
int32_t
bh_pool_write_group(const char *name)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_WRITER);
	vdev_config_dirty(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	txg_wait_synced(spa_get_dsl(spa), 0);
	spa_close(spa, FTAG);
	return (0);
}

int32_t
bh_pool_leg_progress(const char *name, uint64_t guid, uint64_t *synced, uint64_t *damaged,
    uint32_t *is_whole, uint32_t *is_written)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	*synced = spa_last_synced_txg(spa);
	*damaged = vd == NULL ? 0 : vd->vdev_stat.vs_checksum_errors + vd->vdev_stat.vs_read_errors;
	*is_written = vd != NULL && vdev_readable(vd) && vdev_writeable(vd);
	*is_whole = vd != NULL && !bh_is_given_up(vd) && vdev_readable(vd) && vdev_writeable(vd) &&
	    vdev_dtl_empty(vd, DTL_MISSING) && !vd->vdev_resilver_deferred && !dsl_scan_resilvering(spa_get_dsl(spa));
	spa_config_exit(spa, SCL_VDEV, FTAG);
	spa_close(spa, FTAG);
	return (0);
}

static uint64_t
new_sibling_guid(spa_t *spa, uint64_t sibling, const char *path)
{
	uint64_t guid = 0;

	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, sibling, B_FALSE);
	vdev_t *mirror = vd == NULL ? NULL : vd->vdev_parent;
	for (uint64_t c = 0; mirror != NULL && c < mirror->vdev_children; c++) {
		vdev_t *leaf = mirror->vdev_child[c];

		if (leaf->vdev_path != NULL && strcmp(leaf->vdev_path, path) == 0)
			guid = leaf->vdev_guid;
	}
	spa_config_exit(spa, SCL_VDEV, FTAG);
	return (guid);
}

int32_t
bh_pool_leg_attach(const char *name, uint64_t sibling, const char *path, struct nvlist *vdev_tree,
    uint64_t *guid)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	error = spa_vdev_attach(spa, sibling, vdev_tree, B_FALSE, B_FALSE);
	if (error == 0)
		*guid = new_sibling_guid(spa, sibling, path);
	spa_close(spa, FTAG);
	return (error);
}

_Static_assert(sizeof (vdev_phys_t) == BH_LABEL_BYTES, "of a label's description");

/* As the library does for a block at that offset of a device. */
static void
seal_label(vdev_phys_t *phys, uint64_t offset)
{
	zio_eck_t *eck = &phys->vp_zbt;
	zio_cksum_t sum;

	eck->zec_magic = ZEC_MAGIC;
	ZIO_SET_CHECKSUM(&eck->zec_cksum, offset, 0, 0, 0);
	abd_t *abd = abd_get_from_buf(phys, sizeof (*phys));
	abd_checksum_sha256(abd, sizeof (*phys), NULL, &sum);
	abd_free(abd);
	eck->zec_cksum = sum;
}

/*
 * A device that replaces a leg has no label, and the library opens none without one. The label that it writes itself
 * later replaces this.
 */
int32_t
bh_pool_leg_label(const char *name, uint64_t guid, uint64_t offset, void *out, uint64_t *least)
{
	vdev_phys_t *phys = out;
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	memset(phys, 0, sizeof (*phys));
	spa_config_enter(spa, SCL_CONFIG | SCL_STATE, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	if (vd == NULL) {
		error = ENODEV;
	} else {
		nvlist_t *label = spa_config_generate(spa, vd, -1ULL, B_FALSE);
		char *list = phys->vp_nvlist;
		size_t bytes = sizeof (phys->vp_nvlist);

		error = nvlist_pack(label, &list, &bytes, NV_ENCODE_XDR, KM_SLEEP);
		nvlist_free(label);
		*least = vdev_get_min_asize(vd) + VDEV_LABEL_START_SIZE + VDEV_LABEL_END_SIZE;
	}
	spa_config_exit(spa, SCL_CONFIG | SCL_STATE, FTAG);
	spa_close(spa, FTAG);
	if (error == 0)
		seal_label(phys, offset);
	return (error);
}
