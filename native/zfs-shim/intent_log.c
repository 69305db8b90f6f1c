/*
 * The intent log of a volume: the records of a write, the collection of their data at a flush, and their replay. The
 * records are exactly those of a zvol, so that this software and kernel ZFS replay each other's logs.
 */
#include "volume_impl.h"
#include "replay.h"

#include <sys/brt.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/spa.h>
#include <sys/txg.h>
#include <sys/zil_impl.h>
#include <sys/zio_checksum.h>

#include <stdlib.h>

/*
 * The maximum sector size of a client: a sector must not tear, not even in a write that was never acknowledged. The
 * library splits records anywhere to fill log blocks, but never one this small.
 */
#define	BH_SECTOR_BYTES_MAX		4096ULL
/* Bytes of clones that one call declares to a transaction. */
#define	BH_HELD_BYTES_MAX		(1ULL << 30)

/*
 * Called by the log while a flush collects records: fetches the current bytes of a record.
 *
 * All our records are of this one kind (WR_NEED_COPY). A record with a copy (WR_COPIED), or a free, could not be mixed
 * with records that refer to a whole block (WR_INDIRECT): the library writes such a block once per transaction group,
 * with its newest contents, at the position of its first record, and omits later records; replay then finishes with the
 * records in between.
 */
static int
get_data(void *arg, uint64_t generation, lr_write_t *record, char *data,
    struct lwb *lwb, zio_t *zio)
{
	bh_volume_t *volume = arg;

	(void) generation, (void) lwb, (void) zio;
	VERIFY3P(data, !=, NULL);
	zfs_locked_range_t *range = zfs_rangelock_enter(&volume->bv_ranges,
	    record->lr_offset, record->lr_length, RL_READER);
	int error = bh_copy_out(volume, record->lr_offset, record->lr_length,
	    (uint8_t *)data);
	zfs_rangelock_exit(range);
	return (error);
}

/* The log, opened by its first user. */
zilog_t *
bh_log_open(bh_volume_t *volume)
{
	zilog_t *log = __atomic_load_n(&volume->bv_log, __ATOMIC_ACQUIRE);
	if (log != NULL)
		return (log);

	mutex_enter(&volume->bv_log_mutex);
	log = volume->bv_log;
	if (log == NULL) {
		log = zil_open(volume->bv_os, get_data, NULL);
		__atomic_store_n(&volume->bv_log, log, __ATOMIC_RELEASE);
	}
	mutex_exit(&volume->bv_log_mutex);
	return (log);
}

/*
 * Records a write, in whole sectors. A record's bytes are fetched at a flush, and may by then be those of a later write
 * that is not logged yet: a record of half a sector would restore half of that write.
 */
void
bh_log_record(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length)
{
	zilog_t *log = volume->bv_log;
	uint64_t end = MIN(P2ROUNDUP(offset + length, BH_SECTOR_BYTES_MAX), volume->bv_size);
	for (uint64_t at = P2ALIGN_TYPED(offset, BH_SECTOR_BYTES_MAX, uint64_t); at < end;
	    at += BH_SECTOR_BYTES_MAX) {
		itx_t *itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t));
		lr_write_t *record = (lr_write_t *)&itx->itx_lr;
		itx->itx_wr_state = WR_NEED_COPY;
		itx->itx_private = volume;
		record->lr_foid = BH_DATA_OBJECT;
		record->lr_offset = at;
		record->lr_length = MIN(end - at, BH_SECTOR_BYTES_MAX);
		record->lr_blkoff = 0;
		BP_ZERO(&record->lr_blkptr);
		zil_itx_assign(log, itx, tx);
	}
	dsl_pool_wrlog_count(log->zl_dmu_pool, length, tx->tx_txg);
}

/* Logs a write: at once, or at the next flush. */
void
bh_log_write(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length)
{
	if (!zil_replaying(volume->bv_log, tx) &&
	    !bh_unlogged_note(volume, tx, offset, length))
		bh_log_record(volume, tx, offset, length);
}

static void
log_truncate(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset, uint64_t length)
{
	itx_t *itx = zil_itx_create(TX_TRUNCATE, sizeof (lr_truncate_t));
	lr_truncate_t *record = (lr_truncate_t *)&itx->itx_lr;
	record->lr_foid = BH_DATA_OBJECT;
	record->lr_offset = offset;
	record->lr_length = length;
	zil_itx_assign(volume->bv_log, itx, tx);
}

