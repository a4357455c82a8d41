#include "alloc/device.h"

#include <dlfcn.h>
#include <unistd.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"

/* NVML, as far as it is needed (its header is not part of the toolkit's smallest installations). */
struct ebb_nvml_process {
    unsigned pid;
    unsigned long long used_bytes; /* all ones: not known */
    unsigned gpu_instance, compute_instance;
};

static void find_nvml(ebb_nvml_t *nvml)
{
    nvml->tried = true;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    int (*init)(void) = (int (*)(void))dlsym(library, "nvmlInit_v2");
    *(void **)&nvml->by_bus = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&nvml->processes = dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!init || !nvml->by_bus || !nvml->processes || init()) {
        nvml->by_bus = NULL;
        dlclose(library);
    }
}

/* The driver's device numbers are not NVML's; the bus tells. NULL: NVML has nothing to say of it. */
static void *nvml_device(ebb_nvml_t *nvml, CUdevice device)
{
    char bus[32];
    if (!nvml->tried)
        find_nvml(nvml);
    if (!nvml->by_bus || device < 0 || device >= EBB_DRIVER_DEVICES)
        return NULL;
    if (!nvml->device[device].tried && (ebb_driver.cuDeviceGetPCIBusId(bus, sizeof bus, device) ||
                                        nvml->by_bus(bus, &nvml->device[device].handle)))
        nvml->device[device].handle = NULL;
    nvml->device[device].tried = true;
    return nvml->device[device].handle;
}

/* What this process holds on the device, `chunk_bytes` of it in chunks. What NVML says counts only where it can be true: in containers the
 * process has 0 bytes (HAMi-core issue 112; open-gpu-kernel-modules pull request 614 shows why), or its number in another namespace, if
 * not another process's (nvidia-docker issue 1483). */
static bool ask_nvml(ebb_t *ebb, CUdevice device, size_t chunk_bytes, size_t *out)
{
    enum { MOST = 64 };
    struct ebb_nvml_process process[MOST];
    unsigned count = MOST;
    void *handle = nvml_device(&ebb->nvml, device);
    if (!handle || ebb->nvml.processes(handle, &count, process))
        return false;
    for (unsigned i = 0; i < count && i < MOST; i++)
        if (process[i].pid == (unsigned)getpid() && process[i].used_bytes != ~0ull) {
            *out = (size_t)process[i].used_bytes;
            return *out && *out >= chunk_bytes;
        }
    return false;
}

ebb_overhead_t ebb_overhead(ebb_t *ebb, CUdevice device, size_t chunk_bytes)
{
    size_t held, free_bytes, total;
    const bool known = ask_nvml(ebb, device, chunk_bytes, &held);
    if (!known) {
        if (ebb_driver.cuMemGetInfo_v2(&free_bytes, &total))
            return (ebb_overhead_t){0};
        held = total - free_bytes;
    }
    return (ebb_overhead_t){.bytes = held > chunk_bytes ? held - chunk_bytes : 0, .of_all = !known};
}
