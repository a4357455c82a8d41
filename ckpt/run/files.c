#include "ckpt/run/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc/base/log.h"
#include "alloc/base/options.h"
#include "ckpt/run/stats/planned.h"

enum { PATH_BYTES = sizeof ebb_options.trace + 16 };

static struct {
    bool taken;
    unsigned by; /* the kind that has the names of the options */
} names;

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
static bool write_file(unsigned kind, const char *name, const char *option, write_fn write, const void *what,
                       char path[PATH_BYTES])
{
    if (!*option)
        return false;
    if (!names.taken)
        names.by = kind;
    names.taken = true;
    snprintf(path, PATH_BYTES, kind == names.by ? "%s" : "%s.%u", option, kind);
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

void ebb_files_trace(unsigned kind, const ebb_trace_t *trace)
{
    char path[PATH_BYTES];
    if (write_file(kind, "the trace of a step", ebb_options.trace, write_trace, trace, path))
        ebb_planned_trace(kind, path);
}

void ebb_files_plan(unsigned kind, const ebb_plan_t *plan)
{
    char path[PATH_BYTES];
    write_file(kind, "the plan", ebb_options.save_plan, write_plan, plan, path);
    ebb_planned_plan(kind, plan);
}

void ebb_files_forget(unsigned kind)
{
    names.taken &= names.by != kind;
    ebb_planned_forget(kind);
}
