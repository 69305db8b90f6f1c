/*
 * Large writes that need not be durable yet.
 *
 * A record of the intent log covers 4 KiB, and most writes are never logged, because they are in a synced transaction
 * group before a flush is requested. So a large write is only noted, as an extent and its group, and a flush logs those
 * notes with a group that is not on disk by then.
 *
 * The records belong to the group that is open at the flush, not to that of the write. Their bytes are fetched when the
 * log collects them, so they are the newest; a later write is in the same group or a newer one. Replay skips data that
 * is on disk, and hence never restores older bytes.
 *
 * Frees are recorded at once; an earlier note is recorded after them, with the newer contents. Of two concurrent
 * flushes the second blocks until the first has recorded its notes, then commits. No lock is held while a thread blocks
 * on a transaction: notes are made inside transactions under a lock with short critical sections, and recording them
 * uses a separate one.
 */
#include "volume_impl.h"

#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/spa.h>

#include <stdlib.h>

/* Writes up to this size are recorded at once: their few records cost less than the transaction at a flush. */
#define	BH_RECORDED_AT_ONCE_BYTES_MAX	(16ULL << 10)
/*
 * From this size on a flush syncs the transaction group, which writes the data once, instead of using the log, with
 * which it is written twice.
 */
#define	BH_GROUP_BYTES_MIN		(32ULL << 20)
#define	BH_NOTES_MIN			64

struct bh_note {
	uint64_t bn_offset;
	uint64_t bn_length;
	uint64_t bn_txg;
};

void
bh_unlogged_init(bh_unlogged_t *unlogged)
{
	mutex_init(&unlogged->bu_mutex, NULL, MUTEX_DEFAULT, NULL);
	mutex_init(&unlogged->bu_recording, NULL, MUTEX_DEFAULT, NULL);
}

void
bh_unlogged_forget(bh_unlogged_t *unlogged)
{
	free(unlogged->bu_notes);
	unlogged->bu_notes = NULL;
	unlogged->bu_count = unlogged->bu_capacity = 0;
	unlogged->bu_is_behind = 0;
}

void
bh_unlogged_fini(bh_unlogged_t *unlogged)
{
	bh_unlogged_forget(unlogged);
	mutex_destroy(&unlogged->bu_recording);
	mutex_destroy(&unlogged->bu_mutex);
}

/* Drops notes that are on disk by now. */
static uint64_t
still_unwritten(struct bh_note *notes, uint64_t count, uint64_t synced)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (notes[i].bn_txg > synced)
			notes[kept++] = notes[i];
	}
	return (kept);
}

/* Reserves space for one more note. FALSE if there is no memory. */
static boolean_t
make_room(bh_unlogged_t *unlogged, uint64_t synced)
{
	if (unlogged->bu_count < unlogged->bu_capacity)
		return (B_TRUE);
	unlogged->bu_count = still_unwritten(unlogged->bu_notes,
	    unlogged->bu_count, synced);
	/* So that this is not done for every note. */
	if (unlogged->bu_count < unlogged->bu_capacity / 2)
		return (B_TRUE);

	uint64_t capacity = MAX(unlogged->bu_capacity * 2, BH_NOTES_MIN);
	struct bh_note *notes = realloc(unlogged->bu_notes,
	    capacity * sizeof (*notes));
	if (notes == NULL)
		return (unlogged->bu_count < unlogged->bu_capacity);
	unlogged->bu_notes = notes;
	unlogged->bu_capacity = capacity;
	return (B_TRUE);
}

/*
 * Notes a write in the current transaction, instead of recording it. FALSE if it must be recorded now.
 */
