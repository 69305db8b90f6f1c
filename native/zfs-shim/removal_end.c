/*
 * An export at the end of a removal.
 *
 * The thread that moves the data of a device that leaves the pool changes the configuration twice at its end. Before
 * the second change it is no longer on record as running. An export that begins in between does not stop the thread,
 * and the thread finds the pool being exported, which the library asserts not to happen. So an export begins after both
 * changes.
 *
 * The transaction group between the two changes frees the record of the removal. An export that is just being told by
 * that record that the thread has ended must be done with it first.
 */
#include "internal.h"

#include <sys/vdev_removal.h>
#include <pthread.h>

#define	BH_CHANGES_AT_END	2

/* A removal's thread that still changes the configuration. */
typedef struct removal_end {
	const spa_t *re_pool;
	int re_changes_left;
	struct removal_end *re_next;
} removal_end_t;

static __thread removal_end_t own_end;

static pthread_mutex_t ends_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ends_changed = PTHREAD_COND_INITIALIZER;
static removal_end_t *ends;

static removal_end_t **
find_end(const spa_t *pool)
{
	removal_end_t **at = &ends;

	while (*at != NULL && (*at)->re_pool != pool)
		at = &(*at)->re_next;
	return (at);
}

/* Interposes the library's function. */
uint64_t
spa_vdev_enter(spa_t *spa)
{
	uint64_t (*library)(spa_t *) = bh_library_function(__func__);
	uint64_t txg = library(spa);
	/* It is not freed while the configuration is locked. */
	const spa_vdev_removal_t *removal = spa->spa_vdev_removal;

	if (removal != NULL && removal->svr_thread == curthread && own_end.re_changes_left == 0) {
		(void) pthread_mutex_lock(&ends_lock);
		own_end = (removal_end_t){ spa, BH_CHANGES_AT_END, ends };
		ends = &own_end;
		(void) pthread_mutex_unlock(&ends_lock);
	}
	return (txg);
}

/* Interposes the library's function. */
int
spa_vdev_exit(spa_t *spa, vdev_t *vd, uint64_t txg, int error)
{
	int (*library)(spa_t *, vdev_t *, uint64_t, int) = bh_library_function(__func__);
	int result = library(spa, vd, txg, error);

	if (own_end.re_changes_left > 0 && --own_end.re_changes_left == 0) {
		(void) pthread_mutex_lock(&ends_lock);
		*find_end(own_end.re_pool) = own_end.re_next;
		(void) pthread_cond_broadcast(&ends_changed);
		(void) pthread_mutex_unlock(&ends_lock);
	}
	return (result);
}

/* Interposes the library's function: an export and a destruction stop the threads of the pool with it. */
void
spa_async_suspend(spa_t *spa)
{
	void (*library)(spa_t *) = bh_library_function(__func__);

	library(spa);
	(void) pthread_mutex_lock(&ends_lock);
	while (*find_end(spa) != NULL)
		(void) pthread_cond_wait(&ends_changed, &ends_lock);
	(void) pthread_mutex_unlock(&ends_lock);
}

static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;

/* Interposes the library's function, which returns after the end of the thread. */
void
spa_vdev_remove_suspend(spa_t *spa)
{
	void (*library)(spa_t *) = bh_library_function(__func__);

	(void) pthread_mutex_lock(&record_lock);
	library(spa);
	(void) pthread_mutex_unlock(&record_lock);
}

/* Interposes the library's function. The pool no longer refers to the record. */
void
spa_vdev_removal_destroy(spa_vdev_removal_t *removal)
{
	void (*library)(spa_vdev_removal_t *) = bh_library_function(__func__);

	(void) pthread_mutex_lock(&record_lock);
	library(removal);
	(void) pthread_mutex_unlock(&record_lock);
}
