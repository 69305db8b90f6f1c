/*
 * Changes of a file system: several objects in one transaction.
 *
 * Operations that can be refused precede the rest in it: the entries of directories. The remaining ones cannot fail.
 */
#include "files_impl.h"
#include "volume_impl.h"

#include <sys/dsl_dataset.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>

#include <stdlib.h>

/* More steps than any change has. */
#define	BH_STEPS_MAX	24
/* Bytes of a block of receipts: each change rewrites one of them. */
#define	BH_RECEIPTS_BLOCK	4096

/* The resources of a step for the duration of the transaction. */
typedef struct bh_held {
	sa_handle_t *bh_handle;
	dnode_t *bh_dnode;
} bh_held_t;

typedef struct bh_change {
	bh_files_t *bc_files;
	dmu_tx_t *bc_tx;
	const struct bh_step *bc_steps;
	uint32_t bc_count;
	bh_held_t bc_held[BH_STEPS_MAX];
	struct bh_changed bc_made;
	uint64_t bc_made_slots;
} bh_change_t;

static boolean_t
is_directory(const struct bh_step *step)
{
	return ((step->node->mode & S_IFMT) == S_IFDIR);
}

static int
hold_handle(bh_change_t *change, uint32_t index)
{
	bh_files_t *files = change->bc_files;
	dmu_buf_t *bonus;

	int error = bh_files_bonus(files, change->bc_steps[index].object,
	    &bonus);
	if (error != 0)
		return (error);
	error = bh_files_handle(files, bonus, &change->bc_held[index].bh_handle);
	dmu_buf_rele(bonus, files);
	return (error);
}

/*
 * Attributes may be in a spill block. If that is unreadable, no change may move attributes: inside the transaction the
 * change could not be refused any more. A lookup of an attribute that no current object has loads the spill block, and
 * the handle then holds it.
 */
static int
read_block(bh_change_t *change, uint32_t index)
{
	bh_files_t *files = change->bc_files;
	int bytes;

	rw_enter(&files->bf_attributes, RW_READER);
	int error = sa_size(change->bc_held[index].bh_handle,
	    files->bf_types[ZPL_ZNODE_ACL], &bytes);
	rw_exit(&files->bf_attributes);
	return (error == ENOENT ? 0 : error);
}

static int
hold_attributes(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	boolean_t moves = step->data != NULL ||
	    (step->node->has & (BH_HAS_PROJECT | BH_HAS_EXTENDED)) != 0;
	int error = hold_handle(change, index);

	if (error == 0 && moves)
		error = read_block(change, index);
	if (error == 0 && step->data != NULL)
		error = bh_files_check_text(change->bc_files, held->bh_handle,
		    ZPL_DACL_ACES, step->length);
	if (error == 0)
		dmu_tx_hold_sa(change->bc_tx, held->bh_handle, moves);
	return (error);
}

static int
hold_contents(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	int error = bh_files_hold_contents(change->bc_files, step->object,
	    change, &held->bh_dnode);

	if (error == 0)
		error = bh_files_check_write(change->bc_files, held->bh_dnode, step);
	if (error != 0)
		return (error);
	dmu_tx_hold_write_by_dnode(change->bc_tx, held->bh_dnode, step->value,
	    (int)step->length);
	/* The only block is copied into a larger one. */
	if (step->block_size != 0)
		dmu_tx_hold_write_by_dnode(change->bc_tx, held->bh_dnode, 0,
		    (int)step->block_size);
	return (0);
}

static int
hold_hole(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	int error = bh_files_hold_contents(change->bc_files, step->object,
	    change, &held->bh_dnode);

	if (error != 0)
		return (error);
	uint64_t bytes = bh_files_hole_bytes(held->bh_dnode, step);
	bh_await_tree(held->bh_dnode, step->value, bytes);
	if (bytes != 0)
		dmu_tx_hold_free_by_dnode(change->bc_tx, held->bh_dnode,
		    step->value, bytes);
	return (0);
}

