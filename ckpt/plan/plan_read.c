/* plan_read.c: reading a plan; see plan.h for the format. libebb.so reads plans too (EBB_PLAN), and it loads no library: so the
 * JSON of a line is taken apart here, as far as plans have any: objects of numbers, words and lists of numbers. What else a key
 * holds is passed over. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/plan/plan.h"

enum { MOST_FIELDS = 32, DEEPEST = 8 };

typedef struct field {
    const char *key, *value; /* of the key, behind the quote */
    size_t key_length;
} field_t;

typedef struct reader {
    FILE *in;
    char *line;
    size_t room;
    unsigned number; /* of the line read last, from 1 */
    field_t field[MOST_FIELDS];
    unsigned field_count;
    char *error;
    size_t error_size;
} reader_t;

/* Leaves "line N: ..." in `error`. Always false. */
__attribute__((format(printf, 2, 3))) static bool complain(reader_t *r, const char *format, ...)
{
    va_list list;
    int n = snprintf(r->error, r->error_size, "line %u: ", r->number);
    va_start(list, format);
    if (n >= 0 && (size_t)n < r->error_size)
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, list);
    va_end(list);
    return false;
}

/* ---- a line ---- */

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Behind a string that begins here, or NULL. */
static const char *skip_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    while (*at && *at != '"')
        at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : NULL;
}

/* Behind any value, or NULL: there is none. */
static const char *skip_value(const char *at, int depth)
{
    if (*at == '"')
        return skip_string(at);
    if (*at != '[' && *at != '{') {
        const size_t length = strspn(at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
        return length ? at + length : NULL;
    }
    const char end = *at == '[' ? ']' : '}';
    at = skip_space(at + 1);
    if (*at == end)
        return at + 1;
    while (at && depth < DEEPEST) {
        if (end == '}') {
            at = skip_string(at);
            at = at ? skip_space(at) : NULL;
            if (!at || *at != ':')
                return NULL;
            at = skip_space(at + 1);
        }
        at = skip_value(at, depth + 1);
        at = at ? skip_space(at) : NULL;
        if (!at || *at == end)
            return at ? at + 1 : NULL;
        at = *at == ',' ? skip_space(at + 1) : NULL;
    }
    return NULL;
}

static bool take_apart(reader_t *r)
{
    const char *at = skip_space(r->line);
    r->field_count = 0;
    if (*at++ != '{')
        return false;
    for (at = skip_space(at); *at != '}'; at = skip_space(at + 1)) {
        const char *key = at + 1, *end = skip_string(at);
        at = end ? skip_space(end) : NULL;
        if (!at || *at != ':')
            return false;
        const char *value = skip_space(at + 1);
        at = skip_value(value, 0);
        if (!at)
            return false;
        if (r->field_count < MOST_FIELDS)
            r->field[r->field_count++] = (field_t){key, value, (size_t)(end - 1 - key)};
        at = skip_space(at);
        if (*at == '}')
            break;
        if (*at != ',')
            return false;
    }
    return !*skip_space(at + 1);
}

static bool next_line(reader_t *r)
{
    r->number++;
    const ssize_t length = getline(&r->line, &r->room, r->in);
    if (length < 0)
        return complain(r, ferror(r->in) ? "cannot be read" : "the file ends here, it is cut short");
    return (strlen(r->line) == (size_t)length && take_apart(r)) || complain(r, "not a JSON object");
}

/* The value of a key, or an empty text. */
static const char *value_of(const reader_t *r, const char *key)
{
    for (unsigned i = 0; i < r->field_count; i++)
        if (r->field[i].key_length == strlen(key) && !memcmp(r->field[i].key, key, r->field[i].key_length))
            return r->field[i].value;
    return "";
}

/* A whole number up to `most`; moves behind it. */
static bool whole(const char **at, uint64_t most, uint64_t *out)
{
    uint64_t n = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (n > (UINT64_C(1) << 58))
            return false;
        n = 10 * n + (uint64_t)(*digit - '0');
    }
    const bool good = digit != *at && n <= most && (!*digit || !strchr(".eE+-", *digit));
    *at = digit;
    *out = n;
    return good;
}

static bool get(reader_t *r, const char *key, uint64_t most, uint64_t *out)
{
    const char *at = value_of(r, key);
    return whole(&at, most, out) || complain(r, "\"%s\" is not a number from 0 to %" PRIu64, key, most);
}

static bool is_word(const char *value, const char *word)
{
    const size_t length = strlen(word);
    return value[0] == '"' && !strncmp(value + 1, word, length) && value[1 + length] == '"';
}

