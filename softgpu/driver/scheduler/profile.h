/* profile.h: what a named GPU can do, as far as the virtual clock (scheduler.h) and the device's attributes need it.
 *
 * SOFTGPU_PROFILE names one. Without it the clock runs by the first of the table, and the device's name and attributes
 * stay those of the software device.
 */
#ifndef SG_PROFILE_H
#define SG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/kernel_abi.h"

typedef struct sg_profile {
    const char *name, *product;
    double tera_ops[SOFTGPU_ARITHMETIC_COUNT]; /* 10^12 operations a second, dense */
    double memory_gb_s;                        /* 10^9 bytes a second */
    unsigned pcie_generation;                  /* sixteen lanes of it */
    unsigned memory_gib, multiprocessors, l2_mib;
    int capability_major, capability_minor;
} sg_profile_t;

/* Reads SOFTGPU_PROFILE, SOFTGPU_LINK, SOFTGPU_COPY_SLOWDOWN and SOFTGPU_LARGER; once, when the driver starts. An unknown name is told
 * with all known ones, and counts as none. */
void sg_profile_init(void);
extern const sg_profile_t *sg_profile;
extern bool sg_profile_named; /* the program's user asked for this GPU */

/* Everything below in nanoseconds, rounded up. */
enum {
    SG_CALL_NS = 2000,   /* what a call of the API takes the host */
    SG_KERNEL_NS = 2000, /* from a kernel's turn to its first operation, and from its last one to its end */
    SG_COPY_NS = 1500,   /* the same of a copy or memset */
    SG_HOST_FUNCTION_NS = 10000,
};
typedef enum sg_way { SG_TO_DEVICE, SG_TO_HOST, SG_WAYS } sg_way_t;
uint64_t sg_profile_kernel_ns(softgpu_cost_t cost);
uint64_t sg_profile_link_ns(sg_way_t way,
                            size_t bytes); /* a copy between host and device, had it the link for itself */
unsigned sg_profile_both_permille(sg_way_t way); /* what a way keeps of its rate while both are in use */
uint64_t
sg_profile_memory_ns(double bytes); /* bytes read or written by a copy within the device or a memset */
/* What a kernel costs that does not say: by its number of threads. */
softgpu_cost_t sg_profile_default_cost(const softgpu_launch_t *launch);
/* By how much kernels are slower while a copy uses this way of the link; two copies, by the sum. */
unsigned sg_profile_copy_slowdown_permille(sg_way_t way);

#endif
