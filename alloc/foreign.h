/* foreign.h: memory that the device can reach and ebb does not serve: host memory that is mapped, module
 * variables, managed memory, the program's own mappings, pools that ebb leaves to the driver, memory of other
 * processes. Ebb knows where it is, and counts what of it is device memory against the budget; it never leaves.
 * For this folder; ebb_lock() held.
 */
#ifndef EBB_FOREIGN_H
#define EBB_FOREIGN_H

#include "alloc/ebb_alloc.h"

typedef enum ebb_foreign_kind {
    EBB_FOREIGN_HOST,     /* allocated or registered, and mapped */
    EBB_FOREIGN_VARIABLE, /* of a module */
    EBB_FOREIGN_MANAGED,
    EBB_FOREIGN_MAPPING, /* cuMemMap */
    EBB_FOREIGN_POOL,    /* from a pool that is left to the driver */
    EBB_FOREIGN_IMPORT,  /* of another process or interface */
} ebb_foreign_kind_t;

typedef struct ebb_foreign {
    CUdeviceptr base;
    size_t bytes;
    ebb_foreign_kind_t kind;
    const void *owner; /* a module, or what else tells it apart */
    size_t counted;    /* device bytes, counted against the budget */
} ebb_foreign_t;

/* The range at an address, or NULL. Valid until the next change. */
const ebb_foreign_t *ebb_foreign_at(ebb_t *ebb, CUdeviceptr address);
/* Counts on the device. What has the same base is replaced. False: no host memory (it is then unknown; the driver knows it). */
bool ebb_foreign_add(ebb_device_t *dev, const ebb_foreign_t *range);
/* Also uncounts it. False: there is none with that base. */
bool ebb_foreign_remove(ebb_t *ebb, CUdeviceptr base);
/* All of one owner. */
void ebb_foreign_forget(ebb_t *ebb, const void *owner);

/* Of the device: takes device bytes off the budget for memory that the driver is about to serve, evicting what must go. False:
 * they are not there. */
bool ebb_foreign_count(ebb_device_t *dev, size_t bytes);
void ebb_foreign_uncount(ebb_device_t *dev, size_t bytes);
size_t ebb_foreign_counted(ebb_device_t *dev);

#endif
