/*
 * The intent log of a volume: which records a write leaves, how their data is fetched when a
 * flush comes, and how they are replayed. The records are exactly those of a zvol, so that this
 * program and kernel ZFS replay each other's logs.
 */
#include "volume_impl.h"

#include <sys/brt.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/spa.h>
#include <sys/zio_checksum.h>

/*
 * What a client may take for a sector: it must not tear, not even in a write that was never
 * acknowledged. The library cuts records anywhere to fill log blocks, but never one this small.
 */
#define	BH_SECTOR_BYTES_MAX		4096ULL
/*
 * Writes up to this size carry a copy of their data until they are synced: a flush soon after
 * is likely, and then needs not look it up again.
 */
#define	BH_COPIED_BYTES_MAX		(32ULL << 10)
/* From this size on it is cheaper to write the blocks in place than to log their data. */
#define	BH_INDIRECT_BYTES_MIN		(128ULL << 10)
/* ... unless blocks are so small that their pointers weigh too much. */
#define	BH_INDIRECT_BLOCK_BYTES_MIN	(16U << 10)
/* Above this block size any whole block is written in place. */
#define	BH_LOGGED_BLOCK_BYTES_MAX	(32U << 10)

static void
get_data_done(zgd_t *zgd, int error)
{
	(void) error;
	if (zgd->zgd_db != NULL)
		dmu_buf_rele(zgd->zgd_db, zgd);
	zfs_rangelock_exit(zgd->zgd_lr);
	kmem_free(zgd, sizeof (*zgd));
}

/* The record will point at the block itself: have it written now. */
static int
get_block(bh_volume_t *volume, lr_write_t *record, struct lwb *lwb, zio_t *zio)
{
	zgd_t *zgd = kmem_zalloc(sizeof (*zgd), KM_SLEEP);
	uint64_t size = volume->bv_block_size;
	uint64_t start = P2ALIGN_TYPED(record->lr_offset, size, uint64_t);
	dmu_buf_t *db;

	/* The whole block is locked: nobody may change it while it is checksummed. */
	zgd->zgd_lwb = lwb;
	zgd->zgd_lr = zfs_rangelock_enter(&volume->bv_ranges, start, size,
	    RL_READER);
	int error = dmu_buf_hold_noread_by_dnode(volume->bv_dnode, start, zgd,
	    &db);
	if (error == 0) {
		zgd->zgd_db = db;
		zgd->zgd_bp = &record->lr_blkptr;
		error = dmu_sync(zio, record->lr_common.lrc_txg, get_data_done,
		    zgd);
		if (error == 0)
			return (0);
	}
	get_data_done(zgd, error);
	return (error);
}

/* Called by the log while a flush collects records whose data was left in the cache. */
static int
get_data(void *arg, uint64_t generation, lr_write_t *record, char *data,
    struct lwb *lwb, zio_t *zio)
{
	bh_volume_t *volume = arg;

	(void) generation;
	if (data == NULL)
		return (get_block(volume, record, lwb, zio));

	zfs_locked_range_t *range = zfs_rangelock_enter(&volume->bv_ranges,
	    record->lr_offset, record->lr_length, RL_READER);
	int error = bh_copy_out(volume, record->lr_offset, record->lr_length,
	    (uint8_t *)data);
	zfs_rangelock_exit(range);
	return (error);
}

/* The log, opened by whoever needs it first. */
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

/* Copies `length` bytes that lie `skip` bytes into the segments. */
static void
gather(uint8_t *to, const bh_segment_t *segments, uint64_t segment_count,
    uint64_t skip, uint64_t length)
{
	for (uint64_t i = 0; i < segment_count && length > 0; i++) {
		if (skip >= segments[i].bs_length) {
			skip -= segments[i].bs_length;
			continue;
		}
		uint64_t count = MIN(segments[i].bs_length - skip, length);
		memcpy(to, segments[i].bs_data + skip, count);
		to += count;
		length -= count;
		skip = 0;
	}
}

static itx_t *
write_record(bh_volume_t *volume, itx_wr_state_t state, uint64_t offset,
    uint64_t length)
{
	itx_t *itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t) +
	    (state == WR_COPIED ? length : 0));
	lr_write_t *record = (lr_write_t *)&itx->itx_lr;

	itx->itx_wr_state = state;
	itx->itx_private = volume;
	record->lr_foid = BH_DATA_OBJECT;
	record->lr_offset = offset;
	record->lr_length = length;
	record->lr_blkoff = 0;
	BP_ZERO(&record->lr_blkptr);
	return (itx);
}

static itx_wr_state_t
choose_state(const bh_volume_t *volume, const zilog_t *log, uint64_t length)
{
	uint32_t block = volume->bv_block_size;

	if (log->zl_logbias == ZFS_LOGBIAS_THROUGHPUT)
		return (WR_INDIRECT);
	boolean_t in_place = length >= BH_INDIRECT_BYTES_MIN ?
	    block >= BH_INDIRECT_BLOCK_BYTES_MIN :
	    block > BH_LOGGED_BLOCK_BYTES_MAX && length >= block;
	if (in_place && !spa_has_slogs(log->zl_spa))
		return (WR_INDIRECT);
	return (length <= BH_COPIED_BYTES_MAX ? WR_COPIED : WR_NEED_COPY);
}

