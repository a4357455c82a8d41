#include <inttypes.h>

#include "ckpt/run/stats/stats.h"

void ebb_devices_print(const ebb_device_list_t *list, FILE *out)
{
    fputs(", \"devices\": [", out);
    for (uint32_t i = 0; i < list->count; i++) {
        const char *between = i ? ", {" : "{";
#define X(key, meaning)                                                                                      \
    fprintf(out, "%s\"" #key "\": %" PRIu64, between, list->device[i].key);                                  \
    between = ", ";
        EBB_DEVICE_STATISTICS(X)
#undef X
        fputs("}", out);
    }
    fputs("]", out);
}
