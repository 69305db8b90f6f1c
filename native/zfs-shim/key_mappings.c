/*
 * Releases the keys of encrypted datasets, one thread after another.
 *
 * The library counts the users of a dataset's key. The last one removes the key from the list of keys, in two steps; a
 * thread that finds the key in the list in between, and then releases it, also counts as the last one, and frees it a
 * second time. With mounted datasets that hardly happens. Here each read of the state of a volume that is not open uses
 * its key for a short time, and lists, metrics and schedules do so concurrently.
 *
 * The holder of the lock does not wait for a device: it covers no more than the library's own locks of its keys, which
 * are acquired inside.
 *
 * Without this the server of `make requests` crashed with SIGSEGV about once in two hundred runs. `cargo test -p zpool
 * --test encryption many_who_look` reproduces it: without the lock the library aborted the process in one of nine runs.
 * Not using the key for reads of the state would hide the size of a volume; holding all keys would prevent them from
 * being unloaded.
 */
#include "internal.h"

#include <sys/dsl_crypt.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Interposes the library's function. */
void
key_mapping_rele(spa_t *spa, dsl_key_mapping_t *mapping, const void *tag)
{
	void (*library)(spa_t *, dsl_key_mapping_t *, const void *) = bh_library_function(__func__);

	VERIFY0(pthread_mutex_lock(&lock));
	library(spa, mapping, tag);
	VERIFY0(pthread_mutex_unlock(&lock));
}
