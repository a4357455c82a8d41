/* rights.c: protection keys: which threads may touch which device memory (fault.c says what happens to the others).
 *
 * One device needs one key, which workers have and host code has not. With several devices a kernel reaches the
 * memory of its own, that of peers to which its context has enabled access, and VMM or pool memory that the program
 * has opened to its device. Memory with the same answer to these questions shares a key; a worker sets its rights
 * before it runs units of an op. All keys exist from the start, and those without memory are open to every op: memory
 * that is opened to a further device, and gets such a key for it, stays in reach of an op that runs meanwhile.
 * Copies reach everything, as between devices without peer access they do on hardware.
 * A CPU has 15 keys: with more answers than that, memory is open to the kernels of all devices, and the log says so.
 */
#include "softgpu/driver/stream/streams.h"

#include <sys/mman.h>

enum { MAX_KEYS = 15 };

static struct {
    sg_access_t access;
    int key;
} keys[MAX_KEYS];     /* [made]; `access` of the first `used`: guarded by sg.lock, and does not change */
static unsigned made; /* constant once the library is loaded */
static _Atomic unsigned used;

int sg_pkey = -1;
static _Thread_local CUcontext working_for; /* on a worker */

void sg_rights_init(void)
{
    if (sg.config.protect)
        sg_pkey = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    while (sg_pkey >= 0 && sg.config.devices > 1 && made < MAX_KEYS &&
           (keys[made].key = pkey_alloc(0, PKEY_DISABLE_ACCESS)) >= 0)
        made++;
}

void sg_rights_grant(void)
{
    if (sg_pkey < 0)
        return;
    pkey_set(sg_pkey, 0);
    for (unsigned i = 0; i < made; i++)
        pkey_set(keys[i].key, 0);
}

void sg_rights_revoke(void)
{
    if (sg_pkey < 0)
        return;
    pkey_set(sg_pkey, PKEY_DISABLE_ACCESS);
    for (unsigned i = 0; i < made; i++)
        pkey_set(keys[i].key, PKEY_DISABLE_ACCESS);
}

bool sg_rights_held(void)
{
    return sg_pkey < 0 || pkey_get(sg_pkey) == 0;
}

static unsigned rights_of_kernel(const sg_access_t *a, CUcontext ctx)
{
    unsigned mine = 1u << ctx->device;
    if (a->peers_decide)
        return a->readers & (mine | ctx->peer_devices) ? 0 : PKEY_DISABLE_ACCESS;
    return !(a->readers & mine) ? PKEY_DISABLE_ACCESS : a->writers & mine ? 0 : PKEY_DISABLE_WRITE;
}

void sg_work_for(const sg_op_t *op)
{
    working_for = op->stream->ctx;
    if (sg_pkey < 0 || sg.config.devices == 1)
        return;
    for (unsigned i = 0, n = used; i < made; i++)
        pkey_set(keys[i].key,
                 op->kind == SG_OP_KERNEL && i < n ? rights_of_kernel(&keys[i].access, working_for) : 0);
}

CUcontext sg_working_for(void)
{
    return working_for;
}

static bool same(const sg_access_t *a, const sg_access_t *b)
{
    return a->readers == b->readers && a->writers == b->writers && a->peers_decide == b->peers_decide;
}

int sg_key_of_locked(const sg_access_t *access)
{
    if (access->host)
        return 0;
    if (sg_pkey < 0 || sg.config.devices == 1)
        return sg_pkey;
    const unsigned n = used;
    for (unsigned i = 0; i < n; i++)
        if (same(&keys[i].access, access))
            return keys[i].key;
    if (n == made) {
        static bool said;
        if (!said)
            sg_log(1, "out of protection keys: some memory is open to the kernels of all devices");
        said = true;
        return sg_pkey;
    }
    keys[n].access = *access;
    used = n + 1;
    return keys[n].key;
}
