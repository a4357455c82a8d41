/* plan_read.c: reading a plan; see plan.h for the format. Only tools read plans, so the JSON library stays
 * out of libebb.so. */
#include <stdlib.h>

#include "json_lines.h"
#include "plan.h"

static bool read_place(ebb_lines_t *r, ebb_plan_t *p, const cJSON *o)
{
    static const char *const starts[] = {"none", "device", "host"};
    double index, bytes;
    ebb_place_t *place = ebb_plan_add_place(p);
    if (!place)
        return ebb_lines_complain(r, "out of memory");
    if (!ebb_lines_get(r, o, "place", UINT32_MAX, &index) ||
        !ebb_lines_get(r, o, "bytes", EBB_LINES_EXACT, &bytes) ||
        !ebb_lines_get_index(r, o, "small_offset", UINT32_MAX - 1, &place->small_offset))
        return false;
    if (index != p->place_count - 1)
        return ebb_lines_complain(r, "place %.0f is out of order", index);
    place->bytes = (uint64_t)bytes;
    place->at_start = (ebb_start_t)ebb_lines_word(cJSON_GetObjectItemCaseSensitive(o, "start"), starts, 3);
    if (place->at_start > EBB_ON_HOST)
        return ebb_lines_complain(r, "\"start\" is missing or unknown");

    const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "chunks"), *item;
    if (!cJSON_IsArray(list))
        return ebb_lines_complain(r, "\"chunks\" is not a list");
    cJSON_ArrayForEach(item, list)
    {
        double chunk;
        if (!ebb_lines_whole(item, UINT32_MAX, &chunk) || chunk >= p->chunk_count)
            return ebb_lines_complain(r, "a chunk is not a number below %u", p->chunk_count);
        if (!ebb_plan_add_chunk(p, place, (uint32_t)chunk))
            return ebb_lines_complain(r, "out of memory");
    }
    return true;
}

static bool read_waits(ebb_lines_t *r, ebb_plan_t *p, ebb_action_t *a, const cJSON *list, double actions)
{
    const cJSON *item;
    if (!cJSON_IsArray(list) || (cJSON_GetArraySize(list) && a->kind != EBB_EVICT && a->kind != EBB_FETCH))
        return ebb_lines_complain(r, "\"waits\" is not a list, or not empty where nothing waits");
    cJSON_ArrayForEach(item, list)
    {
        double other;
        if (!ebb_lines_whole(item, UINT32_MAX, &other) || other >= actions)
            return ebb_lines_complain(r, "a wait is not a number below %.0f", actions);
        if (!ebb_plan_add_wait(p, a, (uint32_t)other))
            return ebb_lines_complain(r, "out of memory");
    }
    return true;
}

static bool read_redirects(ebb_lines_t *r, ebb_plan_t *p, ebb_action_t *a, const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list) || (cJSON_GetArraySize(list) && a->kind != EBB_REPLAY))
        return ebb_lines_complain(r, "\"redirect\" is not a list, or not empty where nothing is launched");
    cJSON_ArrayForEach(item, list)
    {
        double buffer, place;
        if (cJSON_GetArraySize(item) != 2 ||
            !ebb_lines_whole(cJSON_GetArrayItem(item, 0), UINT32_MAX, &buffer) ||
            !ebb_lines_whole(cJSON_GetArrayItem(item, 1), UINT32_MAX, &place) || buffer >= p->buffer_count ||
            place >= p->place_count)
            return ebb_lines_complain(r, "a redirection is not [buffer, place]");
        if (!ebb_plan_add_redirect(p, a, (uint32_t)buffer, (uint32_t)place))
            return ebb_lines_complain(r, "out of memory");
    }
    return true;
}

