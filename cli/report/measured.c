/* measured.c: see measured.h. */
#include "cli/report/measured.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 28 };

bool ebb_measured_is(FILE *in)
{
    char begin[32] = "";
    const size_t n = fread(begin, 1, sizeof begin - 1, in);
    rewind(in);
    begin[n] = 0;
    return !strncmp(begin, "{\"budget_bytes\":", 16);
}

/* The caller's, zero-terminated; NULL: it cannot be read, or is too long. */
static char *read_all(FILE *in)
{
    char *text = NULL;
    size_t used = 0, room = 0;
    for (;;) {
        if (used + 1 >= room) {
            room = room ? 2 * room : 1 << 14;
            char *grown = room <= MOST_BYTES ? realloc(text, room) : NULL;
            if (!grown)
                break;
            text = grown;
        }
        const size_t n = fread(text + used, 1, room - used - 1, in);
        used += n;
        if (!n && !ferror(in)) {
            text[used] = 0;
            return text;
        }
        if (!n)
            break;
    }
    free(text);
    return NULL;
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 9e15 ? item->valuedouble : 0;
}

static char *copy_text(const cJSON *o, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, key));
    return text ? strdup(text) : NULL;
}

/* The elements of "plan" are the lines of a plan's file. False: there is one and it is not good. */
static bool read_plan(ebb_measured_t *m, const cJSON *lines, char *error, size_t error_size)
{
    char *file = NULL, why[200];
    size_t bytes = 0;
    const cJSON *line;
    if (!cJSON_IsArray(lines))
        return true;
    FILE *f = open_memstream(&file, &bytes);
    cJSON_ArrayForEach(line, lines)
    {
        char *printed = f ? cJSON_PrintUnformatted(line) : NULL;
        if (printed)
            fprintf(f, "%s\n", printed);
        free(printed);
    }
    if (f)
        fclose(f);
    f = bytes ? fmemopen(file, bytes, "r") : NULL;
    m->plan = f ? ebb_plan_read(f, why, sizeof why) : NULL;
    if (!m->plan)
        snprintf(error, error_size, "the plan in it: %s", f ? why : "it is empty");
    if (f)
        fclose(f);
    free(file);
    return m->plan;
}

static bool read_numbers(ebb_measured_t *m, const cJSON *o, char *error, size_t error_size)
{
#define X(key, meaning)                                                                                      \
    if (!cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(o, #key))) {                                        \
        snprintf(error, error_size,                                                                          \
                 "these are no statistics, or those of another version of ebb: \"" #key "\" is missing");    \
        return false;                                                                                        \
    }                                                                                                        \
    m->statistics.key = (uint64_t)number(o, #key);
    EBB_STATISTICS(X)
#undef X
    return true;
}

static ebb_variant_statistics_t variant_of(const cJSON *o, double number_of_it)
{
    ebb_variant_statistics_t v = {0};
    const cJSON *k;
    cJSON_ArrayForEach(k, cJSON_GetObjectItemCaseSensitive(o, "variants"))
    {
        if (number(k, "variant") != number_of_it)
            continue;
#define X(key, meaning) v.key = (uint64_t)number(k, #key);
        EBB_VARIANT_STATISTICS(X)
#undef X
    }
    return v;
}

/* Whether one is more of what the program does than another: by their time, if both have been timed, else by their operations. Plans come
 * first. */
static bool is_more(const ebb_variant_statistics_t *a, bool a_planned, const ebb_variant_statistics_t *b,
                    bool b_planned)
{
    if (a_planned != b_planned)
        return a_planned;
    if (a->driven_timed && b->driven_timed)
        return (double)a->driven_ns / (double)a->driven_timed * (double)a->count >
               (double)b->driven_ns / (double)b->driven_timed * (double)b->count;
    if (!a->driven != !b->driven)
        return a->driven;
    return a->period * a->count > b->period * b->count;
}

/* The element of "planned" that is wanted, or NULL. */
static const cJSON *choose(const cJSON *o, int wanted, ebb_variant_statistics_t *out)
{
    const cJSON *p, *best = NULL;
    cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(o, "planned"))
    {
        const ebb_variant_statistics_t v = variant_of(o, number(p, "variant"));
        if (wanted < 0
                ? best && !is_more(&v, cJSON_HasObjectItem(p, "plan"), out, cJSON_HasObjectItem(best, "plan"))
                : number(p, "variant") != wanted)
            continue;
        best = p;
        *out = v;
    }
    return best;
}

/* A report is about one variant: of what is counted on devices, its own device's. */
static void take_device(ebb_measured_t *m, const cJSON *o)
{
    const cJSON *d;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(o, "devices"))
    {
        if (number(d, "device") != (double)m->variant.device)
            continue;
#define X(key) m->statistics.key = (uint64_t)number(d, #key);
        EBB_SUMMED_STATISTICS(X)
#undef X
    }
}

static bool read_variant(ebb_measured_t *m, const cJSON *o, int wanted, char *error, size_t error_size)
{
    const cJSON *p = choose(o, wanted, &m->variant),
                *request = cJSON_GetObjectItemCaseSensitive(p, "request");
    if (!p && wanted >= 0) {
        snprintf(error, error_size, "it names no trace of a step of kind %d", wanted);
        return false;
    }
    if (p)
        take_device(m, o);
    m->trace = copy_text(p, "trace");
    m->policy = copy_text(request, "policy");
    m->device_bytes = (uint64_t)number(request, "device_bytes");
    m->min_buffer = (uint64_t)number(request, "min_buffer");
    m->out_bytes_per_ns = number(request, "out_bytes_per_s") * 1e-9;
    m->in_bytes_per_ns = number(request, "in_bytes_per_s") * 1e-9;
    m->has_request = m->out_bytes_per_ns > 0 && m->in_bytes_per_ns > 0;
    return read_plan(m, cJSON_GetObjectItemCaseSensitive(p, "plan"), error, error_size);
}

ebb_measured_t *ebb_measured_read(FILE *in, int variant, char *error, size_t error_size)
{
    char *text = read_all(in);
    cJSON *o = text ? cJSON_Parse(text) : NULL;
    ebb_measured_t *m = calloc(1, sizeof *m);
    free(text);
    bool good = m && cJSON_IsObject(o);
    if (!good)
        snprintf(error, error_size, "not a JSON object: these are no statistics, or only a part of them");
    good = good && read_numbers(m, o, error, error_size) && read_variant(m, o, variant, error, error_size);
    cJSON_Delete(o);
    if (good)
        return m;
    ebb_measured_delete(m);
    return NULL;
}

bool ebb_measured_has_fitted(const ebb_measured_t *m)
{
    return !m->statistics.evictions && !m->statistics.reactive_drops && !m->statistics.plans;
}

void ebb_measured_delete(ebb_measured_t *m)
{
    if (!m)
        return;
    free(m->trace);
    free(m->policy);
    ebb_plan_delete(m->plan);
    free(m);
}