/*
 * Records that an extent was freed, in whole sectors; for shared sectors the contents are recorded. A record of an
 * earlier write may contain the bytes of a later write: a free of half a sector would then be replayed over half of
 * that write.
 */
void
bh_log_free(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length)
{
	if (zil_replaying(volume->bv_log, tx))
		return;

	uint64_t end = offset + length;
	uint64_t first = P2ROUNDUP(offset, BH_SECTOR_BYTES_MAX);
	uint64_t last = end == volume->bv_size ? end :
	    P2ALIGN_TYPED(end, BH_SECTOR_BYTES_MAX, uint64_t);
	if (first >= last) {
		bh_log_write(volume, tx, offset, length);
		return;
	}
	if (offset < first)
		bh_log_write(volume, tx, offset, first - offset);
	log_truncate(volume, tx, first, last - first);
	if (last < end)
		bh_log_write(volume, tx, last, end - last);
}

/* Commits all records, with as much of the work as possible on this thread. */
void
bh_log_commit(bh_volume_t *volume)
{
	bh_unlogged_record(volume);
	bh_in_place_begin();
	zil_commit(volume->bv_log, BH_DATA_OBJECT);
	bh_in_place_end();
}

/*
 * A log without blocks allocates its first one in a transaction group, which delays the first commit. A caller that
 * expects commits starts the log in advance, with a record of an empty free.
 */
int
bh_log_begin(bh_volume_t *volume)
{
	if (volume->bv_read_only)
		return (0);

	(void) bh_log_open(volume);
	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	log_truncate(volume, tx, 0, 0);
	dmu_tx_commit(tx);
	bh_log_commit(volume);
	return (0);
}

static int
replayed(bh_volume_t *volume, int error)
{
	/* The library tries a failed record twice; only the last outcome counts. */
	volume->bv_replay_error = error;
	return (error);
}

/*
 * Applies one record, or several together. `marked`: they need not be replayed again once this is on disk. The contents
 * of a record were acknowledged, so they are written even if the pool has filled up since.
 */
static int
replay_bytes(bh_volume_t *volume, uint64_t offset, uint64_t length,
    const void *data, boolean_t marked)
{
	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_hold_write_by_dnode(tx, volume->bv_dnode, offset, length);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	boolean_t kept_back = bh_is_refused_for_space(error);
	if (error != 0)
		dmu_tx_abort(tx);
	if (kept_back)
		error = bh_kept_back_begin(volume, offset, length, &tx);
	if (error != 0)
		return (error);
	dmu_write_by_dnode(volume->bv_dnode, offset, length, data, tx);
	if (marked)
		(void) zil_replaying(dmu_objset_zil(volume->bv_os), tx);
	bh_kept_back_commit(tx, kept_back);
	return (0);
}

/*
 * Applies the gathered records. The record that is being replayed is a different one, so no mark is set: without a
 * later mark, these are replayed again.
 */
static int
replay_gathered(void *arg)
{
	bh_volume_t *volume = arg;
	bh_gathered_t *gathered = &volume->bv_gathered;

	if (gathered->bg_length == 0)
		return (0);
	int error = replay_bytes(volume, gathered->bg_offset, gathered->bg_length,
	    gathered->bg_data, B_FALSE);
	if (error == 0)
		gathered->bg_length = 0;
	return (error);
}

/*
 * Records are small, so a write of a whole block is split into several. A partial block can be written only after a
 * read of the rest, but a whole one without: adjacent parts are gathered until their block is complete. TRUE if this
 * one was gathered.
 */
static boolean_t
gather(bh_volume_t *volume, uint64_t offset, uint64_t length, const void *data)
{
	bh_gathered_t *gathered = &volume->bv_gathered;
	uint64_t block = volume->bv_block_size;

	if (gathered->bg_length == 0) {
		if (offset % block != 0 || length >= block)
			return (B_FALSE);
		if (gathered->bg_data == NULL)
			gathered->bg_data = malloc(block);
		if (gathered->bg_data == NULL)
			return (B_FALSE);
		gathered->bg_offset = offset;
	} else if (offset != gathered->bg_offset + gathered->bg_length ||
	    gathered->bg_length + length > block) {
		return (B_FALSE);
	}
	memcpy(gathered->bg_data + gathered->bg_length, data, length);
	gathered->bg_length += length;
	return (B_TRUE);
}

