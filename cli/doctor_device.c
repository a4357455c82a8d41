/* doctor_device.c: device, driver, link, NUMA node. Here the command becomes a CUDA program for a moment, without ebb. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "cli/doctor.h"
#include "offload/link.h"
#include "offload/machine.h"

static const double gib = 1 << 30;

static void *function(const char *name)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    return ebb_driver.cuGetProcAddress_v2(name, &found, 12000, 0, &status) ? NULL : found;
}

static const char *name_of(CUresult code)
{
    const char *name = NULL;
    return !ebb_driver.cuGetErrorName || ebb_driver.cuGetErrorName(code, &name) || !name ? "an unknown error"
                                                                                         : name;
}

/* False, said: there is none that works. */
static bool load_driver(int *version)
{
    struct link_map *map = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("driver    none: %s\n", dlerror());
        return false;
    }
    PFN_cuGetProcAddress_v12000 real = (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
    dlinfo(library, RTLD_DI_LINKMAP, &map);
    if (!real || ebb_driver_fill(real)) {
        printf("driver    %s: too old for ebb, which needs CUDA 12.4 or newer\n", map ? map->l_name : "?");
        return false;
    }
    ebb_driver.cuDriverGetVersion(version);
    printf("driver    %s, CUDA %d.%d\n", map ? map->l_name : "?", *version / 1000, *version % 1000 / 10);
    return true;
}

static bool open_device(CUdevice *device)
{
    PFN_cuInit_v2000 init = (PFN_cuInit_v2000)function("cuInit");
    PFN_cuDeviceGet_v2000 get = (PFN_cuDeviceGet_v2000)function("cuDeviceGet");
    PFN_cuDevicePrimaryCtxRetain_v7000 retain =
        (PFN_cuDevicePrimaryCtxRetain_v7000)function("cuDevicePrimaryCtxRetain");
    PFN_cuCtxSetCurrent_v4000 set = (PFN_cuCtxSetCurrent_v4000)function("cuCtxSetCurrent");
    CUcontext context;
    CUresult result = init && get && retain && set ? init(0) : CUDA_ERROR_NOT_FOUND;
    result = result ? result : get(device, 0);
    result = result ? result : retain(&context, *device);
    result = result ? result : set(context);
    if (result)
        printf("device    none: %s\n", name_of(result));
    return !result;
}

static void show_device(CUdevice device, ebb_link_key_t *key)
{
    int major = 0, minor = 0, vmm = 0;
    size_t available = 0, total = 0;
    ebb_driver.cuDeviceGetName(key->device, sizeof key->device, device);
    ebb_driver.cuDeviceGetPCIBusId(key->pci, sizeof key->pci, device);
    ebb_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    ebb_driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    ebb_driver.cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    ebb_driver.cuMemGetInfo_v2(&available, &total);
    printf("device    %s, %s, compute capability %d.%d, %.1f GiB, %.1f free%s\n", key->device, key->pci,
           major, minor, (double)total / gib, (double)available / gib,
           vmm ? "" : "; it has no virtual memory management, which ebb needs");
    const ebb_size_t b = ebb_options.budget;
    const double budget = b.of == EBB_SIZE_BYTES       ? (double)b.amount
                          : b.of == EBB_SIZE_OF_DEVICE ? (double)total * (double)b.amount / 100
                                                       : (double)total; /* until a step is known */
    printf("budget    %.1f GiB (EBB_BUDGET); context and other processes hold %.1f now\n",
           (budget < (double)total ? budget : (double)total) / gib, (double)(total - available) / gib);
    if (budget > (double)total)
        puts("          WARNING: EBB_BUDGET is more than the device has");
    ebb_topology_t topology = {.tried = false};
    const ebb_place_t *place = ebb_topology_find(&topology, device);
    if (!place)
        puts("numa      no preference: one node, or the device's node is not known");
    else if (ebb_topology_node(place) >= 0)
        printf("numa      the device is near node %d: host memory comes from there\n",
               ebb_topology_node(place));
    else
        puts("numa      the device is near several nodes: host memory comes from them");
}

/* ---- the link ---- */

static void show_rates(const ebb_link_t *l, const char *how)
{
    printf("link      %.1f GB/s out, %.1f in; both at once %.1f and %.1f (%s)\n", l->out, l->in, l->out_both,
           l->in_both, how);
}

static bool measure_link(ebb_link_t *link)
{
    ebb_link_bench_t b = {.host = NULL};
    bool good = !ebb_driver.cuMemAlloc_v2(&b.device, EBB_LINK_BYTES) &&
                !ebb_driver.cuMemHostAlloc((void **)&b.host, EBB_LINK_BYTES, CU_MEMHOSTALLOC_PORTABLE);
    for (int i = 0; i < 2 && good; i++)
        good = !ebb_driver.cuStreamCreate(&b.stream[i], CU_STREAM_NON_BLOCKING);
    if (good)
        memset(b.host, 0, EBB_LINK_BYTES);
    good = good && ebb_link_measure(&b, link);
    for (int i = 0; i < 2; i++)
        if (b.stream[i])
            ebb_driver.cuStreamDestroy_v2(b.stream[i]);
    if (b.device)
        ebb_driver.cuMemFree_v2(b.device);
    if (b.host)
        ebb_driver.cuMemFreeHost(b.host);
    if (!good)
        puts("link      could not be measured");
    return good;
}

static bool is_far(double a, double b)
{
    return a > 1.5 * b || b > 1.5 * a;
}

static bool differ(const ebb_link_t *a, const ebb_link_t *b)
{
    return is_far(a->out, b->out) || is_far(a->in, b->in) || is_far(a->out_both, b->out_both) ||
           is_far(a->in_both, b->in_both);
}

/* What is kept may be from a busy machine, or of a device in another slot: it is replaced if it is found wrong twice. */
static void compare_link(const ebb_link_key_t *key, const ebb_link_t *kept)
{
    ebb_link_t now;
    if (!measure_link(&now))
        return;
    show_rates(&now, "measured now");
    if (kept) {
        if (!differ(kept, &now))
            return;
        puts("          WARNING: what is kept differs by a factor of more than 1.5; once more:");
        if (!measure_link(&now))
            return;
        show_rates(&now, "measured again");
        if (!differ(kept, &now)) {
            puts("          what is kept stays: the device was busy before");
            return;
        }
    }
    ebb_link_cache_write(key, &now);
    puts("          kept from now on");
}

static void show_link(const ebb_link_key_t *key, bool now)
{
    ebb_link_t kept;
    const bool is_kept = ebb_link_cache_read(key, &kept);
    if (ebb_options.link.out > 0)
        printf("link      %.1f GB/s out, %.1f in (EBB_LINK)\n", (double)ebb_options.link.out * 1e-9,
               (double)ebb_options.link.in * 1e-9);
    else if (is_kept)
        show_rates(&kept, "measured before, and kept: what ebb takes");
    if (now)
        compare_link(key, is_kept ? &kept : NULL);
}

bool ebb_doctor_device(bool measure_now)
{
    ebb_link_key_t key = {.driver_version = 0};
    CUdevice device;
    if (!load_driver(&key.driver_version) || !open_device(&device))
        return false;
    show_device(device, &key);
    show_link(&key, measure_now);
    return true;
}