/* Records a write; `segments` still hold its data. */
void
bh_log_write(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length, const bh_segment_t *segments, uint64_t segment_count)
{
	zilog_t *log = volume->bv_log;
	if (zil_replaying(log, tx))
		return;

	itx_wr_state_t state = choose_state(volume, log, length);
	/* Pieces end at multiples of this; 0: one piece. */
	uint64_t cut = 0;
	if (state == WR_INDIRECT)
		cut = volume->bv_block_size;
	else if (length > zil_max_copied_data(log))
		cut = BH_SECTOR_BYTES_MAX;

	for (uint64_t done = 0; done < length; ) {
		uint64_t at = offset + done;
		uint64_t count = length - done;
		if (cut != 0)
			count = MIN(count, cut - P2PHASE(at, cut));
		itx_t *itx = write_record(volume, state, at, count);
		if (state == WR_COPIED) {
			gather((uint8_t *)&itx->itx_lr + sizeof (lr_write_t),
			    segments, segment_count, done, count);
		}
		zil_itx_assign(log, itx, tx);
		done += count;
	}
	if (state != WR_INDIRECT)
		dsl_pool_wrlog_count(log->zl_dmu_pool, length, tx->tx_txg);
}

/* Records that an extent was freed. */
void
bh_log_free(bh_volume_t *volume, dmu_tx_t *tx, uint64_t offset,
    uint64_t length)
{
	if (zil_replaying(volume->bv_log, tx))
		return;

	itx_t *itx = zil_itx_create(TX_TRUNCATE, sizeof (lr_truncate_t));
	lr_truncate_t *record = (lr_truncate_t *)&itx->itx_lr;
	record->lr_foid = BH_DATA_OBJECT;
	record->lr_offset = offset;
	record->lr_length = length;
	zil_itx_assign(volume->bv_log, itx, tx);
}

static int
replayed(bh_volume_t *volume, int error)
{
	/* The library tries a failed record twice; only the last outcome counts. */
	volume->bv_replay_error = error;
	return (error);
}

static int
replay_write(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	lr_write_t *record = raw;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));

	uint64_t offset = record->lr_offset;
	uint64_t length = record->lr_length;
	/* A record without data of its own stands for a whole block. */
	if (record->lr_common.lrc_reclen == sizeof (lr_write_t)) {
		uint64_t block = BP_GET_LSIZE(&record->lr_blkptr);
		if (length < block) {
			offset -= offset % block;
			length = block;
		}
	}

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_hold_write_by_dnode(tx, volume->bv_dnode, offset, length);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (replayed(volume, error));
	}
	dmu_write_by_dnode(volume->bv_dnode, offset, length, record + 1, tx);
	(void) zil_replaying(dmu_objset_zil(volume->bv_os), tx);
	dmu_tx_commit(tx);
	return (replayed(volume, 0));
}

static int
replay_truncate(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	lr_truncate_t *record = raw;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));

	/* Free first: if power fails in between, the record is simply replayed again. */
	int error = dmu_free_long_range(volume->bv_os, BH_DATA_OBJECT,
	    record->lr_offset, record->lr_length);
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

/* Kernel ZFS logs block cloning between volumes; we never do, but must replay it. */
static int
replay_clone_range(void *arg, void *raw, boolean_t byteswap)
{
	bh_volume_t *volume = arg;
	lr_clone_range_t *record = raw;

	if (byteswap)
		byteswap_uint64_array(record, sizeof (*record));
	if (record->lr_blksz != volume->bv_block_size ||
	    record->lr_offset % record->lr_blksz != 0)
		return (replayed(volume, EINVAL));

	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	dmu_tx_hold_clone_by_dnode(tx, volume->bv_dnode, record->lr_offset,
	    record->lr_length);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
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

/* Replays what the last owner acknowledged but did not get into a transaction group. */
void
bh_log_replay(bh_volume_t *volume)
{
	zil_replay_func_t *handlers[TX_MAX_TYPE];
	const zil_header_t *header = dmu_objset_zil(volume->bv_os)->zl_header;

	if ((header->zh_flags & ZIL_REPLAY_NEEDED) == 0)
		return;
	for (int type = 0; type < TX_MAX_TYPE; type++)
		handlers[type] = replay_refuse;
	handlers[TX_WRITE] = replay_write;
	handlers[TX_TRUNCATE] = replay_truncate;
	handlers[TX_CLONE_RANGE] = replay_clone_range;

	zilog_t *log = zil_open(volume->bv_os, get_data, NULL);
	(void) zil_replay(volume->bv_os, volume, handlers);
	zil_close(log);
}