/* The part of a range that is inside the volume. The library aborts the process where a range is longer than the
 * type of a length allows. */
static uint64_t
bytes_inside(const bh_volume_t *volume, uint64_t offset, uint64_t length)
{
	return (offset >= volume->bv_size ? 0 :
	    MIN(length, volume->bv_size - offset));
}

/*
 * The data of a record: its own bytes, or, without any, a whole block that the library has appended. EINVAL: it claims
 * more bytes than there are.
 */
static int
written_range(const lr_write_t *record, uint64_t *offset, uint64_t *length)
{
	uint64_t own = record->lr_common.lrc_reclen - sizeof (*record);

	*offset = record->lr_offset;
	*length = record->lr_length;
	if (own != 0)
		return (*length <= own ? 0 : EINVAL);
	uint64_t block = BP_GET_LSIZE(&record->lr_blkptr);
	if (*length > block)
		return (BP_IS_HOLE(&record->lr_blkptr) &&
		    *length <= SPA_MAXBLOCKSIZE ? 0 : EINVAL);
	*offset -= *offset % block;
	*length = block;
	return (0);
}

static int
replay_write(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	bh_gathered_t *gathered = &volume->bv_gathered;
	lr_write_t *record = raw;
	uint64_t offset, length;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));

	int refused = written_range(record, &offset, &length);
	if (refused != 0)
		return (replayed(volume, refused));
	length = bytes_inside(volume, offset, length);
	if (length == 0)
		return (replayed(volume, 0));
	boolean_t taken = gather(volume, offset, length, record + 1);
	if (!taken) {
		int error = replay_gathered(volume);
		if (error != 0)
			return (replayed(volume, error));
		taken = gather(volume, offset, length, record + 1);
	}
	if (!taken)
		return (replayed(volume, replay_bytes(volume, offset, length,
		    record + 1, B_TRUE)));
	if (gathered->bg_length < volume->bv_block_size)
		return (replayed(volume, 0));

	int error = replay_bytes(volume, gathered->bg_offset, gathered->bg_length,
	    gathered->bg_data, B_TRUE);
	/* The library retries a failed record as if it were new. */
	gathered->bg_length = error == 0 ? 0 : gathered->bg_length - length;
	return (replayed(volume, error));
}

static int
replay_truncate(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	lr_truncate_t *record = raw;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));

	uint64_t offset = record->lr_offset;
	uint64_t length = bytes_inside(volume, offset, record->lr_length);
	int error = replay_gathered(volume);
	bh_await_tree(volume->bv_dnode, offset, length);
	/* Free first: if power fails in between, the record is simply replayed again. */
	if (error == 0)
		error = dmu_free_long_range(volume->bv_os, BH_DATA_OBJECT,
		    offset, length);
	if (error != 0)
		return (replayed(volume, error));

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_mark_netfree(tx);
	error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (replayed(volume, error));
	}
	(void) zil_replaying(dmu_objset_zil(volume->bv_os), tx);
	dmu_tx_commit(tx);
	return (replayed(volume, 0));
}

void
bh_hold_clone(dmu_tx_t *tx, dnode_t *dn, uint64_t offset, uint64_t length,
    uint64_t block_size)
{
	(void) block_size;
	/* The library's length is an int. */
	while (length != 0) {
		uint64_t bytes = MIN(length, BH_HELD_BYTES_MAX);
#if BH_OPENZFS >= 20309
		dmu_tx_hold_clone_by_dnode(tx, dn, offset, bytes,
		    (uint_t)block_size);
#else
		dmu_tx_hold_clone_by_dnode(tx, dn, offset, (int)bytes);
#endif
		offset += bytes;
		length -= bytes;
	}
}

boolean_t
bh_may_be_cloned(spa_t *spa, const blkptr_t *pointers, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		if (!BP_IS_HOLE(&pointers[i]) && zfs_blkptr_verify(spa,
		    &pointers[i], BLK_CONFIG_NEEDED, BLK_VERIFY_ONLY) != 0)
			return (B_FALSE);
	}
	return (B_TRUE);
}

