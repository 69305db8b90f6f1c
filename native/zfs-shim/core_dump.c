/*
 * Excludes the heap from core dumps: the cache, data of clients, and everything else that jemalloc allocates. Stacks and
 * global variables remain, which suffices for the stacks of all threads.
 *
 * All memory of jemalloc comes from the hook `alloc` of an arena, and is never returned to another owner. So the hook
 * marks each mapping once. Memory that exists before is found in the list of mappings.
 */
#include <sys/types.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <jemalloc/jemalloc.h>

#include "shim.h"

/* Smallest mapping of jemalloc. A smaller one after a file may hold that file's global variables. */
#define	BH_JEMALLOC_BYTES_MIN	(2UL << 20)
/* Longest line of the list of mappings that matters; the rest of a longer one is a path. */
#define	BH_MAPPING_LINE_MAX	512

static extent_hooks_t hooks;
static extent_alloc_t *usual_alloc;

static void *
alloc_excluded(extent_hooks_t *of, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned arena)
{
	void *memory = usual_alloc(of, at, size, alignment, zero, commit, arena);

	/* Without the mark a dump would hold it: then there is no memory. */
	if (memory != NULL && madvise(memory, size, MADV_DONTDUMP) != 0) {
		(void) munmap(memory, size);
		return (NULL);
	}
	return (memory);
}

/* An arena that is not in use yet is created by this. */
static int
hook_arena(unsigned arena)
{
	extent_hooks_t *usual, *own = &hooks;
	size_t length = sizeof (usual);
	char name[64];
	int error;

	(void) snprintf(name, sizeof (name), "arena.%u.extent_hooks", arena);
	error = mallctl(name, &usual, &length, NULL, 0);
	if (error != 0)
		return (error);
	if (usual == &hooks)
		return (0);
	if (usual_alloc == NULL) {
		hooks = *usual;
		usual_alloc = usual->alloc;
		hooks.alloc = alloc_excluded;
	}
	return (mallctl(name, NULL, NULL, &own, sizeof (own)));
}

/* Anonymous private memory without a name, and the heap of the C library, as listed in proc(5). */
static int
exclude_existing(void)
{
	FILE *mappings = fopen("/proc/self/maps", "re");
	char line[BH_MAPPING_LINE_MAX];
	unsigned long end_of_file = 0;
	int error = 0, is_start = 1;

	if (mappings == NULL)
		return (errno);
	while (fgets(line, sizeof (line), mappings) != NULL) {
		int was_start = is_start, fields;
		unsigned long from, to, inode;
		char rights[5], path[BH_MAPPING_LINE_MAX] = "";

		is_start = strchr(line, '\n') != NULL;
		if (!was_start)
			continue;
		fields = sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %511[^\n]", &from, &to, rights,
		    &inode, path);
		if (fields < 4)
			continue;
		if (inode != 0) {
			end_of_file = to;
			continue;
		}
		if (strncmp(rights, "rw-p", 4) != 0 ||
		    (path[0] != '\0' && strcmp(path, "[heap]") != 0))
			continue;
		if (from == end_of_file && to - from < BH_JEMALLOC_BYTES_MIN)
			continue;
		if (madvise((void *)from, to - from, MADV_DONTDUMP) != 0)
			error = errno;
	}
	(void) fclose(mappings);
	return (error);
}

int32_t
bh_core_exclude_heap(void)
{
	size_t large, length = sizeof (large);
	unsigned arenas;
	int error;

	/* The arena of large allocations is created by the first one, and cannot be created by its number. */
	error = mallctl("opt.oversize_threshold", &large, &length, NULL, 0);
	if (error == 0 && large != 0) {
		void *volatile memory = malloc(large);

		free(memory);
	}
	length = sizeof (arenas);
	error = mallctl("arenas.narenas", &arenas, &length, NULL, 0);
	for (unsigned arena = 0; arena < arenas && error == 0; arena++)
		error = hook_arena(arena);
	return (error == 0 ? exclude_existing() : error);
}