/* An index below `count`, or null: EBB_NONE. */
static bool get_index(reader_t *r, const char *key, uint64_t count, uint32_t *out)
{
    uint64_t n;
    const char *at = value_of(r, key);
    *out = EBB_NONE;
    if (!strncmp(at, "null", 4))
        return true;
    if (!whole(&at, UINT32_MAX, &n) || n >= count)
        return complain(r, "\"%s\" is neither null nor a number below %" PRIu64, key, count);
    *out = (uint32_t)n;
    return true;
}

/* Which of `count` words a value is; `count` if none. */
static unsigned get_word(const reader_t *r, const char *key, const char *const *words, unsigned count)
{
    unsigned i = 0;
    while (i < count && !is_word(value_of(r, key), words[i]))
        i++;
    return i;
}

/* Goes on to the first element of a list, or to the next one: false, there is none. `at` is NULL if this is no list. */
static bool first_of(const char **at)
{
    if (**at != '[') {
        *at = NULL;
        return false;
    }
    *at = skip_space(*at + 1);
    return **at != ']';
}

static bool next_of(const char **at)
{
    *at = skip_space(*at);
    const bool more = **at == ',';
    *at = skip_space(*at + 1);
    return more;
}

/* ---- what the lines say ---- */

static bool read_place(reader_t *r, ebb_plan_t *p)
{
    static const char *const starts[] = {"none", "device", "host"};
    uint64_t index, bytes, chunk;
    ebb_place_t *place = ebb_plan_add_place(p);
    if (!place)
        return complain(r, "out of memory");
    if (!get(r, "place", UINT32_MAX, &index) || !get(r, "bytes", UINT64_C(1) << 53, &bytes) ||
        !get_index(r, "small_offset", UINT32_MAX, &place->small_offset) ||
        (*value_of(r, "until") && !get_index(r, "until", p->operation_count + UINT64_C(1), &place->until)))
        return false;
    if (index != p->place_count - 1)
        return complain(r, "place %" PRIu64 " is out of order", index);
    place->bytes = bytes;
    place->at_start = (ebb_start_t)get_word(r, "start", starts, 3);
    if (place->at_start > EBB_ON_HOST)
        return complain(r, "\"start\" is missing or unknown");
    const char *at = value_of(r, "chunks");
    for (bool more = first_of(&at); more; more = next_of(&at)) {
        if (!whole(&at, UINT32_MAX, &chunk) || chunk >= p->chunk_count)
            return complain(r, "a chunk is not a number below %" PRIu32, p->chunk_count);
        if (!ebb_plan_add_chunk(p, place, (uint32_t)chunk))
            return complain(r, "out of memory");
    }
    return at || complain(r, "\"chunks\" is not a list");
}

static bool read_waits(reader_t *r, ebb_plan_t *p, ebb_action_t *a, uint64_t actions)
{
    const char *at = value_of(r, "waits");
    for (bool more = first_of(&at); more; more = next_of(&at)) {
        uint64_t other;
        if (a->kind != EBB_EVICT && a->kind != EBB_FETCH)
            return complain(r, "\"waits\" is not empty where nothing waits");
        if (!whole(&at, UINT32_MAX, &other) || other >= actions)
            return complain(r, "a wait is not a number below %" PRIu64, actions);
        if (!ebb_plan_add_wait(p, a, (uint32_t)other))
            return complain(r, "out of memory");
    }
    return at || complain(r, "\"waits\" is not a list");
}

static bool read_redirects(reader_t *r, ebb_plan_t *p, ebb_action_t *a)
{
    const char *at = value_of(r, "redirect");
    for (bool more = first_of(&at); more; more = next_of(&at)) {
        uint64_t buffer, place;
        if (a->kind != EBB_REPLAY)
            return complain(r, "\"redirect\" is not empty where nothing is launched");
        const bool good = first_of(&at) && whole(&at, UINT32_MAX, &buffer) && next_of(&at) &&
                          whole(&at, UINT32_MAX, &place) && *skip_space(at) == ']' &&
                          buffer < p->buffer_count && place < p->place_count;
        if (!good)
            return complain(r, "a redirection is not [buffer, place]");
        at = skip_space(at) + 1;
        if (!ebb_plan_add_redirect(p, a, (uint32_t)buffer, (uint32_t)place))
            return complain(r, "out of memory");
    }
    return at || complain(r, "\"redirect\" is not a list");
}

