/* link.c: what the link carries: given, kept from the first time, or measured. */
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "offload/internal.h"
#include "offload/link.h"

static bool measure(ebb_device_t *dev, ebb_link_t *link)
{
    ebb_link_bench_t b = {.device = 0};
    ebb_buffer_t *buffer = NULL;
    bool good = false;
    const ebb_traffic_t before = ebb_traffic(dev);
    if (!ebb_heap_alloc(dev, &(ebb_request_t){.bytes = EBB_LINK_BYTES}, &buffer))
        b.host = ebb_pinned_alloc(dev, EBB_LINK_BYTES);
    if (b.host && ebb_copy_stream(dev, EBB_OUT) && ebb_copy_stream(dev, EBB_IN)) {
        buffer->held++;
        b.device = buffer->address;
        for (int way = 0; way < 2; way++)
            b.stream[way] = ebb_stream_handle(ebb_copy_stream(dev, (ebb_direction_t)way));
        good = ebb_link_measure(&b, link);
        buffer->held--;
    }
    ebb_traffic_uncount(dev, &before);
    ebb_pinned_free(dev, b.host, EBB_LINK_BYTES);
    if (buffer)
        ebb_heap_free(buffer, (ebb_mark_t){0});
    return good;
}

static bool find_key(ebb_link_key_t *key)
{
    CUdevice device;
    memset(key, 0, sizeof *key);
    return !ebb_driver.cuCtxGetDevice(&device) &&
           !ebb_driver.cuDeviceGetName(key->device, (int)sizeof key->device, device) &&
           !ebb_driver.cuDeviceGetPCIBusId(key->pci, (int)sizeof key->pci, device) &&
           !ebb_driver.cuDriverGetVersion(&key->driver_version);
}

/* EBB_LINK. False: it says nothing. */
static bool take_given(ebb_link_t *link)
{
    const double out = (double)ebb_options.link.out * 1e-9, in = (double)ebb_options.link.in * 1e-9;
    *link = (ebb_link_t){.out = out, .in = in, .out_both = out, .in_both = in};
    return out > 0;
}

ebb_link_t ebb_link(ebb_device_t *dev)
{
    ebb_link_t *link = &ebb_offload_of(dev)->link;
    ebb_link_key_t key;
    if (link->out > 0)
        return *link;
    const bool given = take_given(link), known = !given && find_key(&key);
    const char *how = given ? "EBB_LINK" : "kept";
    if (!given && (!known || !ebb_link_cache_read(&key, link))) {
        how = "measured";
        if (measure(dev, link)) {
            if (known)
                ebb_link_cache_write(&key, link);
        } else {
            ebb_log(EBB_WARN,
                    "the link could not be measured; taking 10 GB/s each way (EBB_LINK says otherwise)");
            *link = (ebb_link_t){.out = 10, .in = 10, .out_both = 10, .in_both = 10};
        }
    }
    ebb_log(EBB_DEBUG, "link (%s): %.1f GB/s out, %.1f in; both at once %.1f and %.1f; a copy %.1f us more",
            how, link->out, link->in, link->out_both, link->in_both, (link->out_ns + link->in_ns) / 2000);
    return *link;
}
