/*
 * The replay of an intent log, of a volume or of a file system: skips unnecessary waiting, and preserves a log that
 * could not be replayed completely.
 */
#include "volume_impl.h"
#include "replay.h"

#include <sys/zil_impl.h>

/* The replay of this thread. */
static __thread bh_replay_t *replaying;

/*
 * A replay syncs some transaction groups, each as slow as the disks' flushes, and delays the first client of
 * the volume. Returns whether this thread replays a log and `txg` is one of the two it need not wait for:
 *
 * Before it begins, for pending removals in a dataset that was just opened.
 *
 * After its end, until the log is gone from the disks. The next commit to the log blocks on that (zil_create()), and if
 * power fails before, the log is replayed again.
 *
 * A record that cannot be replayed does wait, and is retried.
 */
boolean_t
bh_log_replays_without(uint64_t txg)
{
	if (replaying == NULL)
		return (B_FALSE);
	const zilog_t *log = replaying->br_log;
	return (txg == 0 ? !log->zl_replay : txg == log->zl_destroy_txg);
}

/*
 * Interposes the library's function, which a replay calls when it is over, whatever its result. A log that could not be
 * replayed completely stays: another attempt continues where this one stopped.
 */
boolean_t
zil_destroy(zilog_t *log, boolean_t keep_first)
{
	boolean_t (*library)(zilog_t *, boolean_t) = bh_library_function(__func__);
	bh_replay_t *replay = replaying;

	if (replay != NULL && log == replay->br_log) {
		int *error = replay->br_error;

		if (*error == 0)
			*error = log->zl_parse_error;
		if (*error == 0 && replay->br_finish != NULL)
			*error = replay->br_finish(replay->br_finish_arg);
		if (*error != 0)
			return (B_FALSE);
	}
	return (library(log, keep_first));
}

int
bh_replay(bh_replay_t *replay, objset_t *os, void *arg,
    zil_replay_func_t *const handlers[TX_MAX_TYPE])
{
	replaying = replay;
	(void) zil_replay(os, arg, handlers);
	replaying = NULL;
	return (*replay->br_error == 0 ? 0 : ENOTRECOVERABLE);
}
