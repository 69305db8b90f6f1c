/*
 * Handles mirrors with a device on another host.
 *
 * The library reads from the device of a mirror with the shortest queue, with a bonus for the one with the last I/O
 * adjacent to the read. With a remote device, some reads of local data would go over the network as soon as the local
 * disk has a queue. So a remote device reports a higher load than any local one can have. It is read only for data that
 * no local one can return: a read skips devices that failed, that miss the block's transaction group, or that were
 * already tried. Scrubs and resilvers read all copies regardless.
 */
#include "internal.h"

/* More than the queue length of any device, and far from an overflow. */
#define	BH_FAR_LOAD	(1U << 20)

/* A device in replacement, or with a spare, is as near as the nearest of its children. */
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

/* Only mirrors call it, to choose a device to read from. */
uint32_t
vdev_queue_length(vdev_t *vd)
{
	/* Called for each read, so resolved once. */
	static uint32_t (*library)(vdev_t *);
	uint32_t (*length)(vdev_t *) = __atomic_load_n(&library, __ATOMIC_RELAXED);

	if (length == NULL) {
		length = bh_library_function(__func__);
		__atomic_store_n(&library, length, __ATOMIC_RELAXED);
	}
	return (length(vd) + (is_far(vd) ? BH_FAR_LOAD : 0));
}