static bool read_action(ebb_lines_t *r, ebb_plan_t *p, const cJSON *o, double actions)
{
    static const char *const kinds[] = {"evict", "fetch", "discard", "replay"};
    double index, point;
    unsigned kind = ebb_lines_word(cJSON_GetObjectItemCaseSensitive(o, "kind"), kinds, 4);
    if (kind > EBB_REPLAY)
        return ebb_lines_complain(r, "\"kind\" is missing or unknown");
    if (!ebb_lines_get(r, o, "action", UINT32_MAX, &index) ||
        !ebb_lines_get(r, o, "point", p->operation_count, &point))
        return false;
    if (index != p->action_count)
        return ebb_lines_complain(r, "action %.0f is out of order", index);
    ebb_action_t *a = ebb_plan_add_action(p, (ebb_action_kind_t)kind, (uint32_t)point);
    if (!a)
        return ebb_lines_complain(r, "out of memory");
    if (!ebb_lines_get_index(r, o, "place", (double)p->place_count - 1, &a->place) ||
        !ebb_lines_get_index(r, o, "operation", (double)p->operation_count - 1, &a->operation) ||
        !ebb_lines_get_index(r, o, "join", (double)p->operation_count - 1, &a->join))
        return false;
    bool launches = a->kind == EBB_REPLAY, copies = a->kind == EBB_EVICT || a->kind == EBB_FETCH;
    if (launches != (a->operation != EBB_TRACE_NEVER) || launches != (a->place == EBB_TRACE_NEVER) ||
        (!copies && a->join != EBB_TRACE_NEVER))
        return ebb_lines_complain(r, "\"place\", \"operation\" and \"join\" do not go with the kind");
    if (index && point < p->action[p->action_count - 2].point)
        return ebb_lines_complain(r, "the actions are not in the order of their points");
    return read_waits(r, p, a, cJSON_GetObjectItemCaseSensitive(o, "waits"), actions) &&
           read_redirects(r, p, a, cJSON_GetObjectItemCaseSensitive(o, "redirect"));
}

/* The first line; how many places and actions follow. */
static bool read_head(ebb_lines_t *r, ebb_plan_t *p, double *places, double *actions)
{
    double version, chunk_bytes, chunks, small, operations, buffers, predicted;
    cJSON *o = ebb_lines_next(r);
    bool good = o && (ebb_lines_get(r, o, "ebb_plan", UINT32_MAX, &version) ||
                      ebb_lines_complain(r, "this is not a plan of ebb"));
    if (good && version != EBB_PLAN_VERSION)
        good =
            ebb_lines_complain(r, "version %.0f of the format; this ebb reads %d", version, EBB_PLAN_VERSION);
    good = good && ebb_lines_get(r, o, "chunk_bytes", 1 << 30, &chunk_bytes) &&
           ebb_lines_get(r, o, "chunks", UINT32_MAX - 1, &chunks) &&
           ebb_lines_get(r, o, "small_bytes", EBB_LINES_EXACT, &small) &&
           ebb_lines_get(r, o, "operations", UINT32_MAX - 1, &operations) &&
           ebb_lines_get(r, o, "buffers", UINT32_MAX - 1, &buffers) &&
           ebb_lines_get(r, o, "places", UINT32_MAX - 1, places) &&
           ebb_lines_get(r, o, "actions", UINT32_MAX - 1, actions) &&
           ebb_lines_get(r, o, "predicted_ns", EBB_LINES_EXACT, &predicted);
    cJSON_Delete(o);
    if (!good)
        return false;
    if (*places < buffers)
        return ebb_lines_complain(r, "fewer places than buffers");
    p->chunk_bytes = (uint64_t)chunk_bytes;
    p->chunk_count = (uint32_t)chunks;
    p->small_bytes = (uint64_t)small;
    p->operation_count = (uint32_t)operations;
    p->buffer_count = (uint32_t)buffers;
    p->predicted_ns = (uint64_t)predicted;
    return true;
}

static bool read_all(ebb_lines_t *r, ebb_plan_t *p)
{
    double places, actions;
    if (!read_head(r, p, &places, &actions))
        return false;
    bool good = true;
    for (double i = 0; good && i < places + actions; i++) {
        cJSON *o = ebb_lines_next(r);
        good = o && (i < places ? read_place(r, p, o) : read_action(r, p, o, actions));
        cJSON_Delete(o);
    }
    return good;
}

ebb_plan_t *ebb_plan_read(FILE *in, char *error, size_t error_size)
{
    ebb_lines_t r = {.in = in, .error = error, .error_size = error_size};
    ebb_plan_t *p = calloc(1, sizeof *p);
    bool good = p ? read_all(&r, p) : ebb_lines_complain(&r, "out of memory");
    free(r.line);
    if (good)
        return p;
    ebb_plan_delete(p);
    return NULL;
}
