/*
 * Starts the library: tunables, host identity, and the checks that shim, headers and library match.
 */
#include "internal.h"
#include "accounting.h"

#include <sys/arc.h>
#include <sys/arc_impl.h>
#include <sys/dsl_pool.h>
#include <sys/mmp.h>
#include <sys/txg.h>
#include <sys/zfs_impl.h>
#include <zfs_fletcher.h>
#include <sys/vdev_raidz.h>

/* Read by the library under this name; declared in none of the installed headers. */
extern uint32_t hostid;
extern int aes_impl_set(const char *);
extern int gcm_impl_set(const char *);

/*
 * The path of the library's cache file. Pools are found by their labels only: a stale list on one
 * head would name pools that another head owns. An empty path can be neither read nor written.
 */
static char no_cache_file[] = "";

int32_t
bh_engine_start(const struct bh_engine_options *options)
{
	if (options->host_id == 0)
		return (EINVAL);

	spa_config_path = no_cache_file;
	zfs_flags = (int)options->debug_flags;
	zfs_dbgmsg_enable = (int)options->debug_messages;
	bh_library_walks = options->library_walks != 0;
	zfs_abd_scatter_enabled = (int)options->scatter_buffers;
	if (options->arc_bytes_min != 0)
		zfs_arc_min = options->arc_bytes_min;
	if (options->arc_bytes_max != 0)
		zfs_arc_max = options->arc_bytes_max;
	if (options->dirty_bytes_max != 0)
		zfs_dirty_data_max = options->dirty_bytes_max;
	if (options->txg_timeout_s != 0)
		zfs_txg_timeout = options->txg_timeout_s;
	if (options->multihost_interval_ms != 0)
		zfs_multihost_interval = options->multihost_interval_ms;
	if (options->multihost_fail_intervals != 0)
		zfs_multihost_fail_intervals = options->multihost_fail_intervals;

	bh_crash_report_prepare(options->reason_fd);
	kernel_init(SPA_MODE_READ | SPA_MODE_WRITE);
	bh_accounting_prepare();

	/* kernel_init has set the machine's; every head and process needs its own. */
	hostid = options->host_id;
	return (0);
}

int32_t
bh_layout_check(const char *pool)
{
	spa_t *spa;
	int error = spa_open(pool, &spa, FTAG);

	if (error != 0)
		return (error);

	/* Members from the front, the middle and the back of the structure. */
	boolean_t same = strcmp(spa->spa_name, pool) == 0 &&
	    spa_guid(spa) == spa->spa_root_vdev->vdev_guid &&
	    spa_get_dsl(spa) == spa->spa_dsl_pool &&
	    spa_bootfs(spa) == spa->spa_bootfs &&
	    spa_get_failmode(spa) == spa->spa_failmode &&
	    spa_get_hostid(spa) == spa->spa_hostid &&
	    spa_deadman_ziotime(spa) == spa->spa_deadman_ziotime &&
	    spa_get_dsl(spa)->dp_spa == spa &&
	    spa_maxblocksize(spa) <= SPA_MAXBLOCKSIZE;

	/* The dynamic linker could have kept the library's own device driver. */
	vdev_t *leaf = spa->spa_root_vdev;
	while (leaf != NULL && leaf->vdev_children != 0)
		leaf = leaf->vdev_child[0];
	same = same && leaf != NULL && (!leaf->vdev_ops->vdev_op_leaf ||
	    leaf->vdev_ops == &vdev_hole_ops || leaf->vdev_ops == &vdev_missing_ops ||
	    bh_device_is_ours(leaf));

	spa_close(spa, FTAG);
	return (same ? 0 : ENOEXEC);
}

int32_t
bh_checksum_select(const char *algorithm, const char *implementation)
{
	int error;

	if (strcmp(algorithm, "fletcher4") == 0)
		error = fletcher_4_impl_set(implementation);
	else if (strcmp(algorithm, "raidz") == 0)
		error = vdev_raidz_impl_set(implementation);
	else if (strcmp(algorithm, "aes") == 0)
		error = aes_impl_set(implementation);
	else if (strcmp(algorithm, "gcm") == 0)
		error = gcm_impl_set(implementation);
	else
		error = -1;
	if (error != -1)
		return (error == 0 ? 0 : ENOTSUP);

	/* The library asserts that the name is one of these. */
	if (strcmp(algorithm, "sha256") != 0 && strcmp(algorithm, "sha512") != 0 &&
	    strcmp(algorithm, "blake3") != 0)
		return (EINVAL);
	const zfs_impl_t *ops = zfs_impl_get_ops(algorithm);
	return (ops->setname(implementation) == 0 ? 0 : ENOTSUP);
}

void
bh_cache_bytes(uint64_t *used, uint64_t *max)
{
	*used = aggsum_value(&arc_sums.arcstat_size);
	*max = arc_stats.arcstat_c_max.value.ui64;
}