/* The whole object. ZAPs, and the library's internal objects, are never freed. */
static int
hold_object(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	dmu_buf_t *bonus;
	int error = bh_files_bonus(change->bc_files, step->object, &bonus);

	if (error != 0)
		return (error);
	dmu_buf_rele(bonus, change->bc_files);
	error = dnode_hold(change->bc_files->bf_os, step->object, change,
	    &held->bh_dnode);
	if (error != 0)
		return (error);
	bh_await_tree(held->bh_dnode, 0, UINT64_MAX);
	dmu_tx_hold_free_by_dnode(change->bc_tx, held->bh_dnode, 0,
	    DMU_OBJECT_END);
	return (0);
}

/* The list is in a block of its own if it does not fit next to the remaining attributes. */
static int
hold_list(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	int error = hold_handle(change, index);

	if (error == 0)
		error = read_block(change, index);
	if (error == 0)
		error = bh_files_check_text(change->bc_files, held->bh_handle,
		    ZPL_DXATTR, step->length);
	if (error == 0) {
		dmu_tx_hold_sa_create(change->bc_tx, (int)step->length);
		dmu_tx_hold_sa(change->bc_tx, held->bh_handle, B_TRUE);
	}
	return (error);
}

static int
hold_clone(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_held_t *held = &change->bc_held[index];
	int error = bh_files_check_clone(change->bc_files, step);

	if (error == 0)
		error = bh_files_hold_contents(change->bc_files, step->object,
		    change, &held->bh_dnode);
	if (error != 0)
		return (error);
	bh_hold_clone(change->bc_tx, held->bh_dnode, step->value,
	    step->node->size, MAX(step->block_size, held->bh_dnode->dn_datablksz));
	/* The only block is copied into a larger one. */
	if (step->block_size != 0)
		dmu_tx_hold_write_by_dnode(change->bc_tx, held->bh_dnode, 0,
		    (int)step->block_size);
	return (0);
}

static int
hold_name(bh_change_t *change, const struct bh_step *step)
{
	int error = bh_files_check_name(change->bc_files, step);

	if (error == 0)
		dmu_tx_hold_zap(change->bc_tx, step->object,
		    step->kind == BH_STEP_ENTER, step->name);
	return (error);
}

static int
hold_unlinked(bh_change_t *change, const struct bh_step *step)
{
	int error = bh_files_check_unlinked(change->bc_files, step);

	if (error == 0)
		dmu_tx_hold_zap(change->bc_tx, change->bc_files->bf_unlinked,
		    step->kind == BH_STEP_UNLINK, NULL);
	return (error);
}

/* Declares the changes of a step to the transaction. */
static int
hold(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	dmu_tx_t *tx = change->bc_tx;
	int error;

	switch (step->kind) {
	case BH_STEP_MAKE:
		error = bh_files_check_new(change->bc_files, step);
		if (error != 0)
			return (error);
		dmu_tx_hold_sa_create(tx, ZFS_SA_BASE_ATTR_SIZE +
		    (int)step->length +
		    (step->name == NULL ? 0 : (int)strlen(step->name)));
		if (is_directory(step))
			dmu_tx_hold_zap(tx, DMU_NEW_OBJECT, B_FALSE, NULL);
		return (0);
	case BH_STEP_SET:
		return (hold_attributes(change, index));
	case BH_STEP_ENTER:
	case BH_STEP_LEAVE:
		return (hold_name(change, step));
	case BH_STEP_UNLINK:
	case BH_STEP_FORGET:
		return (hold_unlinked(change, step));
	case BH_STEP_FREE:
		return (hold_object(change, index));
	case BH_STEP_WRITE:
		return (hold_contents(change, index));
	case BH_STEP_HOLE:
		return (hold_hole(change, index));
	case BH_STEP_EXTEND:
		return (hold_list(change, index));
	case BH_STEP_CLONE:
		return (hold_clone(change, index));
	case BH_STEP_LOG:
		return (0);
	default:
		return (EINVAL);
	}
}

