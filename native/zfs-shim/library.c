/*
 * Identifies the build of the library that this process has loaded. The library promises no stable layout of its inner
 * structures: the shim fits the version that it was compiled for, and no other.
 */
#include "internal.h"

#include <dlfcn.h>
#include <link.h>

/* From the same package's sources, and updated together with the library. */
#define	BH_VERSION_TELLER	"libzfs.so.6"

typedef struct search {
	const void *s_base;	/* where the library is loaded */
	const uint8_t *s_id;
	uint64_t s_length;
} search_t;

/* A note is a header, a name and a description, each padded to four bytes. */
static void
find_in_notes(search_t *search, const char *notes, uint64_t bytes)
{
	static const char owner[] = "GNU";
	uint64_t at = 0;

	while (at + sizeof (ElfW(Nhdr)) <= bytes) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);
		uint64_t name = at + sizeof (*note);
		uint64_t description = name + P2ROUNDUP((uint64_t)note->n_namesz, 4ULL);

		at = description + P2ROUNDUP((uint64_t)note->n_descsz, 4ULL);
		if (at <= bytes && note->n_type == NT_GNU_BUILD_ID &&
		    note->n_namesz == sizeof (owner) &&
		    memcmp(notes + name, owner, sizeof (owner)) == 0) {
			search->s_id = (const uint8_t *)notes + description;
			search->s_length = note->n_descsz;
			return;
		}
	}
}

static int
visit_object(struct dl_phdr_info *object, size_t size, void *arg)
{
	search_t *search = arg;

	if ((const void *)object->dlpi_addr != search->s_base)
		return (0);
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];

		if (part->p_type == PT_NOTE)
			find_in_notes(search, (const char *)object->dlpi_addr +
			    part->p_vaddr, part->p_memsz);
	}
	return (1);
}

/* The address of the library that this process calls; NULL if unknown. */
static const void *
library_base(void)
{
	Dl_info library;

	/* A function that is not interposed. */
	if (dladdr(bh_library_function("spa_open"), &library) == 0)
		return (NULL);
	return (library.dli_fbase);
}

void
bh_library_build_id(uint8_t *out, uint64_t bytes_max, uint64_t *length)
{
	search_t search = { library_base(), NULL, 0 };

	if (search.s_base != NULL)
		(void) dl_iterate_phdr(visit_object, &search);
	*length = search.s_length;
	if (search.s_length != 0)
		memcpy(out, search.s_id, MIN(search.s_length, bytes_max));
}

int32_t
bh_library_has_checks(void)
{
	/* A function if references are tracked, which requires ZFS_DEBUG; otherwise a macro of atomic additions. */
	void *add = dlsym(RTLD_NEXT, "zfs_refcount_add");
	Dl_info owner;

	/* In this library: a second one may be loaded after it. */
	return (add != NULL && dladdr(add, &owner) != 0 && owner.dli_fbase == library_base());
}

int32_t
bh_library_version(char *out, uint64_t bytes_max)
{
	void *teller = dlopen(BH_VERSION_TELLER, RTLD_LAZY | RTLD_LOCAL);

	if (teller == NULL)
		return (ENOENT);
	const char *(*version)(void) = dlsym(teller, "zfs_version_userland");
	/* It stays loaded until the process exits, because it has started threads. */
	if (version == NULL)
		return (ENOENT);
	(void) strlcpy(out, version(), bytes_max);
	return (0);
}
