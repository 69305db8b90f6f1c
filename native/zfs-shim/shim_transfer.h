/*
 * Sending and receiving snapshots, bookmarks. Functions return 0 or a positive errno, some of
 * which are the library's own (`zfs_errno_t`); strings are copied before a function returns.
 */
#ifndef BH_SHIM_TRANSFER_H
#define	BH_SHIM_TRANSFER_H

#include <stdint.h>

/* Length of a record of a stream. */
#define	BH_RECORD_BYTES		312

/* Flags of a send. */
#define	BH_SEND_EMBEDDED	(1U << 0)
#define	BH_SEND_LARGE_BLOCKS	(1U << 1)
#define	BH_SEND_COMPRESSED	(1U << 2)
#define	BH_SEND_RAW		(1U << 3)

/* Consumes bytes of the stream in order; a result other than 0 stops the send with that error. */
typedef int bh_send_sink_t(void *arg, const void *data, uint64_t length);
typedef void bh_bookmark_visitor_t(void *arg, const char *name, uint64_t guid,
    uint64_t creation_txg, uint64_t creation_time_s);

/*
 * Sends `snapshot`: whole, or (`from` is not empty) relative to a snapshot or bookmark. A resumed
 * send begins at `resume_object` and `resume_offset`, which are zero otherwise.
 */
int bh_send(const char *snapshot, const char *from, uint32_t flags,
    uint64_t resume_object, uint64_t resume_offset, bh_send_sink_t *sink,
    void *arg);
/* About how many bytes the whole stream would have. */
int bh_send_estimate(const char *snapshot, const char *from, uint32_t flags,
    uint64_t *bytes);

/* Flags of a receive. */
#define	BH_RECEIVE_FORCE	(1U << 0)	/* roll back what was written since */
#define	BH_RECEIVE_RESUMABLE	(1U << 1)	/* keep what came of a cut stream */

/*
 * Receives a stream of a volume as `volume`@`tag`. `begin` is its first record, of BH_RECORD_BYTES
 * bytes; the rest is read from `fd`, which is not closed. `origin` is the snapshot that a clone is
 * based on, or empty. A new volume has `properties` from the start. EBADMSG: the stream is not that
 * of a volume.
 */
int bh_receive(const char *volume, const char *tag, const char *origin,
    void *begin, uint32_t flags, struct nvlist *properties, int32_t fd);
/*
 * The token to resume an interrupted receive of `volume` with; "" if there is none. Whether
 * `volume` itself is incomplete (so that it cannot be used yet) is returned separately.
 */
int bh_receive_token(const char *volume, char *token, uint64_t token_size,
    uint32_t *is_partial);
/* Removes the state of an interrupted receive: the part of the volume, or all of a new one. */
int bh_receive_abort(const char *volume);

int bh_bookmark_create(const char *bookmark, const char *of);
int bh_bookmark_destroy(const char *bookmark);
int bh_bookmarks(const char *dataset, bh_bookmark_visitor_t *visit, void *arg);

#endif /* BH_SHIM_TRANSFER_H */
