/* lookup.h: how the program's look-ups of driver functions end at ebb.
 *
 * A program gets at the driver in three ways, and each leads here:
 *   dlsym or dlvsym on a handle of libcuda     libebb exports both (preloaded, it comes first). A name in the
 * table of entry points is answered with ebb's function if the real look-up finds one as well; anything else
 * goes to the real dlsym as if nothing had been in between (by a jump, so that RTLD_NEXT still sees its
 * caller), and so does what the driver itself looks up. cuGetProcAddress, v1 and v2                ebb's own, reached by the first way. The real one is
 * asked first: its answer decides whether there is a function, the table whether it is ebb's. linking with
 * -lcuda                        libebb exports the entry points under their symbols' names.
 *
 * The runtime, static or shared, uses the first way for one name, cuGetProcAddress_v2, and the second for all
 * others.
 */
#ifndef EBB_HOOK_H
#define EBB_HOOK_H

#include "alloc/base/driver.h"

/* One entry point that ebb answers for. */
typedef struct ebb_entry {
    const char *name;   /* as cuGetProcAddress has it */
    const char *symbol; /* as dlsym has it */
    int version;        /* the form that appeared with this version */
    void *plain;
    void *per_thread;   /* the same for the per-thread default stream; NULL: none */
    const char *suffix; /* of its symbol: _ptsz, _ptds */
} ebb_entry_t;

/* The SERVED and WATCHED rows of driver_calls.h, ended by a NULL name. */
extern const ebb_entry_t ebb_entries[];

/* The entry that answers for cuGetProcAddress(name, version, flags), or NULL; its function for these flags. */
const ebb_entry_t *ebb_entry_by_name(const char *name, int version, unsigned long long flags);
void *ebb_hook_of(const ebb_entry_t *entry, unsigned long long flags);
/* Ebb's function for an exported symbol of the driver, or NULL. */
void *ebb_hook_by_symbol(const char *symbol);

#endif
