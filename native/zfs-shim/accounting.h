/*
 * accounting.c: the owners of an object. Included after internal.h.
 */
#ifndef BH_ACCOUNTING_H
#define	BH_ACCOUNTING_H

#include <sys/dmu_objset.h>

/* Called right after the start of the library, before any write to a file system. */
void bh_accounting_prepare(void);

/* Releases a file system that dmu_objset_own() opened. May block until the counting of its usage is done. */
void bh_accounting_disown(objset_t *os, const void *tag);

#endif
