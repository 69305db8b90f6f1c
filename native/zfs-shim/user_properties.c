/*
 * Text properties of all datasets of a pool, read in a few round trips to its devices.
 *
 * A server reads them at its start, those of a thousand volumes before it can serve the first
 * client. Each dataset has its own ZAP of them, nearly always with all entries in its second block.
 * That block is read with the caches bypassed and parsed in place; the library reads any other ZAP.
 */
#include "directory.h"

#include <sys/dmu.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/zap.h>
#include <sys/zap_impl.h>
#include <sys/zap_leaf.h>

#include "shim_dataset.h"

/* The suffix under which ZFS stores that a received value is overridden. */
#define	BH_INHERIT_SUFFIX	"$inherit"
/* Which block of a ZAP holds the entries, if there are only two. */
#define	BH_LEAF_BLOCK		1

typedef struct property_walk {
	objset_t *pw_mos;
	bh_dnodes_t pw_dnodes;
	const char *pw_prefix;
	bh_property_visitor_t *pw_visit;
	void *pw_arg;
	zap_attribute_t *pw_entry;
	char pw_name[ZAP_MAXNAMELEN];
	char pw_value[ZAP_MAXVALUELEN];
} property_walk_t;

/* A dataset with requested properties. */
typedef struct child {
	uint64_t c_object;
	uint64_t c_properties;
	uint64_t c_children;
	char c_name[ZFS_MAX_DATASET_NAME_LEN];
} child_t;

/*
 * The mark of an overridden received value is stored as a number, with this suffix; all other
 * numbers are properties of ZFS itself.
 */
static boolean_t
switches_off(const char *name)
{
	const char *suffix = strrchr(name, '$');

	return (suffix != NULL && strcmp(suffix, BH_INHERIT_SUFFIX) == 0);
}

static boolean_t
is_wanted(const property_walk_t *walk, const char *name, uint64_t integer_bytes)
{
	return (strncmp(name, walk->pw_prefix, strlen(walk->pw_prefix)) == 0 &&
	    (integer_bytes == 1 || switches_off(name)));
}

/* Visits a ZAP by the library's functions, in any format. */
static int
visit_properties(property_walk_t *walk, uint64_t object, const char *dataset)
{
	zap_attribute_t *entry = walk->pw_entry;
	zap_cursor_t cursor;
	int error;

	for (zap_cursor_init(&cursor, walk->pw_mos, object);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		if (!is_wanted(walk, entry->za_name, entry->za_integer_length))
			continue;
		walk->pw_value[0] = '\0';
		if (entry->za_integer_length == 1)
			error = zap_lookup(walk->pw_mos, object, entry->za_name,
			    1, sizeof (walk->pw_value), walk->pw_value);
		if (error != 0)
			break;
		walk->pw_visit(walk->pw_arg, dataset, entry->za_name,
		    walk->pw_value);
	}
	zap_cursor_fini(&cursor);
	return (error == ENOENT ? 0 : error);
}

/* A block of entries, in the form for the library's macros. */
typedef struct leaf {
	dmu_buf_t l_buffer;
	zap_leaf_t l_leaf;
} leaf_t;

static void
leaf_init(leaf_t *leaf, const void *data, uint64_t bytes)
{
	*leaf = (leaf_t){ .l_buffer.db_data = (void *)(uintptr_t)data };
	leaf->l_leaf.l_dbuf = &leaf->l_buffer;
	leaf->l_leaf.l_bs = highbit64(bytes) - 1;
}

/* Copies the contents of a chain of chunks. FALSE if it is not text of that length. */
static boolean_t
copy_text(leaf_t *leaf, uint16_t chunk, uint64_t bytes, char *out,
    uint64_t out_bytes)
{
	uint64_t copied = 0;

	if (bytes == 0 || bytes > out_bytes)
		return (B_FALSE);
	while (copied < bytes) {
		if (chunk >= ZAP_LEAF_NUMCHUNKS(&leaf->l_leaf))
			return (B_FALSE);
		const struct zap_leaf_array *array =
		    &ZAP_LEAF_CHUNK(&leaf->l_leaf, chunk).l_array;
		if (array->la_type != ZAP_CHUNK_ARRAY)
			return (B_FALSE);
		uint64_t piece = MIN(bytes - copied, ZAP_LEAF_ARRAY_BYTES);
		memcpy(out + copied, array->la_array, piece);
		copied += piece;
		chunk = array->la_next;
	}
	return (out[bytes - 1] == '\0' && strlen(out) == bytes - 1);
}

