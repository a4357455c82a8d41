#include "ckpt/run/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/run/state.h"
#include "ckpt/run/stats/stats.h"

enum { PATH_BYTES = EBB_FILE_NAME_ROOM + 16 };

struct ebb_file_names {
    bool taken;
    unsigned by; /* the variant that has the names of the options, numbered through */
};
const size_t ebb_part_file_names = sizeof(struct ebb_file_names);

/* One of the two. Gives the name; false: it was not wanted, or could not be written. */
static bool write_file(ebb_device_t *dev, unsigned variant, const ebb_trace_t *trace, const ebb_plan_t *plan,
                       char path[PATH_BYTES])
{
    struct ebb_file_names *names = dev->ebb->run_shared->file_names;
    const unsigned number = ebb_variant_through(dev, variant);
    const char *option = trace ? ebb_options.trace : ebb_options.save_plan;
    if (!*option)
        return false;
    if (!names->taken)
        names->by = number;
    names->taken = true;
    const bool named = ebb_file_name(option, getpid(), path);
    if (number != names->by)
        snprintf(path + strlen(path), 16, ".%u", number);
    FILE *f = named ? fopen(path, "w") : NULL;
    bool written = f && (trace ? ebb_trace_write(trace, f) : ebb_plan_write(plan, f));
    if (f && fclose(f))
        written = false;
    if (written)
        ebb_log(EBB_INFO, "%s is in %s", trace ? "the trace of a step" : "the plan", path);
    else
        ebb_log(EBB_WARN, "%s: %s", path, strerror(errno));
    return written;
}

void ebb_files_trace(ebb_device_t *dev, unsigned variant, const ebb_trace_t *trace)
{
    char path[PATH_BYTES];
    if (write_file(dev, variant, trace, NULL, path))
        ebb_planned_trace(dev, variant, path);
}

void ebb_files_plan(ebb_device_t *dev, unsigned variant, const ebb_plan_t *plan,
                    const ebb_plan_request_t *request)
{
    char path[PATH_BYTES];
    write_file(dev, variant, NULL, plan, path);
    ebb_planned_plan(dev, variant, plan, request);
}

void ebb_files_forget(ebb_device_t *dev, unsigned variant)
{
    struct ebb_file_names *names = dev->ebb->run_shared->file_names;
    names->taken &= names->by != ebb_variant_through(dev, variant);
    ebb_planned_forget(dev, variant);
}
