/* share.h: who else may reach ebb's memory. For this folder; ebb_lock() held. */
#ifndef EBB_SHARE_H
#define EBB_SHARE_H

#include "alloc/ebb_alloc.h"

/* The rights that every mapping of the device's memory has to give: its own, and those of the devices that
 * the program has given access. Valid until the next grant. */
const CUmemAccessDesc *ebb_access_descs(ebb_device_t *dev, size_t *count);
/* One more device; all present mappings get it now. */
ebb_status_t ebb_access_grant(ebb_device_t *dev, CUdevice device);

#endif
