/* limits.c: SOFTGPU_LIMITS=NAME:SIZE,...: what machines, drivers and their surroundings refuse although the API has it. */
#include "softgpu/driver/sg.h"

#include <stdlib.h>
#include <string.h>

typedef struct limit {
    const char *name;
    size_t *bytes;
} limit_t;

/* Where each was seen: softgpu/README.md. */
static const limit_t limits[] = {
    {"vmm", &sg.limits.vmm},
    {"reserve", &sg.limits.reserve},
    {"register", &sg.limits.one_registration},
    {"hostalloc", &sg.limits.one_host_allocation},
    {"pinned", &sg.limits.pinned},
    {"charge", &sg.limits.charge},
};
enum { LIMITS = sizeof limits / sizeof *limits };

/* NAME:SIZE */
static bool read_limit(const char *text, size_t length)
{
    char size[32];
    for (size_t i = 0; i < LIMITS; i++) {
        const size_t name = strlen(limits[i].name);
        if (length <= name + 1 || strncmp(text, limits[i].name, name) || text[name] != ':' ||
            length - name - 1 >= sizeof size)
            continue;
        memcpy(size, text + name + 1, length - name - 1);
        size[length - name - 1] = 0;
        return sg_parse_bytes(size, limits[i].bytes);
    }
    return false;
}

void sg_limits_init(void)
{
    for (size_t i = 0; i < LIMITS; i++)
        *limits[i].bytes = SIZE_MAX;
    sg.limits.charge = 0;
    const char *text = getenv("SOFTGPU_LIMITS");
    for (const char *at = text ? text : ""; *at;) {
        const size_t length = strcspn(at, ",");
        if (!read_limit(at, length))
            sg_log(1, "SOFTGPU_LIMITS: '%.*s' is not NAME:SIZE; ignored", (int)length, at);
        at += length + (at[length] == ',');
    }
}
