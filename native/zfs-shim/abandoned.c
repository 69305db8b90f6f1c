/*
 * Devices whose data was given up when an administrator confirmed that missing devices are not newer.
 *
 * If such a device is newer all the same, its uberblocks are of later transaction groups than those of the pool. The
 * library would continue with its state, and the writes since the confirmation would be lost. So all labels since then
 * list it, and the library does not open it, whatever the reason for the attempt. It is admitted after its labels were
 * written again, without uberblocks.
 */
#include "internal.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Of the single pool of this process. */
static uint64_t abandoned[2 * BH_LABEL_ABANDONED_MAX];
static uint32_t abandoned_count;
static uint64_t closed[BH_LABEL_ABANDONED_MAX];
static uint32_t closed_count;

void
bh_label_abandoned(const uint64_t *words, uint32_t count, const uint64_t *guids, uint32_t guid_count)
{
	VERIFY3U(count, <=, 2 * BH_LABEL_ABANDONED_MAX);
	VERIFY3U(guid_count, <=, BH_LABEL_ABANDONED_MAX);
	VERIFY0(pthread_mutex_lock(&lock));
	for (uint32_t i = 0; i < count; i++)
		abandoned[i] = words[i];
	for (uint32_t i = 0; i < guid_count; i++)
		closed[i] = guids[i];
	abandoned_count = count;
	closed_count = guid_count;
	VERIFY0(pthread_mutex_unlock(&lock));
}

void
bh_abandoned_add_to_label(nvlist_t *label)
{
	VERIFY0(pthread_mutex_lock(&lock));
	if (abandoned_count > 0)
		fnvlist_add_uint64_array(label, BH_LABEL_ABANDONED, abandoned, abandoned_count);
	VERIFY0(pthread_mutex_unlock(&lock));
}

int32_t
bh_is_closed_device(uint64_t guid)
{
	int32_t is_closed = 0;

	VERIFY0(pthread_mutex_lock(&lock));
	for (uint32_t i = 0; i < closed_count; i++)
		is_closed |= closed[i] == guid;
	VERIFY0(pthread_mutex_unlock(&lock));
	return (is_closed);
}

void
bh_admit_device(uint64_t guid)
{
	VERIFY0(pthread_mutex_lock(&lock));
	for (uint32_t i = 0; i < closed_count; i++) {
		if (closed[i] == guid)
			closed[i] = 0;
	}
	VERIFY0(pthread_mutex_unlock(&lock));
}
