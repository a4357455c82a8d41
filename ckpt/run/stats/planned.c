/* planned.c: see stats.h. */
#include "ckpt/run/stats/stats.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/options.h"
#include "ckpt/run/internal.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

struct ebb_planned {
    struct planned {
        char *trace, *plan; /* owned; NULL: there is none. plan: with its request, as JSON */
    } variant[EBB_STEP_VARIANTS];
};
const size_t ebb_part_planned = sizeof(struct ebb_planned);

static bool is_wanted(unsigned variant)
{
    return *ebb_options.stats && *ebb_options.trace && variant < EBB_STEP_VARIANTS;
}

/* Bytes as they are: the reader decides whether they are UTF-8. */
static void put_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == '"' || *c == '\\')
            fprintf(f, "\\u%04x", *c);
        else
            fputc(*c, f);
    fputc('"', f);
}

void ebb_planned_trace(ebb_device_t *dev, unsigned variant, const char *path)
{
    struct ebb_planned *known = dev->run->planned;
    char whole[PATH_MAX];
    if (!is_wanted(variant))
        return;
    ebb_planned_forget(dev, variant);
    known->variant[variant].trace = strdup(realpath(path, whole) ? whole : path);
}

static void put_request(const ebb_plan_request_t *q, FILE *f)
{
    fputs(", \"request\": {\"policy\": ", f);
    put_text(f, *ebb_options.plan ? "EBB_PLAN" : ebb_options.policy.text);
    fprintf(f,
            ", \"device_bytes\": %" PRIu64 ", \"host_bytes\": %" PRIu64 ", \"min_buffer\": %" PRIu64
            ", \"out_bytes_per_s\": %.0f, \"in_bytes_per_s\": %.0f}",
            q->device_bytes, q->host_bytes, q->min_buffer, q->hardware.out_bytes_per_ns * 1e9,
            q->hardware.in_bytes_per_ns * 1e9);
}

/* The lines of a plan's file as elements of an array. */
static void put_plan(FILE *f, char *lines)
{
    const char *between = ",\n\"plan\": [";
    for (char *save, *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        fprintf(f, "%s\n%s", between, line);
        between = ",";
    }
    fputs("]", f);
}

void ebb_planned_plan(ebb_device_t *dev, unsigned variant, const ebb_plan_t *plan,
                      const ebb_plan_request_t *request)
{
    struct ebb_planned *known = dev->run->planned;
    char *lines = NULL, *text = NULL;
    size_t bytes;
    if (!is_wanted(variant))
        return;
    FILE *f = open_memstream(&lines, &bytes);
    bool good = f && ebb_plan_write(plan, f);
    if (f && fclose(f))
        good = false;
    if (good && (f = open_memstream(&text, &bytes))) {
        put_request(request, f);
        put_plan(f, lines);
        good = !fclose(f);
    }
    free(lines);
    free(known->variant[variant].plan);
    known->variant[variant].plan = good ? text : (free(text), NULL);
}

void ebb_planned_forget(ebb_device_t *dev, unsigned variant)
{
    struct ebb_planned *known = dev->run->planned;
    free(known->variant[variant].trace);
    free(known->variant[variant].plan);
    known->variant[variant] = (struct planned){0};
}

void ebb_planned_print(ebb_t *ebb, FILE *out)
{
    const char *between = ",\n\"planned\": [";
    for (unsigned i = 0; i < ebb->device_count * EBB_STEP_VARIANTS; i++) {
        ebb_device_t *dev = &ebb->device[i / EBB_STEP_VARIANTS];
        const struct planned *p = dev->run ? &dev->run->planned->variant[i % EBB_STEP_VARIANTS] : NULL;
        if (!p || !p->trace)
            continue;
        fprintf(out, "%s\n{\"variant\": %u, \"trace\": ", between, i);
        put_text(out, p->trace);
        fprintf(out, "%s}", p->plan ? p->plan : "");
        between = ",";
    }
    if (strcmp(between, ",") == 0)
        fputs("]", out);
}