boolean_t
bh_unlogged_note(bh_volume_t *volume, const dmu_tx_t *tx, uint64_t offset,
    uint64_t length)
{
	bh_unlogged_t *unlogged = &volume->bv_unlogged;
	objset_t *os = volume->bv_os;

	if (length <= BH_RECORDED_AT_ONCE_BYTES_MAX ||
	    os->os_sync == ZFS_SYNC_ALWAYS)
		return (B_FALSE);

	mutex_enter(&unlogged->bu_mutex);
	struct bh_note *last = unlogged->bu_count == 0 ? NULL :
	    &unlogged->bu_notes[unlogged->bu_count - 1];
	boolean_t noted = B_TRUE;
	if (last != NULL && last->bn_txg == tx->tx_txg &&
	    last->bn_offset + last->bn_length == offset) {
		last->bn_length += length;
	} else if (make_room(unlogged, spa_last_synced_txg(os->os_spa))) {
		unlogged->bu_notes[unlogged->bu_count++] =
		    (struct bh_note){ offset, length, tx->tx_txg };
	} else {
		noted = B_FALSE;
	}
	if (noted)
		__atomic_store_n(&unlogged->bu_is_behind, 1, __ATOMIC_RELEASE);
	mutex_exit(&unlogged->bu_mutex);
	return (noted);
}

/* Removes all notes. The caller frees them. */
static struct bh_note *
take_notes(bh_unlogged_t *unlogged, uint64_t *count)
{
	mutex_enter(&unlogged->bu_mutex);
	struct bh_note *notes = unlogged->bu_notes;
	*count = unlogged->bu_count;
	unlogged->bu_notes = NULL;
	unlogged->bu_count = unlogged->bu_capacity = 0;
	mutex_exit(&unlogged->bu_mutex);
	return (notes);
}

/* Logs notes. */
static int
record(bh_volume_t *volume, const struct bh_note *notes, uint64_t count)
{
	dmu_tx_t *tx = dmu_tx_create(volume->bv_os);
	/* It adds no dirty data, so it need not be throttled. */
	int error = dmu_tx_assign(tx, DMU_TX_WAIT | DMU_TX_NOTHROTTLE);

	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	bh_note_dirty(volume, tx->tx_txg);
	for (uint64_t i = 0; i < count; i++)
		bh_log_record(volume, tx, notes[i].bn_offset,
		    notes[i].bn_length);
	dmu_tx_commit(tx);
	return (0);
}

/*
 * Whether syncing the transaction group is cheaper than logging: for a large amount that dominates the data of the
 * group. With a log device the log is faster. While a scan runs, a sync on request is delayed by seconds
 * for the scan.
 */
boolean_t
bh_group_is_better(spa_t *spa, uint64_t bytes)
{
	return (bytes >= BH_GROUP_BYTES_MIN && !spa_has_slogs(spa) &&
	    bytes >= spa_get_dsl(spa)->dp_dirty_total / 2 &&
	    !dsl_scan_active(spa_get_dsl(spa)->dp_scan));
}

static uint64_t
noted_bytes(const struct bh_note *notes, uint64_t count)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < count; i++)
		bytes += notes[i].bn_length;
	return (bytes);
}

static void
await_groups(spa_t *spa, const struct bh_note *notes, uint64_t count)
{
	uint64_t newest = 0;

	for (uint64_t i = 0; i < count; i++)
		newest = MAX(newest, notes[i].bn_txg);
	txg_wait_synced(spa_get_dsl(spa), newest);
}

/*
 * Called before a commit of the log: all earlier notes are recorded, or on disk, on return. The caller must hold no
 * transaction: this enters one.
 */
void
bh_unlogged_record(bh_volume_t *volume)
{
	bh_unlogged_t *unlogged = &volume->bv_unlogged;
	spa_t *spa = volume->bv_os->os_spa;
	uint64_t count;

	if (!__atomic_load_n(&unlogged->bu_is_behind, __ATOMIC_ACQUIRE) ||
	    volume->bv_os->os_sync == ZFS_SYNC_DISABLED)
		return;
	/* Two concurrent flushes: the first one may be recording the second one's notes. */
	mutex_enter(&unlogged->bu_recording);
	struct bh_note *notes = take_notes(unlogged, &count);
	count = still_unwritten(notes, count, spa_last_synced_txg(spa));
	if (count != 0 && (bh_group_is_better(spa, noted_bytes(notes, count)) ||
	    record(volume, notes, count) != 0))
		await_groups(spa, notes, count);
	free(notes);

	mutex_enter(&unlogged->bu_mutex);
	if (unlogged->bu_count == 0)
		__atomic_store_n(&unlogged->bu_is_behind, 0, __ATOMIC_RELEASE);
	mutex_exit(&unlogged->bu_mutex);
	mutex_exit(&unlogged->bu_recording);
}
