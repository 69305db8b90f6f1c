/*
 * Lets clients go first during a scan, which is a scrub or a resilver, and bounds its rate.
 *
 * The library scans inside a transaction group, for at least one second of a scrub and three of a resilver, even if the
 * next group is due. Clients fill the next group during that time, and are throttled from 60 % of the dirty data on. It
 * also issues up to 16 MiB of reads per device at once. Neither can be set. But before each step of a scan, the library
 * checks whether the pool is being exported, and if so continues in the next group. The driver decides there: it blocks
 * the scan for a while, or ends its part of the group.
 */
#include "internal.h"

#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/txg.h>

/* A read of a scan, with the completion function of the library. */
struct scan_read {
	zio_done_func_t *done;
	void *private;
	uint64_t bytes;
};

/* While this is set, only the threads of the scan check for an export. */
static boolean_t
is_scanning(const spa_t *spa)
{
	const dsl_pool_t *dp = spa->spa_dsl_pool;

	return (dp != NULL && dp->dp_scan != NULL && dp->dp_scan->scn_zio_root != NULL);
}

static uint32_t
next_step(spa_t *spa)
{
	dsl_pool_t *dp = spa->spa_dsl_pool;
	struct bh_scan_step step = {
		.pool = spa_guid(spa),
		.group = spa_syncing_txg(spa),
		.is_group_awaited = txg_sync_waiting(dp),
		.are_writers_delayed = dsl_pool_need_dirty_delay(dp),
	};

	return (bh_driver()->scan_step(&step));
}

/*
 * Interposes the library's function: whether the pool is being exported. Weak, because a test has its own.
 */
__attribute__((weak)) boolean_t
spa_shutting_down(spa_t *spa)
{
	static boolean_t (*library)(spa_t *);

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	for (;;) {
		if (library(spa))
			return (B_TRUE);
		if (!is_scanning(spa))
			return (B_FALSE);
		switch (next_step(spa)) {
		case BH_SCAN_GO_ON:
			return (B_FALSE);
		case BH_SCAN_LEAVE:
			return (B_TRUE);
		default:
			continue;	/* it has blocked for a while */
		}
	}
}

static void
scan_read_done(zio_t *zio)
{
	struct scan_read *read = zio->io_private;
	uint64_t bytes = read->bytes;

	zio->io_private = read->private;
	read->done(zio);
	free(read);
	bh_driver()->scan_read_ended(bytes);
}

/* Interposes the library's function. */
zio_t *
zio_read(zio_t *parent, spa_t *spa, const blkptr_t *bp, struct abd *data, uint64_t size,
    zio_done_func_t *done, void *private, zio_priority_t priority, zio_flag_t flags,
    const zbookmark_phys_t *zb)
{
	static zio_t *(*library)(zio_t *, spa_t *, const blkptr_t *, struct abd *, uint64_t, zio_done_func_t *,
	    void *, zio_priority_t, zio_flag_t, const zbookmark_phys_t *);

	if (__atomic_load_n(&library, __ATOMIC_RELAXED) == NULL)
		__atomic_store_n(&library, bh_library_function(__func__), __ATOMIC_RELAXED);
	if (priority == ZIO_PRIORITY_SCRUB && (flags & (ZIO_FLAG_SCRUB | ZIO_FLAG_RESILVER)) != 0) {
		struct scan_read *read = malloc(sizeof (*read));

		VERIFY3P(read, !=, NULL);
		read->done = done;
		read->private = private;
		read->bytes = size;
		bh_driver()->scan_read_begins(size);
		done = scan_read_done;
		private = read;
	}
	return (library(parent, spa, bp, data, size, done, private, priority, flags, zb));
}
