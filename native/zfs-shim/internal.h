/*
 * What the shim's own files share.  The library's headers are included here and nowhere else
 * before shim.h, because libspl shadows some system headers.
 */
#ifndef BULKHEAD_ZFS_SHIM_INTERNAL_H
#define	BULKHEAD_ZFS_SHIM_INTERNAL_H

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/vdev_impl.h>
#include <sys/abd.h>
#include <sys/zio.h>
#include <libnvpair.h>

#include "shim.h"

/* Whether a leaf is served by device.c. */
boolean_t bh_device_is_ours(const vdev_t *vd);

#if !defined(ZFS_DEBUG) || defined(NDEBUG)
#error "the packaged library is built with ZFS_DEBUG: structures differ without it"
#endif

#endif
