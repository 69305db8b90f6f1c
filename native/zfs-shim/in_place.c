/*
 * Steps of a commit of the intent log that the library would hand to its task threads, and that
 * the committing thread carries out itself (docs/decisions/0010-commits-in-place.md).
 *
 * A commit is a block of the log, checksummed and written; then a flush; then the release of
 * whoever waits.  The library passes it on from thread to thread at each step, and a wake-up costs
 * more than the step.  The thread that commits has nothing else to do meanwhile.  Of a commit of several
 * blocks this is so for the last one.
 *
 * What runs in place runs where a task thread could have run it at the same moment, so the
 * library's own locking covers it.  What differs, and why it is fine: the locks that the thread
 * holds (none, or in a rare case the log's issuer lock, which nothing here takes), the depth of
 * the stack (bounded), and how long it may wait (it would have to wait for the end anyway).
 */
#include "internal.h"

#include <sys/zil_impl.h>

#include <dlfcn.h>

/* Commits that end inside one another: a finished block releases the end of the next one. */
#define	BH_NESTED_MAX	4

static __thread struct {
	uint32_t committing;	/* this thread is inside bh_in_place_begin() and _end() */
	uint32_t walking;	/* and here inside bh_in_place_walk_begin() and _end() */
	uint32_t nested;
	boolean_t after_log_io;	/* it is going on after a write or a flush of the log */
} here;

void
bh_in_place_begin(void)
{
	here.committing++;
}

void
bh_in_place_end(void)
{
	here.committing--;
}

boolean_t
bh_in_place_is_committing(void)
{
	return (here.committing != 0);
}

void
bh_in_place_walk_begin(void)
{
	here.walking++;
}

void
bh_in_place_walk_end(void)
{
	here.walking--;
}

boolean_t
bh_in_place_is_walked(const zio_t *zio)
{
	return (here.walking != 0 && zio->io_type == ZIO_TYPE_READ &&
	    zio->io_bookmark.zb_object == ZB_ZIL_OBJECT &&
	    zio->io_bookmark.zb_level == ZB_ZIL_LEVEL);
}

void
bh_in_place_go_on(zio_t *zio, boolean_t is_log)
{
	boolean_t before = here.after_log_io;

	/* The end of one I/O can start another one, which then ends inside it. */
	here.after_log_io = is_log;
	zio_execute(zio);
	here.after_log_io = before;
}

/* A block of the log on its way to the devices, before it has been checksummed. */
static boolean_t
is_log_block(const zio_t *zio, zio_taskq_type_t queue)
{
	return (queue == ZIO_TASKQ_ISSUE && zio->io_type == ZIO_TYPE_WRITE &&
	    zio->io_child_type == ZIO_CHILD_LOGICAL && zio->io_vd == NULL &&
	    zio->io_stage == ZIO_STAGE_ISSUE_ASYNC &&
	    zio->io_bookmark.zb_object == ZB_ZIL_OBJECT &&
	    zio->io_bookmark.zb_level == ZB_ZIL_LEVEL);
}

/*
 * Whether more blocks of the same log are about to be written. Then this one is better written by others: the library
 * leaves the flush of a block to the next one, if that is issued before this one is written.
 */
static boolean_t
is_followed(const zio_t *zio)
{
	lwb_t *block = zio->io_private;
	zilog_t *log = block->lwb_zilog;

	mutex_enter(&log->zl_lock);
	const lwb_t *next = list_next(&log->zl_lwb_list, block);
	boolean_t followed = next != NULL &&
	    (next->lwb_state == LWB_STATE_CLOSED ||
	    next->lwb_state == LWB_STATE_READY);
	mutex_exit(&log->zl_lock);
	return (followed);
}

/*
 * What remains when the writes and flushes below it are done: for a commit, to release who waits.
 * Labels are written at the same priority; theirs count the copies that were written.
 */
static boolean_t
is_conclusion(const zio_t *zio, zio_taskq_type_t queue)
{
	return (queue == ZIO_TASKQ_INTERRUPT && zio->io_type == ZIO_TYPE_NULL &&
	    zio->io_child_type == ZIO_CHILD_LOGICAL && zio->io_vd == NULL &&
	    zio->io_error == 0 && zio->io_reexecute == 0 &&
	    zio->io_child_error[ZIO_CHILD_VDEV] == 0 &&
	    zio->io_child_error[ZIO_CHILD_LOGICAL] == 0 &&
	    (zio->io_flags & (ZIO_FLAG_CONFIG_WRITER | ZIO_FLAG_PROBE)) == 0);
}

static boolean_t
runs_here(const zio_t *zio, zio_taskq_type_t queue)
{
	if (here.nested >= BH_NESTED_MAX)
		return (B_FALSE);
	if (here.committing != 0 && is_log_block(zio, queue))
		return (!is_followed(zio));
	return (here.after_log_io && is_conclusion(zio, queue));
}

typedef void dispatch_function(spa_t *, zio_type_t, zio_taskq_type_t, task_func_t *, zio_t *,
    boolean_t);

/* Stands in front of the library's own, which it falls back to. */
void
spa_taskq_dispatch(spa_t *spa, zio_type_t type, zio_taskq_type_t queue, task_func_t *function,
    zio_t *zio, boolean_t in_front)
{
	static dispatch_function *original;

	/*
	 * The end of a read that was begun: the thread that read its last block goes on. The library has one thread for all
	 * such ends, and labels and probes wait for that thread, too.
	 */
	if (function == zio_execute && queue == ZIO_TASKQ_INTERRUPT &&
	    type == ZIO_TYPE_NULL && bh_is_read_root(zio)) {
		zio_execute(zio);
		return;
	}
	if (function == zio_execute && runs_here(zio, queue)) {
		here.nested++;
		zio_execute(zio);
		here.nested--;
		return;
	}
	dispatch_function *next = __atomic_load_n(&original, __ATOMIC_RELAXED);
	if (next == NULL) {
		next = (dispatch_function *)dlsym(RTLD_NEXT, "spa_taskq_dispatch");
		VERIFY3P(next, !=, NULL);
		__atomic_store_n(&original, next, __ATOMIC_RELAXED);
	}
	next(spa, type, queue, function, zio, in_front);
}