/* The attribute layer's callback for a list of variable length. */
static void
locate_list(void **data, uint32_t *length, uint32_t total, boolean_t start,
    void *arg)
{
	const struct bh_step *step = arg;

	(void) total, (void) start;
	*data = (void *)(uintptr_t)step->data;
	*length = (uint32_t)step->length;
}

/* Attributes in the attribute layer's bulk form. */
static int
gather(bh_files_t *files, struct bh_node *node, const struct bh_step *step,
    uint64_t *entries, boolean_t with_list, sa_bulk_attr_t *bulk)
{
	const sa_attr_type_t *types = files->bf_types;
	int count = 0;

	for (size_t i = 0; i < BH_NODE_ATTRIBUTES; i++) {
		const bh_attribute_t *one = &bh_node_attributes[i];
		if (node->has & one->ba_has)
			SA_ADD_BULK_ATTR(bulk, count, types[one->ba_attribute], NULL,
			    bh_attribute_in(node, one), one->ba_bytes);
	}
	if (with_list) {
		*entries = step->value;
		SA_ADD_BULK_ATTR(bulk, count, types[ZPL_DACL_COUNT], NULL, entries, 8);
		SA_ADD_BULK_ATTR(bulk, count, types[ZPL_DACL_ACES], locate_list,
		    (void *)(uintptr_t)step, (uint16_t)step->length);
	}
	return (count);
}

static uint64_t
make_object(objset_t *os, const struct bh_step *step, int size, dmu_tx_t *tx)
{
	int bonus = DN_BONUS_SIZE(size);

	if (is_directory(step))
		return (zap_create_norm_dnsize(os, 0, DMU_OT_DIRECTORY_CONTENTS,
		    DMU_OT_SA, bonus, size, tx));
	return (dmu_object_alloc_dnsize(os, DMU_OT_PLAIN_FILE_CONTENTS,
	    (int)step->block_size, DMU_OT_SA, bonus, size, tx));
}

static int
claim_object(objset_t *os, const struct bh_step *step, int size, dmu_tx_t *tx)
{
	int bonus = DN_BONUS_SIZE(size);

	if (is_directory(step))
		return (zap_create_claim_norm_dnsize(os, step->object, 0,
		    DMU_OT_DIRECTORY_CONTENTS, DMU_OT_SA, bonus, size, tx));
	return (dmu_object_claim_dnsize(os, step->object,
	    DMU_OT_PLAIN_FILE_CONTENTS, (int)step->block_size, DMU_OT_SA, bonus,
	    size, tx));
}

static int
make(bh_change_t *change, const struct bh_step *step)
{
	bh_files_t *files = change->bc_files;
	objset_t *os = files->bf_os;
	struct bh_node node = *step->node;
	sa_bulk_attr_t bulk[ZPL_END];
	sa_handle_t *handle;
	uint64_t entries;

	int size = (int)dmu_objset_dnodesize(os);
	if (step->object != 0)
		size = (int)(node.slots << DNODE_SHIFT);
	if (size < DNODE_MIN_SIZE || size > DNODE_MAX_SIZE)
		size = DNODE_MIN_SIZE;
	if (step->object == 0) {
		change->bc_made.object = make_object(os, step, size, change->bc_tx);
	} else {
		int error = claim_object(os, step, size, change->bc_tx);
		if (error != 0)
			return (error);
		change->bc_made.object = step->object;
	}
	change->bc_made_slots = (uint64_t)size >> DNODE_SHIFT;
	if (node.generation == 0)
		node.generation = change->bc_made.group;

	rw_enter(&files->bf_attributes, RW_WRITER);
	VERIFY0(sa_handle_get(os, change->bc_made.object, NULL, SA_HDL_PRIVATE,
	    &handle));
	int count = gather(files, &node, step, &entries, B_TRUE, bulk);
	VERIFY0(sa_replace_all_by_template(handle, bulk, count, change->bc_tx));
	if (step->name != NULL)
		VERIFY0(sa_update(handle, files->bf_types[ZPL_SYMLINK],
		    (void *)(uintptr_t)step->name, (uint32_t)strlen(step->name),
		    change->bc_tx));
	sa_handle_destroy(handle);
	rw_exit(&files->bf_attributes);
	return (0);
}

