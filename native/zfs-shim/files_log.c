/*
 * The intent log of a file system. Its records are those of the kernel, so that this software and kernel ZFS replay
 * each other's logs; their contents and their replay are implemented in Rust (engines/zpl).
 *
 * All records are committed in the order of the changes, including those of other files.
 */
#include "files_impl.h"
#include "replay.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <zfeature_common.h>

#include "volume_impl.h"

/* Whether a file is the same object as when the record was created. */
static int
check_recorded(bh_files_t *files, dmu_buf_t *bonus, uint64_t generation)
{
	uint64_t now = 0, links = 0;
	sa_handle_t *handle;

	int error = bh_files_handle(files, bonus, &handle);
	if (error != 0)
		return (error);
	const struct { zpl_attr_t attribute; uint64_t *to; } wanted[] = {
		{ ZPL_GEN, &now }, { ZPL_LINKS, &links },
	};
	for (size_t i = 0; i < sizeof (wanted) / sizeof (wanted[0]) && error == 0; i++)
		error = sa_lookup(handle, files->bf_types[wanted[i].attribute],
		    wanted[i].to, 8);
	sa_handle_destroy(handle);
	if (error != 0)
		return (error);
	return (now != generation || links == 0 ? ENOENT : 0);
}

/*
 * Called by the log while a commit collects records: fetches the current bytes of a record. The record of the file's
 * removal may be in a later commit, so the log must wait for the transaction group of such bytes (EIO). Truncated bytes
 * read as zeros: without the record, the size would be missing after a power failure before the next one. The lock
 * prevents the block from being replaced by a larger one.
 */
static int
get_data(void *arg, uint64_t generation, lr_write_t *record, char *data,
    struct lwb *lwb, zio_t *zio)
{
	bh_files_t *files = arg;
	dmu_buf_t *bonus;

	(void) lwb, (void) zio;
	VERIFY3P(data, !=, NULL);
	int error = bh_files_bonus(files, record->lr_foid, &bonus);
	if (error != 0)
		return (EIO);
	rw_enter(&files->bf_attributes, RW_READER);
	error = check_recorded(files, bonus, generation);
	if (error == 0)
		error = dmu_read(files->bf_os, record->lr_foid, record->lr_offset,
		    record->lr_length, data, DMU_READ_NO_PREFETCH);
	rw_exit(&files->bf_attributes);
	dmu_buf_rele(bonus, files);
	return (error == 0 ? 0 : EIO);
}

/* The log, opened by its first user. */
void
bh_files_log_open(bh_files_t *files)
{
	if (__atomic_load_n(&files->bf_log, __ATOMIC_ACQUIRE) != NULL)
		return;
	rw_enter(&files->bf_attributes, RW_WRITER);
	if (files->bf_log == NULL)
		__atomic_store_n(&files->bf_log,
		    zil_open(files->bf_os, get_data, NULL), __ATOMIC_RELEASE);
	rw_exit(&files->bf_attributes);
}

/* Completes the record of a creation with values known only now. */
static void
complete_creation(itx_t *itx, const struct bh_changed *made, uint64_t slots)
{
	if (itx->itx_lr.lrc_txtype == TX_SETATTR) {
		((lr_setattr_t *)&itx->itx_lr)->lr_foid = made->object;
		return;
	}
	_lr_create_t *record = (_lr_create_t *)&itx->itx_lr;

	record->lr_foid = made->object;
	LR_FOID_SET_SLOTS(record->lr_foid, slots);
	record->lr_gen = made->group;
}

static void
note_pending(bh_pending_t *pending, uint64_t group, uint64_t bytes)
{
	size_t slot = group & TXG_MASK;

	mutex_enter(&pending->bp_mutex);
	if (pending->bp_groups[slot] != group)
		pending->bp_bytes[slot] = 0;
	pending->bp_groups[slot] = group;
	pending->bp_bytes[slot] += bytes;
	mutex_exit(&pending->bp_mutex);
}

