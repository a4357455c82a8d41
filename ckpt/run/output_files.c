#include "ckpt/run/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc/base/status.h"
#include "alloc/base/options.h"
#include "ckpt/run/state.h"
#include "ckpt/run/stats/stats.h"

enum { PATH_BYTES = sizeof ebb_options.trace + 16 };

struct ebb_file_names {
    bool taken;
    unsigned by; /* the kind that has the names of the options */
};
const size_t ebb_part_file_names = sizeof(struct ebb_file_names);

typedef bool (*write_fn)(const void *what, FILE *out);

static bool write_trace(const void *what, FILE *out)
{
    return ebb_trace_write(what, out);
}

static bool write_plan(const void *what, FILE *out)
{
    return ebb_plan_write(what, out);
}

/* Gives the name; false: it was not wanted, or could not be written. */
static bool write_file(struct ebb_file_names *names, unsigned kind, const char *name, const char *option,
                       write_fn write, const void *what, char path[PATH_BYTES])
{
    if (!*option)
        return false;
    if (!names->taken)
        names->by = kind;
    names->taken = true;
    snprintf(path, PATH_BYTES, kind == names->by ? "%s" : "%s.%u", option, kind);
    FILE *f = fopen(path, "w");
    bool written = f && write(what, f);
    if (f && fclose(f))
        written = false;
    if (written)
        ebb_log(EBB_INFO, "%s (kind %u) is in %s", name, kind, path);
    else
        ebb_log(EBB_WARN, "%s: %s", path, strerror(errno));
    return written;
}

void ebb_files_trace(ebb_t *ebb, unsigned kind, const ebb_trace_t *trace)
{
    struct ebb_file_names *names = ebb->run->file_names;
    char path[PATH_BYTES];
    if (write_file(names, kind, "the trace of a step", ebb_options.trace, write_trace, trace, path))
        ebb_planned_trace(ebb, kind, path);
}

void ebb_files_plan(ebb_t *ebb, unsigned kind, const ebb_plan_t *plan)
{
    struct ebb_file_names *names = ebb->run->file_names;
    char path[PATH_BYTES];
    write_file(names, kind, "the plan", ebb_options.save_plan, write_plan, plan, path);
    ebb_planned_plan(ebb, kind, plan);
}

void ebb_files_forget(ebb_t *ebb, unsigned kind)
{
    struct ebb_file_names *names = ebb->run->file_names;
    names->taken &= names->by != kind;
    ebb_planned_forget(ebb, kind);
}
