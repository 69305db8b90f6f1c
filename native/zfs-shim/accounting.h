/*
 * accounting.c: whom an object belongs to. Included after internal.h.
 */
#ifndef BH_ACCOUNTING_H
#define	BH_ACCOUNTING_H

/* Right after the start of the library: before anything is written to a file system. */
void bh_accounting_prepare(void);

#endif
