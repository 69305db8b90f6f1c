/*
 * Estimates the space for dirty data.
 *
 * The library estimates 24 times the data: three copies, each four times as large with triple parity, and all of it
 * twice for deduplication. A change that does not fit that estimate blocks until a whole transaction group is on disk.
 * In a pool with little free space, compared to the limit of dirty data, a stream of writes mostly waited.
 *
 * Here the parity is that of the devices. Blocks of the higher levels are counted as they become dirty, each like data,
 * so that three copies are the maximum for them too. dRAID and deduplicated data use the library's own estimate.
 *
 * With 2 GiB free, 85 MiB of dirty data were too much by the library's estimate: 1,200 writes of 1 MiB blocked 34 times
 * (the library's dmu_tx_quota), and with three instead of 24 twice or not at all. Measured alternately in the same
 * server on two cores, medians of two: 602 MB/s with 24, 1,173 with three, 1,389 with one, tgt 531 (qemu-img bench -c
 * 1200 -d 4 -s 1048576 -S 1048576 -t none -w).
 *
 * It is safe because the bound holds for each block on all levels. The pool's own tables are in the 1/32 of the pool
 * (at least 128 MiB) that the library reserves, and the reservation of a single transaction before it begins is still
 * 24 times its size. The estimate is not one copy for data, although a volume without further copies uses no more: the
 * number of copies can be raised while data that was counted with the lower one is dirty.
 *
 * engines/zpool/tests/volume_space.rs fills a pool in which blocks need twelve times their size. Without the parity,
 * that pool stalls within a transaction group.
 */
#include "internal.h"

#include <sys/dmu_objset.h>
#include <sys/dmu_tx.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/vdev_draid.h>
#include <sys/vdev_raidz.h>

/* A block of a dRAID uses whole rows: the library's own estimate is used there. */
#define	BH_PARITY_UNKNOWN	(VDEV_RAIDZ_MAXPARITY + 1)

/* The highest of all devices that this process has opened. */
static uint64_t parity_max;

void
bh_space_note_device(const vdev_t *leaf)
{
	uint64_t parity = 0;

	for (vdev_t *vd = leaf->vdev_parent; vd != NULL; vd = vd->vdev_parent)
		parity = MAX(parity, vd->vdev_ops == &vdev_draid_ops ?
		    BH_PARITY_UNKNOWN : vdev_get_nparity(vd));

	uint64_t known = __atomic_load_n(&parity_max, __ATOMIC_RELAXED);
	while (known < parity && !__atomic_compare_exchange_n(&parity_max, &known, parity, B_TRUE,
	    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		continue;
}

static int64_t
space_to_write(const objset_t *os, int64_t space)
{
	uint64_t parity = __atomic_load_n(&parity_max, __ATOMIC_RELAXED);

	/* The table of deduplicated blocks grows uncounted: the library's margin also covers it. */
	if (space <= 0 || parity >= BH_PARITY_UNKNOWN || os->os_dedup_checksum != ZIO_CHECKSUM_OFF)
		return (spa_get_worst_case_asize(os->os_spa, space));
	return (MAX(space, 1LL << os->os_spa->spa_max_ashift) * SPA_DVAS_PER_BP * (parity + 1));
}

/* Interposes the library's function, which is called for every block that becomes dirty. */
void
dmu_objset_willuse_space(objset_t *os, int64_t space, dmu_tx_t *tx)
{
	if (os->os_dsl_dataset != NULL)
		dsl_dir_willuse_space(os->os_dsl_dataset->ds_dir, space_to_write(os, space), tx);
	dsl_pool_dirty_space(dmu_tx_pool(tx), space, tx);
}
