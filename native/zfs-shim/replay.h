/*
 * replay.c: the replay of an intent log, of whatever kind. Included after internal.h.
 */
#ifndef BH_REPLAY_H
#define	BH_REPLAY_H

#include <sys/zil.h>

/* A replay under way. */
typedef struct bh_replay {
	const zilog_t *br_log;
	/* What came of the last record; not 0 at the end: the log stays. */
	int *br_error;
	/* Completes what the last record left; may be missing. */
	int (*br_finish)(void *arg);
	void *br_finish_arg;
} bh_replay_t;

/*
 * Replays a log that waits for it. ENOTRECOVERABLE if a record, or a block of the log, cannot be read or replayed; then
 * the log stays, and another attempt goes on where this one ended.
 */
int bh_replay(bh_replay_t *replay, objset_t *os, void *arg,
    zil_replay_func_t *const handlers[TX_MAX_TYPE]);

#endif