/* An attribute of variable length that is copied as it is. */
static void
gather_text(bh_files_t *files, sa_handle_t *handle, zpl_attr_t which, void **text,
    sa_bulk_attr_t *bulk, int *count)
{
	int bytes = 0;

	if (sa_size(handle, files->bf_types[which], &bytes) != 0 || bytes == 0)
		return;
	*text = malloc((size_t)bytes);
	VERIFY3P(*text, !=, NULL);
	VERIFY0(sa_lookup(handle, files->bf_types[which], *text, (uint32_t)bytes));
	SA_ADD_BULK_ATTR(bulk, (*count), files->bf_types[which], NULL, *text,
	    (uint16_t)bytes);
}

/*
 * Assigns a project to an object that was created without one. The project accounting reads its number at a fixed
 * offset, without the layout. So all attributes are rewritten, in the order that assigns that offset.
 */
static void
add_project(bh_files_t *files, sa_handle_t *handle, struct bh_node *set,
    const struct bh_step *step, dmu_tx_t *tx)
{
	static const zpl_attr_t texts[] = {
		ZPL_DACL_ACES, ZPL_DXATTR, ZPL_SCANSTAMP,
	};
	void *copies[sizeof (texts) / sizeof (texts[0])] = { 0 };
	sa_bulk_attr_t bulk[ZPL_END];
	struct bh_node whole = { 0 };
	uint64_t entries = 0;

	VERIFY0(bh_files_attributes(files, handle, &whole));
	for (size_t i = 0; i < BH_NODE_ATTRIBUTES; i++) {
		const bh_attribute_t *one = &bh_node_attributes[i];
		if (set->has & one->ba_has)
			memcpy(bh_attribute_in(&whole, one),
			    bh_attribute_in(set, one), one->ba_bytes);
	}
	whole.has |= set->has;
	int count = gather(files, &whole, step, &entries, step->data != NULL, bulk);
	if (step->data == NULL && sa_lookup(handle,
	    files->bf_types[ZPL_DACL_COUNT], &entries, 8) == 0)
		SA_ADD_BULK_ATTR(bulk, count, files->bf_types[ZPL_DACL_COUNT], NULL,
		    &entries, 8);
	for (size_t i = 0; i < sizeof (texts) / sizeof (texts[0]); i++)
		if (texts[i] != ZPL_DACL_ACES || step->data == NULL)
			gather_text(files, handle, texts[i], &copies[i], bulk, &count);
	VERIFY0(sa_replace_all_by_template(handle, bulk, count, tx));
	for (size_t i = 0; i < sizeof (texts) / sizeof (texts[0]); i++)
		free(copies[i]);
}

static void
set(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_files_t *files = change->bc_files;
	sa_handle_t *handle = change->bc_held[index].bh_handle;
	struct bh_node node = *step->node;
	sa_bulk_attr_t bulk[ZPL_END];
	uint64_t entries, project;

	rw_enter(&files->bf_attributes, RW_WRITER);
	if ((node.has & BH_HAS_PROJECT) != 0 && sa_lookup(handle,
	    files->bf_types[ZPL_PROJID], &project, 8) == ENOENT) {
		add_project(files, handle, &node, step, change->bc_tx);
	} else {
		int count = gather(files, &node, step, &entries,
		    step->data != NULL, bulk);
		VERIFY0(sa_bulk_update(handle, bulk, count, change->bc_tx));
	}
	rw_exit(&files->bf_attributes);
}

static int
enter(bh_change_t *change, const struct bh_step *step)
{
	objset_t *os = change->bc_files->bf_os;
	uint64_t value = step->value;

	if (step->flags & BH_STEP_OF_NEW)
		value |= change->bc_made.object;
	if (step->flags & BH_STEP_REPLACES)
		return (zap_update(os, step->object, step->name, 8, 1, &value,
		    change->bc_tx));
	return (zap_add(os, step->object, step->name, 8, 1, &value,
	    change->bc_tx));
}

