/*
 * A note in the labels of a pool's devices.
 *
 * Whoever is about to open a pool reads its labels long before he can read anything in it.  What he should
 * know as early as that stands there as one more text beside the library's own.  Every other reader looks for the
 * names that it knows, and a pool that other software opens loses the note with the next label.
 */
#include "internal.h"

/* The list shares 112 KiB with the description of the devices; one that does not fit would not be written at all. */
#define	BH_NOTED_LABEL_BYTES_MAX	(64 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* One pool at a time has a note. */
static uint64_t noted_guid;
static char *note;

static void
keep_note(uint64_t guid, const char *text)
{
	char *copy = *text == '\0' ? NULL : strdup(text);

	VERIFY0(pthread_mutex_lock(&lock));
	char *old = note;
	note = copy;
	noted_guid = guid;
	VERIFY0(pthread_mutex_unlock(&lock));
	free(old);
}

static void
add_note(const spa_t *spa, nvlist_t *label)
{
	size_t bytes;

	VERIFY0(pthread_mutex_lock(&lock));
	if (note != NULL && spa->spa_root_vdev->vdev_guid == noted_guid &&
	    nvlist_size(label, &bytes, NV_ENCODE_XDR) == 0 &&
	    bytes + strlen(note) < BH_NOTED_LABEL_BYTES_MAX)
		fnvlist_add_string(label, BH_LABEL_NOTE, note);
	VERIFY0(pthread_mutex_unlock(&lock));
}

nvlist_t *
spa_config_generate(spa_t *spa, vdev_t *vd, uint64_t txg, int getstats)
{
	nvlist_t *(*library)(spa_t *, vdev_t *, uint64_t, int) = bh_library_function(__func__);
	nvlist_t *config = library(spa, vd, txg, getstats);

	/* With a device of its own it is a label, without one a description of the pool. */
	if (config != NULL && vd != NULL && vd != spa->spa_root_vdev)
		add_note(spa, config);
	return (config);
}

void
bh_label_note(uint64_t pool_guid, const char *text)
{
	keep_note(pool_guid, text);
}

int
bh_write_label_note(spa_t *spa, const char *text)
{
	keep_note(spa->spa_root_vdev->vdev_guid, text);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_WRITER);
	vdev_config_dirty(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	return (0);
}
