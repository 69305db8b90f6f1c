/*
 * Steps of a commit of the intent log that the library would hand to its task threads, and that
 * the committing thread carries out itself (docs/decisions/0010-commits-in-place.md).
 *
 * A commit is a block of the log, checksummed and written; then a flush; then the wake-up of the waiting threads. The
 * library passes it from thread to thread at each step, and a wake-up costs more than the step. The committing thread
 * is idle in between. In a commit of several blocks this applies to the last one.
 *
 * Code that runs in place runs where a task thread could run it concurrently, so the library's own locking covers it.
 * The differences are safe: the locks that the thread holds (none, or in a rare case the log's issuer lock, which is
 * not acquired here), the depth of the stack (bounded), and how long it may block (it would have to wait for the
 * completion anyway).
 *
 * In a mirror with a device on another host, the block is sent there first, without blocking. The write to the device of
 * this host is deferred until the thread would wait for the commit. Then the thread writes, and receives the reply of the
 * other host itself, so that no other thread is woken. In every other wait it may hold locks that a completion acquires,
 * so that other threads carry out the write and receive the reply.
 */
#include "internal.h"

#include <sys/zil_impl.h>

#include <dlfcn.h>
#include <stddef.h>

/* Commits that complete inside one another: a finished block releases the end of the next one. */
#define	BH_NESTED_MAX	4

/* Deferred writes: one for each device of this host in a mirror. Further ones are not deferred. */
#define	BH_DEFERRED_MAX	8

static __thread struct {
	uint32_t committing;	/* this thread is inside bh_in_place_begin() and _end() */
	uint32_t walking;	/* and here inside bh_in_place_walk_begin() and _end() */
	uint32_t nested;
	boolean_t after_log_io;	/* it is going on after a write or a flush of the log */
	boolean_t awaits;	/* replies of other hosts */
	uint32_t deferred_count;
	zio_t *deferred[BH_DEFERRED_MAX];
} here;

void
bh_in_place_begin(void)
{
	here.committing++;
}

void
bh_in_place_end(void)
{
	bh_in_place_hand_over();
	here.committing--;
}

boolean_t
bh_in_place_defer(zio_t *zio)
{
	if (here.committing == 0 || here.deferred_count == BH_DEFERRED_MAX)
		return (B_FALSE);
	here.deferred[here.deferred_count++] = zio;
	return (B_TRUE);
}

void
bh_in_place_await(void)
{
	here.awaits = B_TRUE;
}

static void
write_elsewhere(void *zio)
{
	bh_device_write_of_log(zio);
}

void
bh_in_place_hand_over(void)
{
	while (here.deferred_count > 0) {
		zio_t *zio = here.deferred[--here.deferred_count];

		spa_taskq_dispatch(zio->io_spa, ZIO_TYPE_WRITE, ZIO_TASKQ_ISSUE, write_elsewhere, zio,
		    B_FALSE);
	}
	if (here.awaits) {
		here.awaits = B_FALSE;
		bh_device_release();
	}
}

/* Whether a thread waits for its commit with this condition. It holds no other lock then. */
static boolean_t
is_wait_for_commit(const kcondvar_t *cv, const kmutex_t *mutex)
{
	return ((const char *)mutex - (const char *)cv ==
	    (ptrdiff_t)offsetof(zil_commit_waiter_t, zcw_lock) -
	    (ptrdiff_t)offsetof(zil_commit_waiter_t, zcw_cv));
}

boolean_t
bh_in_place_work(const kcondvar_t *cv, kmutex_t *mutex)
{
	if (here.deferred_count == 0 && !here.awaits)
		return (B_FALSE);
	if (here.committing == 0 || !is_wait_for_commit(cv, mutex)) {
		bh_in_place_hand_over();
		return (B_FALSE);
	}
	mutex_exit(mutex);
	if (here.deferred_count > 0)
		bh_device_write_here(here.deferred[--here.deferred_count]);
	else
		here.awaits = bh_device_receive();
	mutex_enter(mutex);
	/* Even if nothing was received: the condition may have been signalled while the mutex was released. */
	return (B_TRUE);
}

boolean_t
bh_is_log_block(const zio_t *zio)
{
	return (zio->io_bookmark.zb_object == ZB_ZIL_OBJECT &&
	    zio->io_bookmark.zb_level == ZB_ZIL_LEVEL);
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
	return (here.walking != 0 && zio->io_type == ZIO_TYPE_READ && bh_is_log_block(zio));
}

void
bh_in_place_continue(zio_t *zio, boolean_t is_log)
{
	boolean_t before = here.after_log_io;

	/* The completion of one I/O can start another, which then completes inside it. */
	here.after_log_io = is_log;
	zio_execute(zio);
	here.after_log_io = before;
}

/* A log block in the ZIO pipeline, before it has been checksummed. */
static boolean_t
is_new_log_block(const zio_t *zio, zio_taskq_type_t queue)
{
	return (queue == ZIO_TASKQ_ISSUE && zio->io_type == ZIO_TYPE_WRITE &&
	    zio->io_child_type == ZIO_CHILD_LOGICAL && zio->io_vd == NULL &&
	    zio->io_stage == ZIO_STAGE_ISSUE_ASYNC && bh_is_log_block(zio));
}

/*
 * Whether further blocks of the same log are about to be written. Then the library's threads should write this one: the
 * library defers the flush of a block to the next one, if that is issued before this one is written.
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
 * The step after the writes and flushes of a ZIO: for a commit, to wake the waiting threads. Labels are written at the
 * same priority; theirs count the copies that were written.
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
	if (here.committing != 0 && is_new_log_block(zio, queue))
		return (!is_followed(zio));
	return (here.after_log_io && is_conclusion(zio, queue));
}

typedef void dispatch_function(spa_t *, zio_type_t, zio_taskq_type_t, task_func_t *, zio_t *,
    boolean_t);

/* Interposes the library's function, and calls it as the fallback. */
void
spa_taskq_dispatch(spa_t *spa, zio_type_t type, zio_taskq_type_t queue, task_func_t *function,
    zio_t *zio, boolean_t in_front)
{
	static dispatch_function *original;

	/*
	 * The completion of an asynchronous read: the thread that read its last block continues with it. The library has one
	 * thread for all such completions, and labels and probes wait for that thread, too.
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