/* Visits the requested entries of a leaf, or, without a `dataset`, only verifies the whole. */
static boolean_t
visit_leaf(property_walk_t *walk, leaf_t *leaf, const char *dataset)
{
	uint64_t entries = 0;

	for (uint64_t i = 0; i < ZAP_LEAF_NUMCHUNKS(&leaf->l_leaf); i++) {
		const struct zap_leaf_entry *entry =
		    ZAP_LEAF_ENTRY(&leaf->l_leaf, i);
		if (entry->le_type != ZAP_CHUNK_ENTRY)
			continue;
		entries++;
		if (!copy_text(leaf, entry->le_name_chunk,
		    entry->le_name_numints, walk->pw_name,
		    sizeof (walk->pw_name)))
			return (B_FALSE);
		if (!is_wanted(walk, walk->pw_name, entry->le_value_intlen))
			continue;
		walk->pw_value[0] = '\0';
		if (entry->le_value_intlen == 1 && !copy_text(leaf,
		    entry->le_value_chunk, entry->le_value_numints,
		    walk->pw_value, sizeof (walk->pw_value)))
			return (B_FALSE);
		if (dataset != NULL)
			walk->pw_visit(walk->pw_arg, dataset, walk->pw_name,
			    walk->pw_value);
	}
	return (entries == zap_leaf_phys(&leaf->l_leaf)->l_hdr.lh_nentries);
}

static boolean_t
is_leaf(leaf_t *leaf)
{
	const struct zap_leaf_header *header =
	    &zap_leaf_phys(&leaf->l_leaf)->l_hdr;

	return (header->lh_block_type == ZBT_LEAF &&
	    header->lh_magic == ZAP_LEAF_MAGIC && header->lh_prefix_len == 0);
}

/* Lists the children of one dataset. */
static int
list_children(property_walk_t *walk, uint64_t zap, const char *parent,
    child_t **out, uint64_t *out_count)
{
	zap_attribute_t *entry = walk->pw_entry;
	uint64_t capacity = 0, count = 0;
	child_t *children = NULL;
	zap_cursor_t cursor;
	int error;

	for (zap_cursor_init(&cursor, walk->pw_mos, zap);
	    (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor)) {
		/* The pool's own: $MOS, $FREE, $ORIGIN. */
		if (entry->za_name[0] == '$')
			continue;
		if (count == capacity) {
			capacity = MAX(16, capacity * 2);
			child_t *more = realloc(children,
			    capacity * sizeof (*children));
			if (more == NULL) {
				error = ENOMEM;
				break;
			}
			children = more;
		}
		child_t *child = &children[count++];
		child->c_object = entry->za_first_integer;
		(void) snprintf(child->c_name, sizeof (child->c_name), "%s/%s",
		    parent, entry->za_name);
	}
	zap_cursor_fini(&cursor);
	*out = children;
	*out_count = count;
	return (error == ENOENT ? 0 : error);
}

/* The ZAPs of a level that are read with the caches bypassed. */
typedef struct level {
	property_walk_t *lv_walk;
	const child_t *lv_children;
	bh_block_t *lv_blocks;
	/* Which child each block is of. */
	uint64_t *lv_owners;
	uint64_t lv_count;
	int lv_error;
} level_t;

/* Adds the leaf of a child's ZAP, or visits the ZAP at once if it has another format. */
static int
add_list(level_t *level, uint64_t index)
{
	property_walk_t *walk = level->lv_walk;
	const child_t *child = &level->lv_children[index];
	dnode_phys_t dnode;
	int error = bh_dnode_read(&walk->pw_dnodes, child->c_properties,
	    &dnode);

	if (error != 0)
		return (error);
	/* A ZAP in a single block has only numbers. */
	if (dnode.dn_maxblkid == 0 && dnode.dn_nlevels == 1)
		return (0);
	const blkptr_t *pointer = &dnode.dn_blkptr[BH_LEAF_BLOCK];
	if (dnode.dn_nlevels != 1 || dnode.dn_maxblkid != BH_LEAF_BLOCK ||
	    dnode.dn_nblkptr <= BH_LEAF_BLOCK || !bh_block_is_plain(pointer) ||
	    !ISP2(BP_GET_LSIZE(pointer)))
		return (visit_properties(walk, child->c_properties,
		    child->c_name));
	bh_block_t *block = &level->lv_blocks[level->lv_count];
	block->b_pointer = *pointer;
	SET_BOOKMARK(&block->b_bookmark, DMU_META_OBJSET, child->c_properties,
	    0, BH_LEAF_BLOCK);
	level->lv_owners[level->lv_count++] = index;
	return (0);
}

