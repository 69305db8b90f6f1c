/*
 * Changes of user properties of several datasets in one transaction group: after a crash all or
 * none of them are present, and the caller needs one commit.
 */
#include "internal.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/dsl_synctask.h>
#include <sys/zap.h>

#include <string.h>

#include "shim_dataset.h"

/* The parts of a change of one dataset. */
#define	BH_EDIT_SET	"set"
#define	BH_EDIT_REMOVED	"removed"

typedef struct edits {
	nvlist_t *e_datasets;
	char *e_bad;
	uint64_t e_bad_size;
} edits_t;

static int
check_pair(const nvpair_t *pair)
{
	const char *name = nvpair_name(pair);
	const char *text = "";

	if (zfs_name_to_prop(name) != ZPROP_USERPROP || !zfs_prop_user(name))
		return (EINVAL);
	if (nvpair_type(pair) == DATA_TYPE_STRING)
		text = fnvpair_value_string(pair);
	if (strlen(name) >= ZAP_MAXNAMELEN || strlen(text) >= ZAP_MAXVALUELEN)
		return (ENAMETOOLONG);
	return (0);
}

/* Checks names and values, and counts the blocks that change. */
static int
check_names(const edits_t *edits, int *blocks)
{
	const char *const kinds[] = { BH_EDIT_SET, BH_EDIT_REMOVED };
	nvpair_t *dataset = NULL;

	*blocks = 0;
	while ((dataset = nvlist_next_nvpair(edits->e_datasets, dataset)) !=
	    NULL) {
		nvlist_t *both = fnvpair_value_nvlist(dataset);
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
			nvlist_t *list = fnvlist_lookup_nvlist(both, kinds[i]);
			nvpair_t *pair = NULL;
			while ((pair = nvlist_next_nvpair(list, pair)) != NULL) {
				int error = check_pair(pair);
				if (error == 0)
					continue;
				(void) strlcpy(edits->e_bad, nvpair_name(pair),
				    edits->e_bad_size);
				return (error);
			}
		}
		/* A removal needs no space. */
		*blocks += 2 * fnvlist_num_pairs(fnvlist_lookup_nvlist(both,
		    BH_EDIT_SET));
	}
	return (0);
}

static int
check_edits(void *arg, dmu_tx_t *tx)
{
	const edits_t *edits = arg;
	nvpair_t *dataset = NULL;

	while ((dataset = nvlist_next_nvpair(edits->e_datasets, dataset)) !=
	    NULL) {
		dsl_dataset_t *ds;
		int error = dsl_dataset_hold(dmu_tx_pool(tx),
		    nvpair_name(dataset), FTAG, &ds);
		if (error != 0)
			return (error);
		dsl_dataset_rele(ds, FTAG);
	}
	return (0);
}

static void
sync_edits(void *arg, dmu_tx_t *tx)
{
	const edits_t *edits = arg;
	nvpair_t *dataset = NULL;

	while ((dataset = nvlist_next_nvpair(edits->e_datasets, dataset)) !=
	    NULL) {
		nvlist_t *both = fnvpair_value_nvlist(dataset);
		dsl_dataset_t *ds;
		VERIFY0(dsl_dataset_hold(dmu_tx_pool(tx), nvpair_name(dataset),
		    FTAG, &ds));
		dsl_props_set_sync_impl(ds, ZPROP_SRC_LOCAL,
		    fnvlist_lookup_nvlist(both, BH_EDIT_SET), tx);
		dsl_props_set_sync_impl(ds, ZPROP_SRC_NONE,
		    fnvlist_lookup_nvlist(both, BH_EDIT_REMOVED), tx);
		dsl_dataset_rele(ds, FTAG);
	}
}

int
bh_properties_edit(const char *pool, nvlist_t *datasets, char *bad,
    uint64_t bad_size)
{
	edits_t edits = { datasets, bad, bad_size };
	int blocks;

	bad[0] = '\0';
	int error = check_names(&edits, &blocks);
	if (error != 0)
		return (error);
	return (dsl_sync_task(pool, check_edits, sync_edits, &edits, blocks,
	    ZFS_SPACE_CHECK_RESERVED));
}
