/*
 * The package leaves this header out, and several of its headers include it. Nothing that the
 * shim uses depends on its contents: only pointers to its types occur.
 */
#ifndef BULKHEAD_ZFS_SHIM_COMPAT_ZFS_IOCTL_H
#define	BULKHEAD_ZFS_SHIM_COMPAT_ZFS_IOCTL_H

#include <sys/dmu.h>

typedef struct dmu_replay_record dmu_replay_record_t;
typedef struct zinject_record zinject_record_t;

#endif