/* Whether a record clones whole blocks, each with its own pointer. */
static boolean_t
is_clone(const bh_volume_t *volume, const lr_clone_range_t *record)
{
	uint64_t block = volume->bv_block_size;
	uint64_t offset = record->lr_offset, length = record->lr_length;

	return (record->lr_blksz == block && length != 0 && offset % block == 0 &&
	    length % block == 0 && bytes_inside(volume, offset, length) == length &&
	    record->lr_nbps == length / block &&
	    bh_may_be_cloned(volume->bv_os->os_spa, record->lr_bps, record->lr_nbps));
}

/* Kernel ZFS logs block cloning between volumes; we never do, but must replay it. */
static int
replay_clone_range(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	lr_clone_range_t *record = raw;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));
	if (!is_clone(volume, record))
		return (replayed(volume, EINVAL));
	int error = replay_gathered(volume);
	if (error != 0)
		return (replayed(volume, error));

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	bh_hold_clone(tx, volume->bv_dnode, record->lr_offset, record->lr_length,
	    record->lr_blksz);
	error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (replayed(volume, error));
	}
	error = dmu_brt_clone(volume->bv_os, BH_DATA_OBJECT, record->lr_offset,
	    record->lr_length, tx, record->lr_bps, record->lr_nbps);
	if (error == 0)
		(void) zil_replaying(dmu_objset_zil(volume->bv_os), tx);
	dmu_tx_commit(tx);
	return (replayed(volume, error));
}

static int
replay_refuse(void *arg, void *raw, boolean_t byteswap)
{
	(void) raw, (void) byteswap;
	return (replayed(arg, ENOTSUP));
}

/* Whether an error terminates the walk along a log like its regular end: the next block was not written. */
static boolean_t
is_end_of_log(int error)
{
	return (error == 0 || error == ECKSUM || error == ENOENT);
}

/*
 * Interposes the library's function. It claims the blocks of a log up to the first unreadable one, and truncates the
 * log there. The import has walked the log before and refused an unreadable one, so a device has failed since. Until
 * the claim is on disk the process can still terminate, and the next import walks again.
 */
int
zil_claim(dsl_pool_t *dp, dsl_dataset_t *ds, void *tx)
{
	int (*library)(dsl_pool_t *, dsl_dataset_t *, void *) =
	    bh_library_function(__func__);
	int error = library(dp, ds, tx);
	objset_t *os;

	if (error != 0 || spa_get_log_state(dp->dp_spa) == SPA_LOG_CLEAR ||
	    dmu_objset_from_ds(ds, &os) != 0)
		return (error);
	const zilog_t *log = dmu_objset_zil(os);
	if (!is_end_of_log(log->zl_parse_error))
		panic("an intent log cannot be read any more (error %d): see to the "
		    "devices of pool %s and import it again", log->zl_parse_error,
		    spa_name(dp->dp_spa));
	return (0);
}

/*
 * Replays the writes that the last owner acknowledged and that are not in a synced transaction group. ENOTRECOVERABLE
 * if a record, or a block of the log, cannot be read; then the volume misses acknowledged writes, and the log stays.
 */
int
bh_log_replay(bh_volume_t *volume)
{
	zil_replay_func_t *handlers[TX_MAX_TYPE];
	const zil_header_t *header = dmu_objset_zil(volume->bv_os)->zl_header;

	if ((header->zh_flags & ZIL_REPLAY_NEEDED) == 0) {
		/*
		 * The last owner may have died after it allocated the first block of a log and before it had any record for it. The
		 * import has claimed that block; the log can only restart without it.
		 */
		volume->bv_log_retired = zil_destroy(
		    dmu_objset_zil(volume->bv_os), B_TRUE);
		return (0);
	}
	for (int type = 0; type < TX_MAX_TYPE; type++)
		handlers[type] = replay_refuse;
	handlers[TX_WRITE] = replay_write;
	handlers[TX_TRUNCATE] = replay_truncate;
	handlers[TX_CLONE_RANGE] = replay_clone_range;

	zilog_t *log = bh_log_open(volume);
	volume->bv_replay_error = 0;
	bh_replay_t replay = { .br_log = log, .br_error = &volume->bv_replay_error,
	    .br_finish = replay_gathered, .br_finish_arg = volume };
	int error = bh_replay(&replay, volume->bv_os, volume, handlers);
	free(volume->bv_gathered.bg_data);
	volume->bv_gathered = (bh_gathered_t){ 0 };
	return (error);
}
