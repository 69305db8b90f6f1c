/*
 * Handles mirrors with a device on another host.
 *
 * The library reads from the device of a mirror with the shortest queue, with a bonus for the one with the last I/O
 * adjacent to the read. With a remote device, some reads of local data would go over the network as soon as the local
 * disk has a queue. So the driver adds a load to the queue length of a remote device. By default it is higher than any
 * local one: the device is read only for data that no local one can return. A read skips devices that failed, that miss
 * the block's transaction group, or that were already tried. Scrubs and resilvers read all copies regardless.
 */
#include "internal.h"

/* A device in replacement, or with a spare, is as near as the nearest of its children. */
static uint32_t
far_load(const vdev_t *vd)
{
	uint32_t least = UINT32_MAX;

	if (vd->vdev_children == 0) {
		boolean_t is_open = vd->vdev_tsd != NULL && bh_device_is_ours(vd);

		return (is_open ? bh_driver()->read_load(vd->vdev_tsd) : 0);
	}
	for (uint64_t child = 0; child < vd->vdev_children; child++)
		least = MIN(least, far_load(vd->vdev_child[child]));
	return (least);
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
	return (length(vd) + far_load(vd));
}
