/* Compiled, never called: every intercepted function has the argument list of its form in NVIDIA's
 * cudaTypedefs.h, or this file does not compile. */
#include <cuda.h>
#include <cudaTypedefs.h>

#define PLAIN(name, symbol, version)                                                                         \
    extern const PFN_##name##_v##version check_##symbol;                                                     \
    const PFN_##name##_v##version check_##symbol = symbol;
#define VARIANT(name, symbol, suffix, per_thread)                                                            \
    extern const PFN_##name##_v##per_thread##suffix check_##symbol##suffix;                                  \
    const PFN_##name##_v##per_thread##suffix check_##symbol##suffix = symbol##suffix;
#define SYNC(name, symbol, version, per_thread)                                                              \
    PLAIN(name, symbol, version) VARIANT(name, symbol, _ptds, per_thread)
#define ASYNC(name, symbol, version, per_thread)                                                             \
    PLAIN(name, symbol, version) VARIANT(name, symbol, _ptsz, per_thread)
#include "hook/entry_points.h"
