/*
 * The replay of an intent log, of a volume or of a file system: how long it waits, and that a log stays which could
 * not be replayed to its end.
 */
#include "volume_impl.h"
#include "replay.h"

#include <sys/zil_impl.h>

/* What this thread replays. */
static __thread bh_replay_t *replaying;

/*
 * A replay waits for some transaction groups, each as long as the disks are slow to flush, while the
 * first client waits for the volume. Whether this thread replays a log and `txg` is one of the two waits that
 * are for nothing here:
 *
 * Before it begins, for removes under way, in a dataset that was just opened.
 *
 * At its end, until the log is gone from the disks. Whoever commits to the log next waits for
 * that (zil_create()), and if power fails before, the log is replayed again.
 *
 * A record that cannot be replayed waits as ever, and is tried again.
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
 * Comes before the library's own, which a replay calls when it is over, whatever became of it.  A log that could not be
 * replayed to its end stays: another attempt goes on where this one ended.
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
