/*
 * The history that a pool stores in itself: a ring of records, which `zpool history` shows.
 */
#include "internal.h"

#include <sys/dmu.h>

/* Half of the smallest ring: for a longer record, the library overwrites more than there is. */
#define	BH_TEXT_BYTES_MAX	(64 << 10)

int32_t
bh_pool_history_add(const char *name, const char *text)
{
	spa_t *spa;

	if (strlen(text) >= BH_TEXT_BYTES_MAX)
		return (E2BIG);
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	error = spa_history_log(spa, text);
	spa_close(spa, FTAG);
	return (error);
}

/* Where the newest `bytes` of the ring begin. */
static int
history_start(spa_t *spa, uint64_t bytes, uint64_t *start)
{
	dmu_buf_t *bonus;

	if (spa->spa_history == 0)
		return (ENOENT);

	int error = dmu_bonus_hold(spa->spa_meta_objset, spa->spa_history, FTAG, &bonus);

	if (error != 0)
		return (error);

	const spa_history_phys_t *ring = bonus->db_data;

	mutex_enter(&spa->spa_history_lock);
	/* The first record is kept outside the ring. Reading from 0 on would wait for a sync. */
	*start = ring->sh_eof > bytes ? MAX(ring->sh_bof, ring->sh_eof - bytes) : 1;
	mutex_exit(&spa->spa_history_lock);
	dmu_buf_rele(bonus, FTAG);
	return (0);
}

int32_t
bh_pool_history_tail(const char *name, char *data, uint64_t *length)
{
	spa_t *spa;
	uint64_t offset, done = 0;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	error = history_start(spa, *length, &offset);
	while (error == 0 && done < *length) {
		uint64_t piece = *length - done;

		error = spa_history_get(spa, &offset, &piece, data + done);
		if (piece == 0)
			break;
		done += piece;
	}
	*length = done;
	spa_close(spa, FTAG);
	return (error);
}