static void
visit_block(void *arg, uint64_t index, const void *data)
{
	level_t *level = arg;
	property_walk_t *walk = level->lv_walk;
	const child_t *child = &level->lv_children[level->lv_owners[index]];
	leaf_t leaf;

	if (level->lv_error != 0)
		return;
	if (data != NULL) {
		leaf_init(&leaf, data,
		    BP_GET_LSIZE(&level->lv_blocks[index].b_pointer));
		if (is_leaf(&leaf) && visit_leaf(walk, &leaf, NULL)) {
			(void) visit_leaf(walk, &leaf, child->c_name);
			return;
		}
	}
	level->lv_error = visit_properties(walk, child->c_properties,
	    child->c_name);
}

/* Visits the ZAPs of a level of the tree. */
static int
visit_level(property_walk_t *walk, const child_t *children, uint64_t count)
{
	level_t level = {
		.lv_walk = walk,
		.lv_children = children,
		.lv_blocks = malloc(MAX(count, 1) * sizeof (bh_block_t)),
		.lv_owners = malloc(MAX(count, 1) * sizeof (uint64_t)),
	};
	int error = level.lv_blocks == NULL || level.lv_owners == NULL ?
	    ENOMEM : 0;

	for (uint64_t i = 0; i < count && error == 0; i++)
		error = add_list(&level, i);
	if (error == 0) {
		bh_blocks_read(dmu_objset_spa(walk->pw_mos), level.lv_blocks,
		    level.lv_count, visit_block, &level);
		error = level.lv_error;
	}
	free(level.lv_blocks);
	free(level.lv_owners);
	return (error);
}

/* One level of the tree after another. */
static int
visit_children(property_walk_t *walk, uint64_t zap, const char *parent,
    int depth)
{
	child_t *children;
	uint64_t count;

	if (depth > BH_DEPTH_MAX)
		return (ELOOP);
	int error = list_children(walk, zap, parent, &children, &count);
	for (uint64_t i = 0; i < count && error == 0; i++) {
		dsl_dir_phys_t directory;
		error = bh_directory_read(&walk->pw_dnodes,
		    children[i].c_object, &directory);
		if (error == 0) {
			children[i].c_properties = directory.dd_props_zapobj;
			children[i].c_children = directory.dd_child_dir_zapobj;
		}
	}
	if (error == 0)
		error = visit_level(walk, children, count);
	for (uint64_t i = 0; i < count && error == 0; i++) {
		if (bh_may_have_children(&walk->pw_dnodes,
		    children[i].c_children))
			error = visit_children(walk, children[i].c_children,
			    children[i].c_name, depth + 1);
	}
	free(children);
	return (error);
}

static property_walk_t *
begin_walk(objset_t *mos, const char *prefix, bh_property_visitor_t *visit,
    void *arg)
{
	property_walk_t *walk = kmem_zalloc(sizeof (*walk), KM_SLEEP);

	walk->pw_mos = mos;
	walk->pw_dnodes.d_mos = mos;
	walk->pw_prefix = prefix;
	walk->pw_visit = visit;
	walk->pw_arg = arg;
	walk->pw_entry = zap_attribute_alloc();
	return (walk);
}

static void
end_walk(property_walk_t *walk)
{
	bh_dnodes_end(&walk->pw_dnodes);
	zap_attribute_free(walk->pw_entry);
	kmem_free(walk, sizeof (*walk));
}

int
bh_user_properties(const char *pool, const char *prefix,
    bh_property_visitor_t *visit, void *arg)
{
	dsl_dir_phys_t root;
	dsl_pool_t *dp;
	int error = dsl_pool_hold(pool, FTAG, &dp);

	if (error != 0)
		return (error);
	property_walk_t *walk = begin_walk(dp->dp_meta_objset, prefix, visit,
	    arg);
	error = bh_directory_read(&walk->pw_dnodes, dp->dp_root_dir_obj, &root);
	if (error == 0)
		error = visit_properties(walk, root.dd_props_zapobj, pool);
	if (error == 0)
		error = visit_children(walk, root.dd_child_dir_zapobj, pool, 0);
	end_walk(walk);
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
bh_own_user_properties(const char *name, const char *prefix,
    bh_property_visitor_t *visit, void *arg)
{
	const char *missing;
	dsl_pool_t *dp;
	dsl_dir_t *dd;
	int error = dsl_pool_hold(name, FTAG, &dp);

	if (error != 0)
		return (error);
	error = dsl_dir_hold(dp, name, FTAG, &dd, &missing);
	if (error == 0) {
		/* The library resolves a missing dataset to its parent. */
		error = missing == NULL ? 0 : ENOENT;
		property_walk_t *walk = begin_walk(dp->dp_meta_objset, prefix,
		    visit, arg);
		if (error == 0)
			error = visit_properties(walk,
			    dsl_dir_phys(dd)->dd_props_zapobj, name);
		end_walk(walk);
		dsl_dir_rele(dd, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}
