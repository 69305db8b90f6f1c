/*
 * Functions of the library that this program replaces: the library calls them through the
 * dynamic symbol table, where a program's own definition comes first.
 */
#include "internal.h"

#include <sys/arc_impl.h>
#include <sys/random.h>

/*
 * The library gives 1/32 of this to the cache of ready-to-use blocks, and keeps its setting for
 * that share to itself. Only blocks in that cache can be lent without a copy (4 us of CPU for 16K
 * instead of 1), so it gets half of the whole cache instead. Not more: those blocks cannot be
 * evicted, and neither can dirty data.
 */
#define	BH_READY_SHARE_FACTOR	16

uint64_t
arc_target_bytes(void)
{
	return (arc_c * BH_READY_SHARE_FACTOR);
}

/* One step of SplitMix64. */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31));
}

/*
 * Used for spreading load and for identifiers, never for keys. The library reads /dev/urandom
 * each time, which costs a system call in the middle of its hottest lists.
 */
int
random_get_pseudo_bytes(uint8_t *to, size_t length)
{
	static __thread uint64_t state;

	/* A seed of 64 random bits for each thread: identifiers must not repeat. */
	while (state == 0) {
		if (random_get_bytes((uint8_t *)&state, sizeof (state)) != 0)
			return (EIO);
	}
	while (length > 0) {
		uint64_t word = next_random(&state);
		size_t count = MIN(length, sizeof (word));
		memcpy(to, &word, count);
		to += count;
		length -= count;
	}
	return (0);
}
