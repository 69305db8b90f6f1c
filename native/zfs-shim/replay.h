/*
 * replay.c: the replay of an intent log, of a volume or file system. Included after internal.h.
 */
#ifndef BH_REPLAY_H
#define	BH_REPLAY_H

#include <sys/zil.h>

/* An active replay. */
typedef struct bh_replay {
	const zilog_t *br_log;
	/* The result of the last record; if it is not 0 at the end, the log stays. */
	int *br_error;
	/* Completes the work of the last record; may be NULL. */
	int (*br_finish)(void *arg);
	void *br_finish_arg;
} bh_replay_t;

/*
 * Replays a pending log. ENOTRECOVERABLE if a record, or a block of the log, cannot be read or replayed; then the log
 * stays, and another attempt continues where this one stopped.
 */
int bh_replay(bh_replay_t *replay, objset_t *os, void *arg,
    zil_replay_func_t *const handlers[TX_MAX_TYPE]);

#endif