static void
grow_block(bh_change_t *change, const struct bh_step *step)
{
	bh_files_t *files = change->bc_files;

	if (step->block_size == 0)
		return;
	rw_enter(&files->bf_attributes, RW_WRITER);
	int error = dmu_object_set_blocksize(files->bf_os, step->object,
	    step->block_size, 0, change->bc_tx);
	rw_exit(&files->bf_attributes);
	/* A file with more than one block retains its block size. */
	VERIFY(error == 0 || error == ENOTSUP);
}

static void
extend(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_files_t *files = change->bc_files;

	rw_enter(&files->bf_attributes, RW_WRITER);
	VERIFY0(sa_update(change->bc_held[index].bh_handle,
	    files->bf_types[ZPL_DXATTR], (void *)(uintptr_t)step->data,
	    (uint32_t)step->length, change->bc_tx));
	rw_exit(&files->bf_attributes);
}

/* The last check that can fail: only a replay clones, and then its change has no other step. */
static int
clone_blocks(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];

	grow_block(change, step);
	if (!bh_files_has_blocks(change->bc_held[index].bh_dnode, step->value,
	    step->node->size, step->length / sizeof (blkptr_t)))
		return (EXDEV);
	return (dmu_brt_clone(change->bc_files->bf_os, step->object, step->value,
	    step->node->size, change->bc_tx, (const blkptr_t *)step->data,
	    step->length / sizeof (blkptr_t)));
}

static void
free_hole(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	uint64_t bytes = bh_files_hole_bytes(change->bc_held[index].bh_dnode,
	    step);

	if (bytes != 0)
		VERIFY0(dmu_free_range(change->bc_files->bf_os, step->object,
		    step->value, bytes, change->bc_tx));
}

static void
write_contents(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];

	grow_block(change, step);
	VERIFY0(dmu_write_by_dnode(change->bc_held[index].bh_dnode, step->value,
	    step->length, step->data, change->bc_tx));
}

/* The checks that can refuse a change. */
static int
perform_first(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];

	switch (step->kind) {
	case BH_STEP_MAKE:
		return (make(change, step));
	case BH_STEP_ENTER:
		return (enter(change, step));
	case BH_STEP_CLONE:
		return (clone_blocks(change, index));
	default:
		return (0);
	}
}

static void
perform(bh_change_t *change, uint32_t index)
{
	const struct bh_step *step = &change->bc_steps[index];
	bh_files_t *files = change->bc_files;
	objset_t *os = files->bf_os;
	dmu_tx_t *tx = change->bc_tx;

	switch (step->kind) {
	case BH_STEP_SET:
		set(change, index);
		break;
	case BH_STEP_LEAVE:
		VERIFY0(zap_remove(os, step->object, step->name, tx));
		break;
	case BH_STEP_UNLINK:
		VERIFY0(zap_add_int(os, files->bf_unlinked, step->object, tx));
		break;
	case BH_STEP_FORGET:
		VERIFY0(zap_remove_int(os, files->bf_unlinked, step->object, tx));
		break;
	case BH_STEP_FREE:
		VERIFY0(dmu_object_free(os, step->object, tx));
		break;
	case BH_STEP_WRITE:
		write_contents(change, index);
		break;
	case BH_STEP_HOLE:
		free_hole(change, index);
		break;
	case BH_STEP_EXTEND:
		extend(change, index);
		break;
	case BH_STEP_LOG:
		bh_files_log_step(files, step, &change->bc_made,
		    change->bc_made_slots, tx);
		break;
	default:
		break;
	}
}

static void
release_change(bh_change_t *change)
{
	for (uint32_t i = 0; i < change->bc_count; i++) {
		if (change->bc_held[i].bh_handle != NULL)
			sa_handle_destroy(change->bc_held[i].bh_handle);
		if (change->bc_held[i].bh_dnode != NULL)
			dnode_rele(change->bc_held[i].bh_dnode, change);
	}
}

