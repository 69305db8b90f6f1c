/*
 * Mirrors with a device on another machine.
 *
 * The library reads from the device of a mirror that has the least to do, with a bonus for the one whose last I/O ended
 * where the read begins.  With a device far away some of the reads would leave the machine as soon as the near disk has
 * a queue, for data that is here.  So a far device looks busier than any near one can be.  It is read for
 * what no near one has: a read leaves out those that failed, that lack the block's transaction group, or that have
 * been tried for it.  Scrubs and resilvers read what they need without asking.
 */
#include "internal.h"

/* More than any device has I/O in its queue, and far from an overflow. */
#define	BH_FAR_LOAD	(1U << 20)

/* A device that is being replaced, or has a spare, is as near as the nearest of its parts. */
static boolean_t
is_far(const vdev_t *vd)
{
	if (vd->vdev_children == 0)
		return (vd->vdev_tsd != NULL && bh_device_is_ours(vd) && bh_device_is_far(vd));
	for (uint64_t child = 0; child < vd->vdev_children; child++) {
		if (!is_far(vd->vdev_child[child]))
			return (B_FALSE);
	}
	return (B_TRUE);
}

/* Only mirrors ask for it, to choose what to read. */
uint32_t
vdev_queue_length(vdev_t *vd)
{
	/* Asked for each read: found once. */
	static uint32_t (*library)(vdev_t *);
	uint32_t (*length)(vdev_t *) = __atomic_load_n(&library, __ATOMIC_RELAXED);

	if (length == NULL) {
		length = bh_library_function(__func__);
		__atomic_store_n(&library, length, __ATOMIC_RELAXED);
	}
	return (length(vd) + (is_far(vd) ? BH_FAR_LOAD : 0));
}