/* A list of streams as bits; missing: what the action has by itself. */
static bool read_streams(reader_t *r, const char *key, uint32_t *streams)
{
    const char *at = value_of(r, key);
    uint64_t stream;
    if (!*at)
        return true;
    *streams = 0;
    for (bool more = first_of(&at); more; more = next_of(&at)) {
        if (!whole(&at, EBB_PLAN_STREAMS - 1, &stream))
            return complain(r, "a stream in \"%s\" is not a number below %d", key, EBB_PLAN_STREAMS);
        *streams |= UINT32_C(1) << stream;
    }
    return at || complain(r, "\"%s\" is not a list", key);
}

static bool read_stream(reader_t *r, ebb_action_t *a)
{
    uint64_t stream = 0;
    if (*value_of(r, "stream") && !get(r, "stream", EBB_PLAN_STREAMS - 1, &stream))
        return false;
    a->stream = (uint32_t)stream;
    return read_streams(r, "after", &a->after) && read_streams(r, "joiners", &a->joiners);
}

static bool read_action(reader_t *r, ebb_plan_t *p, uint64_t actions)
{
    const unsigned kind = get_word(r, "kind", ebb_action_word, EBB_ACTION_KINDS);
    uint64_t index, point;
    if (kind == EBB_ACTION_KINDS)
        return complain(r, "\"kind\" is missing or unknown");
    if (!get(r, "action", UINT32_MAX, &index) || !get(r, "point", p->operation_count, &point))
        return false;
    if (index != p->action_count)
        return complain(r, "action %" PRIu64 " is out of order", index);
    ebb_action_t *a = ebb_plan_add_action(p, (ebb_action_kind_t)kind, (uint32_t)point);
    if (!a)
        return complain(r, "out of memory");
    if (!get_index(r, "place", p->place_count, &a->place) ||
        !get_index(r, "operation", p->operation_count, &a->operation) ||
        !get_index(r, "join", p->operation_count, &a->join))
        return false;
    const bool launches = a->kind == EBB_REPLAY, copies = a->kind == EBB_EVICT || a->kind == EBB_FETCH;
    if (launches != (a->operation != EBB_NONE) ||
        (launches || a->kind == EBB_ORDER) != (a->place == EBB_NONE) || (!copies && a->join != EBB_NONE))
        return complain(r, "\"place\", \"operation\" and \"join\" do not go with the kind");
    if (index && point < p->action[p->action_count - 2].point)
        return complain(r, "the actions are not in the order of their points");
    return read_stream(r, a) && read_waits(r, p, a, actions) && read_redirects(r, p, a);
}

/* The first line; how many places and actions follow. */
static bool read_head(reader_t *r, ebb_plan_t *p, uint64_t *places, uint64_t *actions)
{
    uint64_t version, chunks, operations, buffers;
    if (!next_line(r))
        return false;
    const char *at = value_of(r, "ebb_plan");
    if (!whole(&at, UINT32_MAX, &version))
        return complain(r, "this is not a plan of ebb");
    if (version != EBB_PLAN_VERSION)
        return complain(r, "version %" PRIu64 " of the format; this ebb reads %d", version, EBB_PLAN_VERSION);
    if (!get(r, "chunk_bytes", 1 << 30, &p->chunk_bytes) || !get(r, "chunks", UINT32_MAX - 1, &chunks) ||
        !get(r, "small_bytes", UINT64_C(1) << 53, &p->small_bytes) ||
        !get(r, "operations", UINT32_MAX - 1, &operations) || !get(r, "buffers", UINT32_MAX - 1, &buffers) ||
        !get(r, "places", UINT32_MAX - 1, places) || !get(r, "actions", UINT32_MAX - 1, actions) ||
        !get(r, "predicted_ns", UINT64_C(1) << 53, &p->predicted_ns))
        return false;
    if (*places < buffers)
        return complain(r, "fewer places than buffers");
    p->anew = !strncmp(value_of(r, "anew"), "true", 4);
    p->chunk_count = (uint32_t)chunks;
    p->operation_count = (uint32_t)operations;
    p->buffer_count = (uint32_t)buffers;
    return true;
}

ebb_plan_t *ebb_plan_read(FILE *in, char *error, size_t error_size)
{
    reader_t r = {.in = in, .error = error, .error_size = error_size};
    ebb_plan_t *p = calloc(1, sizeof *p);
    uint64_t places = 0, actions = 0;
    bool good = p ? read_head(&r, p, &places, &actions) : complain(&r, "out of memory");
    for (uint64_t i = 0; good && i < places + actions; i++)
        good = next_line(&r) && (i < places ? read_place(&r, p) : read_action(&r, p, actions));
    free(r.line);
    if (good)
        return p;
    ebb_plan_delete(p);
    return NULL;
}
