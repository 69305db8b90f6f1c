/*
 * Writes a block without an attempt to compress it, if a sample of it does not shrink.
 *
 * The library compresses every block with LZ4 before it knows whether that saves an eighth, which is the least for
 * which it stores the result. Videos, archives and encrypted data never do. The attempt was a tenth of the CPU of
 * writes of such data, and the buffer of its result as much again where memory is short. (ZSTD has such a check in the
 * library.)
 *
 * A block on disk is the same as after a failed attempt. A sample misses repetitions that are longer than a piece, and
 * parts between the pieces: such a block needs more space than it could.
 */
#include "internal.h"

#include <sys/abd.h>
#include <sys/arc.h>
#include <sys/zio.h>
#include <sys/zio_compress.h>

#include <stdlib.h>

/* A smaller block costs about as much as its sample. */
#define	BH_SAMPLED_BYTES_MIN	(64 << 10)
#define	BH_PIECES		4
#define	BH_PIECE_BYTES		2048
#define	BH_SAMPLE_BYTES		(BH_PIECES * BH_PIECE_BYTES)
/* A sample that shrinks by less than this share does not promise an eighth of the block. */
#define	BH_SHRINKS_BY		32

/* Pieces at equal distances, the first one at the start of the block. */
static void
take_sample(uint8_t *sample, const uint8_t *data, uint64_t bytes)
{
	uint64_t distance = bytes / BH_PIECES;

	for (uint64_t i = 0; i < BH_PIECES; i++)
		memcpy(sample + i * BH_PIECE_BYTES, data + i * distance,
		    BH_PIECE_BYTES);
}

static boolean_t
is_incompressible(const uint8_t *data, uint64_t bytes)
{
	if (bytes < BH_SAMPLED_BYTES_MIN)
		return (B_FALSE);
	uint8_t *sample = malloc(2 * BH_SAMPLE_BYTES);
	if (sample == NULL)
		return (B_FALSE);
	take_sample(sample, data, bytes);
	abd_t *from = abd_get_from_buf(sample, BH_SAMPLE_BYTES);
	abd_t *to = abd_get_from_buf(sample + BH_SAMPLE_BYTES, BH_SAMPLE_BYTES);
	size_t shrunk = zfs_lz4_compress(from, to, BH_SAMPLE_BYTES,
	    BH_SAMPLE_BYTES - BH_SAMPLE_BYTES / BH_SHRINKS_BY, 0);
	abd_free(to);
	abd_free(from);
	free(sample);
	return (shrunk >= BH_SAMPLE_BYTES);
}

/* A block that replaces an equal one is recognised only if both are compressed in the same way. */
static boolean_t
is_sampled(arc_buf_t *buf, const zio_prop_t *zp)
{
	return (zp->zp_compress == ZIO_COMPRESS_LZ4 && zp->zp_level == 0 &&
	    !zp->zp_dedup && !zp->zp_nopwrite && !arc_is_encrypted(buf) &&
	    arc_get_compression(buf) == ZIO_COMPRESS_OFF);
}

/* Interposes the library's function, by which all contents are written. */
zio_t *
arc_write(zio_t *pio, spa_t *spa, uint64_t txg, blkptr_t *bp, arc_buf_t *buf,
    boolean_t uncached, boolean_t l2arc, const zio_prop_t *zp,
    arc_write_done_func_t *ready, arc_write_done_func_t *child_ready,
    arc_write_done_func_t *done, void *priv, zio_priority_t priority,
    int zio_flags, const zbookmark_phys_t *zb)
{
	static __typeof__ (arc_write) *library;
	zio_prop_t uncompressed;

	__typeof__ (arc_write) *next = __atomic_load_n(&library, __ATOMIC_RELAXED);
	if (next == NULL) {
		next = bh_library_function(__func__);
		__atomic_store_n(&library, next, __ATOMIC_RELAXED);
	}
	if (is_sampled(buf, zp) && is_incompressible(buf->b_data, arc_buf_lsize(buf))) {
		uncompressed = *zp;
		uncompressed.zp_compress = ZIO_COMPRESS_OFF;
		zp = &uncompressed;
	}
	return (next(pio, spa, txg, bp, buf, uncached, l2arc, zp, ready,
	    child_ready, done, priv, priority, zio_flags, zb));
}
