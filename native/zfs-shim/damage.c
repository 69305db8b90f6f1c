/*
 * Lists the data that a pool has recorded as damaged beyond repair. The library maintains that log in user space, too,
 * but can only read it in the kernel (spa_get_errlog() does nothing here). So the lists on disk and those in memory are
 * walked here, under the library's locks. The format of the log has been stable since the feature head_errlog; a record
 * that does not read as four hexadecimal numbers is left out.
 *
 * With that feature each record has the transaction group in which the block was written, so that a snapshot that
 * was made before it does not share the damage.  A record names the dataset that still has the block, not each
 * snapshot that shares it.  A library that offers the list in user space would replace this file.
 */
#include "internal.h"

#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/zap.h>
#include <sys/zfeature.h>

#include "shim_dataset.h"
#include "shim_dataset.h"
#include "volume_impl.h"

/* A damaged block: objset 0 is the pool's own metadata; birth 0 is unknown. */
typedef struct place {
	uint64_t p_objset;
	uint64_t p_object;
	uint64_t p_level;
	uint64_t p_block;
	uint64_t p_birth;
} place_t;

typedef struct places {
	place_t *ps_found;
	uint32_t ps_count;
	uint32_t ps_max;
} places_t;

static void
add(places_t *places, place_t place)
{
	if (places->ps_count < places->ps_max)
		places->ps_found[places->ps_count++] = place;
}

/* Four hexadecimal numbers with colons between them. */
static boolean_t
read_key(const char *key, uint64_t numbers[4])
{
	for (int i = 0; i < 4; i++) {
		char *end;

		numbers[i] = strtoull(key, &end, 16);
		if (end == key || *end != (i < 3 ? ':' : '\0'))
			return (B_FALSE);
		key = end + 1;
	}
	return (B_TRUE);
}

/* A list of one dataset: the keys are object, level, block and birth. */
static void
add_of_dataset(spa_t *spa, uint64_t dataset, uint64_t list, places_t *places)
{
	zap_attribute_t *entry = zap_attribute_alloc();
	zap_cursor_t cursor;
	uint64_t n[4];

	for (zap_cursor_init(&cursor, spa->spa_meta_objset, list);
	    zap_cursor_retrieve(&cursor, entry) == 0 && places->ps_count < places->ps_max;
	    zap_cursor_advance(&cursor)) {
		if (read_key(entry->za_name, n))
			add(places, (place_t){ dataset, n[0], n[1], n[2], n[3] });
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
}

/*
 * A log on disk.  With the feature head_errlog it has a list for each dataset, without it the
 * keys are dataset, object, level and block.
 */
static void
add_of_log(spa_t *spa, uint64_t log, places_t *places)
{
	boolean_t by_dataset = spa_feature_is_enabled(spa, SPA_FEATURE_HEAD_ERRLOG);
	zap_attribute_t *entry;
	zap_cursor_t cursor;
	uint64_t n[4];

	if (log == 0)
		return;
	entry = zap_attribute_alloc();
	for (zap_cursor_init(&cursor, spa->spa_meta_objset, log);
	    zap_cursor_retrieve(&cursor, entry) == 0 && places->ps_count < places->ps_max;
	    zap_cursor_advance(&cursor)) {
		if (by_dataset)
			add_of_dataset(spa, strtoull(entry->za_name, NULL, 16),
			    entry->za_first_integer, places);
		else if (read_key(entry->za_name, n))
			add(places, (place_t){ n[0], n[1], n[2], n[3], 0 });
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
}

/* The errors since the last transaction group. */
static void
add_of_list(avl_tree_t *list, places_t *places)
{
	for (spa_error_entry_t *e = avl_first(list); e != NULL; e = AVL_NEXT(list, e)) {
		const zbookmark_phys_t *b = &e->se_bookmark;

		add(places, (place_t){ b->zb_objset, b->zb_object, b->zb_level, b->zb_blkid,
		    e->se_zep.zb_birth });
	}
}

/* The extent of a volume's data that the block covers. */
static void
extent_of(dsl_dataset_t *ds, const place_t *place, bh_damage_t *damage)
{
	dmu_object_info_t info;
	objset_t *os;
	uint64_t length;

	if (place->p_object != BH_DATA_OBJECT || (int64_t)place->p_level < 0 ||
	    dmu_objset_from_ds(ds, &os) != 0 || dmu_objset_type(os) != DMU_OST_ZVOL ||
	    dmu_object_info(os, BH_DATA_OBJECT, &info) != 0 ||
	    place->p_level >= info.doi_indirection)
		return;
	length = info.doi_data_block_size;
	for (uint64_t level = 0; level < place->p_level; level++)
		length *= info.doi_metadata_block_size / sizeof (blkptr_t);
	damage->bd_offset = place->p_block * length;
	damage->bd_length = length;
}

static void
tell(dsl_pool_t *dp, const place_t *place, bh_damage_visitor_t *visit, void *arg)
{
	char name[ZFS_MAX_DATASET_NAME_LEN] = "";
	bh_damage_t damage = { .bd_dataset = name, .bd_birth_txg = place->p_birth };
	dsl_dataset_t *ds;

	if (place->p_objset != 0 &&
	    dsl_dataset_hold_obj(dp, place->p_objset, FTAG, &ds) == 0) {
		dsl_dataset_name(ds, name);
		extent_of(ds, place, &damage);
		dsl_dataset_rele(ds, FTAG);
	}
	visit(arg, &damage);
}

int32_t
bh_pool_damage(const char *name, uint32_t max, bh_damage_visitor_t *visit, void *arg)
{
	places_t places = { .ps_max = max };
	dsl_pool_t *dp;
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);

	if (error != 0)
		return (error);
	places.ps_found = umem_zalloc(max * sizeof (place_t), UMEM_NOFAIL);
	dp = spa_get_dsl(spa);
	dsl_pool_config_enter(dp, FTAG);
	mutex_enter(&spa->spa_errlog_lock);
	add_of_log(spa, spa->spa_errlog_scrub, &places);
	if (!spa->spa_scrub_finished)
		add_of_log(spa, spa->spa_errlog_last, &places);
	mutex_enter(&spa->spa_errlist_lock);
	add_of_list(&spa->spa_errlist_scrub, &places);
	add_of_list(&spa->spa_errlist_last, &places);
	mutex_exit(&spa->spa_errlist_lock);
	mutex_exit(&spa->spa_errlog_lock);
	for (uint32_t i = 0; i < places.ps_count; i++)
		tell(dp, &places.ps_found[i], visit, arg);
	dsl_pool_config_exit(dp, FTAG);
	umem_free(places.ps_found, max * sizeof (place_t));
	spa_close(spa, FTAG);
	return (0);
}
