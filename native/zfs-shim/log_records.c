/*
 * Checks records of intent logs when they are read from the disks, where another system may have written them.
 *
 * The library checks that a record fits into its block. But it assumes that a record is long enough for its fields, and
 * that sequence numbers increase, and otherwise aborts the process: at each import, which is the first reader of logs.
 * Here such a log is treated as unreadable.
 */
#include "internal.h"

#include <sys/zil_impl.h>

/* One walk along a log: the caller's arguments to the library. */
typedef struct walk {
	zil_parse_blk_func_t *w_block;
	zil_parse_lr_func_t *w_record;
	void *w_arg;
	uint64_t w_last;
	/* Encrypted records are in plain text except for their payload. */
	boolean_t w_is_plain;
} walk_t;

static boolean_t
is_whole_write(const lr_write_t *record, boolean_t is_plain)
{
	uint64_t length = record->lr_common.lrc_reclen;

	if (length != sizeof (*record))
		return (length > sizeof (*record));
	/* The library appends the block, or zeros, to a record without bytes, and has room for two of the largest blocks. */
	return (BP_GET_LSIZE(&record->lr_blkptr) <= SPA_MAXBLOCKSIZE &&
	    (!is_plain || record->lr_length <= SPA_MAXBLOCKSIZE));
}

static boolean_t
is_whole_clone(const lr_clone_range_t *record)
{
	uint64_t length = record->lr_common.lrc_reclen;

	return (length >= sizeof (*record) && record->lr_nbps <=
	    (length - sizeof (*record)) / sizeof (blkptr_t));
}

static boolean_t
is_whole(const lr_t *record, boolean_t is_plain)
{
	uint64_t type = record->lrc_txtype & ~TX_CI;

	if (type == TX_WRITE)
		return (is_whole_write((const lr_write_t *)record, is_plain));
	if (type == TX_CLONE_RANGE)
		return (is_whole_clone((const lr_clone_range_t *)record));
	return (!TX_OOO(type) || record->lrc_reclen >= sizeof (lr_ooo_t));
}

static int
visit_block(zilog_t *log, const blkptr_t *block, void *arg, uint64_t group)
{
	walk_t *walk = arg;

	return (walk->w_block(log, block, walk->w_arg, group));
}

static int
visit_record(zilog_t *log, const lr_t *record, void *arg, uint64_t group)
{
	walk_t *walk = arg;

	if (record->lrc_seq <= walk->w_last || !is_whole(record, walk->w_is_plain))
		return (EINVAL);
	walk->w_last = record->lrc_seq;
	return (walk->w_record(log, record, walk->w_arg, group));
}

/* Interposes the library's function. */
int
zil_parse(zilog_t *log, zil_parse_blk_func_t *block, zil_parse_lr_func_t *record,
    void *arg, uint64_t group, boolean_t decrypt)
{
	typeof (zil_parse) *library = bh_library_function(__func__);
	walk_t walk = { .w_block = block, .w_record = record, .w_arg = arg,
	    .w_is_plain = decrypt || !log->zl_os->os_encrypted };

	return (library(log, visit_block, visit_record, &walk, group, decrypt));
}
