/* launches.h: how many operations the process has issued to the device: kernels, products, copies, memsets, launches of
 * graphs. Whoever issues one says so. Any thread. */
#ifndef EBB_MODEL_LAUNCHES_H
#define EBB_MODEL_LAUNCHES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

extern uint64_t launches_issued; /* read and written atomically, in no order */

static inline void launched(void)
{
    __atomic_fetch_add(&launches_issued, 1, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}

/* Around the grid of every kernel launch: kernel<<<counted(blocks), ...>>>(...). */
template <typename T> static inline T counted(T grid)
{
    launched();
    return grid;
}
#endif
#endif