/* Two changes of adjacent groups may arrive in either order: the newer group counts. */
static void
note_unlogged(bh_files_t *files, uint64_t group)
{
	uint64_t known = __atomic_load_n(&files->bf_unlogged, __ATOMIC_RELAXED);

	while (known < group && !__atomic_compare_exchange_n(&files->bf_unlogged, &known, group, B_FALSE,
	    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/*
 * The newest transaction group that a commit must wait for, because syncing it is cheaper than logging; 0 if none. A
 * concurrent commit must wait for it as well: it would otherwise log the data that the first one leaves to the group.
 */
static uint64_t
better_group(bh_files_t *files, uint64_t synced)
{
	bh_pending_t *pending = &files->bf_pending;
	uint64_t bytes = 0, newest = 0;

	if (files->bf_os->os_sync == ZFS_SYNC_DISABLED)
		return (0);
	mutex_enter(&pending->bp_mutex);
	for (size_t slot = 0; slot < TXG_SIZE; slot++) {
		if (pending->bp_groups[slot] > synced) {
			bytes += pending->bp_bytes[slot];
			newest = MAX(newest, pending->bp_groups[slot]);
		}
	}
	boolean_t is_better = bh_group_is_better(files->bf_os->os_spa, bytes);
	if (!is_better)
		memset(pending->bp_bytes, 0, sizeof (pending->bp_bytes));
	mutex_exit(&pending->bp_mutex);
	return (is_better ? newest : 0);
}

void
bh_files_log_step(bh_files_t *files, const struct bh_step *step,
    const struct bh_changed *made, uint64_t slots, dmu_tx_t *tx)
{
	zilog_t *log = files->bf_log;

	/* This records the progress of a replay, or the dataset has sync=disabled. */
	if (zil_replaying(log, tx))
		return;
	/* An older ZFS would not support the record, or no block of the log has room for it. A commit must wait for the
	 * transaction group instead. */
	if ((step->value == TX_SETSAXATTR && !spa_feature_is_enabled(
	    log->zl_spa, SPA_FEATURE_ZILSAXATTR)) ||
	    sizeof (lr_t) + step->length > zil_max_log_data(log, 0)) {
		note_unlogged(files, dmu_tx_get_txg(tx));
		return;
	}
	itx_t *itx = zil_itx_create(step->value, sizeof (lr_t) + step->length);
	memcpy((uint8_t *)&itx->itx_lr + sizeof (lr_t), step->data, step->length);
	if (step->flags & BH_STEP_OF_NEW)
		complete_creation(itx, made, slots);
	if (step->value == TX_WRITE && step->object == 0) {
		itx->itx_wr_state = WR_COPIED;
	} else if (step->value == TX_WRITE) {
		const lr_write_t *record = (const lr_write_t *)&itx->itx_lr;
		itx->itx_wr_state = WR_NEED_COPY;
		itx->itx_private = files;
		itx->itx_gen = step->object;
		dsl_pool_wrlog_count(log->zl_dmu_pool, record->lr_length,
		    dmu_tx_get_txg(tx));
		note_pending(&files->bf_pending, dmu_tx_get_txg(tx),
		    record->lr_length);
	}
	zil_itx_assign(log, itx, tx);
}

/*
 * Whether all records are on disk. They move from the lists of their groups to that of the commits, and from there to
 * blocks: a check in this order misses none.
 */
static boolean_t
has_nothing_to_commit(zilog_t *log)
{
	boolean_t has_nothing = B_TRUE;

	for (size_t slot = 0; has_nothing && slot < TXG_SIZE; slot++) {
		itxg_t *group = &log->zl_itxg[slot];

		mutex_enter(&group->itxg_lock);
		has_nothing = group->itxg_itxs == NULL || (list_is_empty(&group->itxg_itxs->i_sync_list) &&
		    avl_is_empty(&group->itxg_itxs->i_async_tree));
		mutex_exit(&group->itxg_lock);
	}
	if (!has_nothing)
		return (B_FALSE);
	mutex_enter(&log->zl_issuer_lock);
	has_nothing = list_is_empty(&log->zl_itx_commit_list);
	mutex_exit(&log->zl_issuer_lock);
	/* They complete in order. */
	mutex_enter(&log->zl_lock);
	lwb_t *block = list_tail(&log->zl_lwb_list);
	while (block != NULL && block->lwb_state == LWB_STATE_NEW)
		block = list_prev(&log->zl_lwb_list, block);
	has_nothing = has_nothing && (block == NULL || block->lwb_state == LWB_STATE_FLUSH_DONE);
	mutex_exit(&log->zl_lock);
	return (has_nothing);
}

int
bh_files_commit(bh_files_t *files)
{
	if (__atomic_load_n(&files->bf_log, __ATOMIC_ACQUIRE) == NULL)
		return (0);
	dsl_pool_t *dp = dmu_objset_pool(files->bf_os);
	uint64_t open = __atomic_load_n(&dp->dp_tx.tx_open_txg, __ATOMIC_ACQUIRE);
	uint64_t synced = spa_last_synced_txg(files->bf_os->os_spa);
	uint64_t better = better_group(files, synced);
	uint64_t awaited = MAX(better,
	    __atomic_load_n(&files->bf_unlogged, __ATOMIC_RELAXED));
	if (awaited > synced)
		txg_wait_synced(dp, awaited);
	/*
	 * All earlier changes are in this group or an older one. Later changes have not been requested to be durable: the log
	 * would write them, and their group again.
	 */
	if (better != 0 && better == open) {
		/* As in zil_commit(): a commit is not acknowledged before failed devices are on record. */
		bh_given_up_await(files->bf_os->os_spa);
		return (0);
	}
	if (has_nothing_to_commit(files->bf_log)) {
		bh_log_gaps_await(files->bf_os->os_spa);
		bh_given_up_await(files->bf_os->os_spa);
		return (0);
	}
	bh_in_place_begin();
	zil_commit(files->bf_log, 0);
	bh_in_place_end();
	return (0);
}

/* The fields of a record after its common header. */
static int
visit(bh_files_t *files, const lr_t *record, uint64_t more)
{
	return (files->bf_visit(files->bf_visit_arg, record->lrc_txtype,
	    (const uint8_t *)record + sizeof (*record),
	    record->lrc_reclen - sizeof (*record) + more));
}

static int
visit_block(zilog_t *log, const blkptr_t *block, void *arg, uint64_t group)
{
	(void) log, (void) block, (void) arg, (void) group;
	return (0);
}

static int
visit_waiting(zilog_t *log, const lr_t *record, void *arg, uint64_t group)
{
	const zil_header_t *header = log->zl_header;

	/* Already replayed, or on disk when the pool was imported. */
	if (record->lrc_seq <= header->zh_replay_seq || record->lrc_txg < group)
		return (0);
	return (visit(arg, record, 0));
}

int
bh_files_log_walk(bh_files_t *files, bh_record_visitor_t *visitor, void *arg)
{
	zilog_t *log = dmu_objset_zil(files->bf_os);

	files->bf_visit = visitor;
	files->bf_visit_arg = arg;
	return (zil_parse(log, visit_block, visit_waiting, files,
	    log->zl_header->zh_claim_txg, B_TRUE));
}

/* Bytes that the library appends to a record without any. */
static uint64_t
block_bytes(const lr_write_t *record)
{
	uint64_t block = BP_GET_LSIZE(&record->lr_blkptr);

	return (BP_IS_HOLE(&record->lr_blkptr) ?
	    MAX(block, record->lr_length) : block);
}

/* For a write with its bytes elsewhere, the library has appended them to the record. */
static int
replay_record(void *arg, void *raw, boolean_t byteswap)
{
	bh_files_t *files = arg;
	const lr_t *record = raw;
	uint64_t more = 0;

	if (byteswap) {
		files->bf_replay_error = ENOTSUP;
		return (ENOTSUP);
	}
	if (record->lrc_txtype == TX_WRITE &&
	    record->lrc_reclen == sizeof (lr_write_t))
		more = block_bytes(raw);
	/* The library tries a failed record twice; only the last outcome counts. */
	files->bf_replay_error = visit(files, record, more);
	return (files->bf_replay_error);
}

int
bh_files_log_replay(bh_files_t *files, bh_record_visitor_t *visitor, void *arg)
{
	zil_replay_func_t *handlers[TX_MAX_TYPE];
	zilog_t *log = dmu_objset_zil(files->bf_os);

	if ((log->zl_header->zh_flags & ZIL_REPLAY_NEEDED) == 0) {
		/* Its first block, without any records. */
		(void) zil_destroy(log, B_TRUE);
		return (0);
	}
	for (int type = 0; type < TX_MAX_TYPE; type++)
		handlers[type] = replay_record;
	files->bf_visit = visitor;
	files->bf_visit_arg = arg;
	files->bf_replay_error = 0;
	bh_files_log_open(files);
	bh_replay_t replay = { .br_log = files->bf_log,
	    .br_error = &files->bf_replay_error };
	int error = bh_replay(&replay, files->bf_os, files, handlers);
	files->bf_replays = B_FALSE;
	return (error);
}
