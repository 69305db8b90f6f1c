/*
 * Lets go of the keys of encrypted datasets, one thread after the other.
 *
 * The library counts who uses a dataset's key. Whoever is the last one to let go takes the key out of the list of
 * keys, in two steps; a thread that finds the key in the list in between, uses it and lets go of it
 * takes itself for the last one as well, and frees it a second time. Where datasets stay mounted that hardly
 * happens. Here each look at a volume that nobody has open uses its key for a moment, and lists, metrics and schedules look
 * at the same time.
 *
 * Who holds the lock waits for no device: it covers no more than the library's own locks of its keys, which are taken inside.
 *
 * Without this the server of `make requests` ended with SIGSEGV about once in two hundred runs.
 * `cargo test -p zpool --test encryption many_who_look` shows it: without the lock the library ended the process in one of nine runs.
 * Not looking with the key would hide the size of a volume; keeping all keys in use would keep them from being unloaded.
 */
#include "internal.h"

#include <sys/dsl_crypt.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Comes before the library's own. */
void
key_mapping_rele(spa_t *spa, dsl_key_mapping_t *mapping, const void *tag)
{
	void (*library)(spa_t *, dsl_key_mapping_t *, const void *) = bh_library_function(__func__);

	VERIFY0(pthread_mutex_lock(&lock));
	library(spa, mapping, tag);
	VERIFY0(pthread_mutex_unlock(&lock));
}
