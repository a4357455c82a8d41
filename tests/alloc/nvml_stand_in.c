/* nvml_stand_in.c: a libnvidia-ml.so.1 that lists the processes that NVML_SHOWS names: "PID:BYTES,...", `self` for this process's number,
 * `?` for bytes that are not known; of the device on bus BUS those that NVML_SHOWS_BUS names, if that is set. As in its header:
 * nvmlReturn_t is an int, 0 success, 7 too little room. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
} process_t;

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *out);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    static char handles[64][16];
    static unsigned count;
    unsigned i = 0;
    while (i < count && strcmp(handles[i], bus) != 0)
        i++;
    if (!*bus || i == 64)
        return 2;
    if (i == count)
        snprintf(handles[count++], sizeof handles[0], "%s", bus);
    *device = handles[i];
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process_t *out)
{
    char name[48];
    snprintf(name, sizeof name, "NVML_SHOWS_%s", (const char *)device);
    const char *its_own = getenv(name), *shows = its_own ? its_own : getenv("NVML_SHOWS");
    const unsigned room = *count;
    *count = 0;
    for (const char *at = shows ? shows : ""; *at; at += strcspn(at, ","), at += *at == ',') {
        const char *colon = strchr(at, ':');
        if (!colon || *count == room)
            return 7;
        const unsigned pid = strncmp(at, "self", 4) ? (unsigned)strtoul(at, NULL, 10) : (unsigned)getpid();
        out[(*count)++] =
            (process_t){.pid = pid, .used_bytes = colon[1] == '?' ? ~0ull : strtoull(colon + 1, NULL, 10)};
    }
    return 0;
}
