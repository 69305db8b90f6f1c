/*
 * accounting.c: whom an object belongs to. Included after internal.h.
 */
#ifndef BH_ACCOUNTING_H
#define	BH_ACCOUNTING_H

#include <sys/dmu_objset.h>

/* Right after the start of the library: before anything is written to a file system. */
void bh_accounting_prepare(void);

/* Gives back a file system that dmu_objset_own() opened. May wait until what it takes was counted. */
void bh_accounting_disown(objset_t *os, const void *tag);

#endif