/* Applies the steps in an entered transaction. */
static int
perform_all(bh_change_t *change)
{
	int error = 0;

	for (uint32_t i = 0; i < change->bc_count && error == 0; i++)
		error = perform_first(change, i);
	if (error != 0) {
		/* Only the created object must be removed: names are added after it, one per change. */
		if (change->bc_made.object != 0)
			VERIFY0(dmu_object_free(change->bc_files->bf_os,
			    change->bc_made.object, change->bc_tx));
		return (error);
	}
	for (uint32_t i = 0; i < change->bc_count; i++)
		perform(change, i);
	return (0);
}

/* Enters a transaction for all steps. After a failure no hold remains. */
static int
begin(bh_change_t *change, boolean_t is_free)
{
	int error = 0;

	change->bc_tx = dmu_tx_create(change->bc_files->bf_os);
	if (is_free)
		dmu_tx_mark_netfree(change->bc_tx);
	for (uint32_t i = 0; i < change->bc_count && error == 0; i++)
		error = hold(change, i);
	if (error == 0)
		error = dmu_tx_assign(change->bc_tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(change->bc_tx);
		release_change(change);
	}
	return (error);
}

int
bh_files_change(bh_files_t *files, const struct bh_step *steps, uint32_t count,
    uint32_t flags, struct bh_changed *out)
{
	bh_change_t change = { .bc_files = files, .bc_steps = steps,
	    .bc_count = count };

	if (bh_files_refuses_changes(files))
		return (EROFS);
	if (count == 0 || count > BH_STEPS_MAX)
		return (EINVAL);
	bh_files_log_open(files);
	int error = begin(&change, (flags & BH_CHANGE_FREES) != 0);
	/* Replayed changes were acknowledged, so they are written even if the pool has filled up since. */
	boolean_t kept_back = bh_is_refused_for_space(error) && files->bf_replays;
	if (kept_back) {
		bh_kept_back_enter(dmu_objset_pool(files->bf_os));
		memset(change.bc_held, 0, sizeof (change.bc_held));
		error = begin(&change, B_TRUE);
	}
	if (error == 0) {
		change.bc_made.group = dmu_tx_get_txg(change.bc_tx);
		error = perform_all(&change);
		release_change(&change);
		dmu_tx_commit(change.bc_tx);
		*out = change.bc_made;
	}
	if (kept_back)
		bh_kept_back_leave();
	if (error == 0 && files->bf_os->os_sync == ZFS_SYNC_ALWAYS)
		error = bh_files_commit(files);
	return (error);
}

int
bh_files_make_receipts(bh_files_t *files, uint64_t *object)
{
	objset_t *os = files->bf_os;

	if (bh_files_refuses_changes(files))
		return (EROFS);
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_bonus(tx, DMU_NEW_OBJECT);
	dmu_tx_hold_zap(tx, MASTER_NODE_OBJ, B_TRUE, BH_RECEIPTS);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	uint64_t made = dmu_object_alloc(os, DMU_OTN_UINT8_METADATA,
	    BH_RECEIPTS_BLOCK, DMU_OT_NONE, 0, tx);
	error = zap_add(os, MASTER_NODE_OBJ, BH_RECEIPTS, 8, 1, &made, tx);
	if (error != 0)
		VERIFY0(dmu_object_free(os, made, tx));
	dmu_tx_commit(tx);
	if (error != 0)
		return (error);
	bh_wait_until_written(dmu_objset_pool(os));
	*object = made;
	return (0);
}

int
bh_files_free(bh_files_t *files, uint64_t object, uint64_t offset,
    uint64_t length)
{
	dnode_t *dnode;

	if (bh_files_refuses_changes(files))
		return (EROFS);
	int error = bh_files_hold_contents(files, object, FTAG, &dnode);
	if (error != 0)
		return (error);
	if (length == 0 || length > UINT64_MAX - offset)
		length = DMU_OBJECT_END;
	bh_await_tree(dnode, offset, length);
	error = dmu_free_long_range(files->bf_os, object, offset, length);
	dnode_rele(dnode, FTAG);
	return (error);
}
