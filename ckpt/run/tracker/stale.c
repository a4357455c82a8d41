#include "ckpt/run/tracker/tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

enum {
    ENOUGH = 2,            /* launches with junk */
    SETTLED = 3,           /* launches after which a number that was always the same is expected to be */
    SMALL = 4096,          /* numbers below may say how much of a structure is meant, and which part */
    BEHIND = 32,           /* launches on the stream by which a place is known */
    STREAMS = 64,          /* beyond, they share */
    MOST_SHAPES = 1 << 14, /* then all is forgotten */
    MOST_BYTES = 64 << 20, /* the same */
    MOST_NEW = 8, /* small numbers that are new at once: beyond, what the stack remembers is another call's */
    MOST_VALUES = 8,    /* of a small number: beyond, it is none that means words */
    MOST_DOUBTS = 1024, /* of a shape: nothing of it is stale then */
    MOST_PARAM_BYTES = 32768,
    ADDRESS_BITS = 24,   /* below, there is no memory */
    MOST_PARAMETERS = 32 /* among which structures are known */
};

/* A small number that has changed when it seemed persistent. It may mean any word but those that have held junk beside it since. */
typedef struct doubt {
    uint32_t half, value;
    uint64_t *dispelled; /* [words / 64] */
} doubt_t;

/* How a number goes: the same so far; it means nothing; or from PERSISTENT_ONCE, it was the same for a while and has had this many new
 * values since. */
typedef enum { SAME, FREE, PERSISTENT_ONCE } course_t;

/* Words are of 8 bytes, halves of 4; what is behind the last whole half is not looked at. */
typedef struct place {
    uint64_t key;
    uint32_t bytes, launches;
    unsigned char *first; /* [bytes] the first launch's block; what follows is in the same piece of memory */
    uint8_t *junk;        /* [words] launches in which it held junk; up to 255 */
    uint8_t *leads;       /* [words] it has led into a buffer */
    uint8_t *
        course; /* [halves] course_t: the same so far; a small number that was the same for a while; or it means nothing */
} place_t;

/* A kernel with a geometry and so many bytes of arguments. What holds junk at one of its places says what numbers do not mean at
 * the others, too. */
typedef struct shape {
    uint64_t key;
    uint64_t step;
    uint32_t count; /* launches in this step */
    uint32_t doubt_count, doubt_room;
    bool hopeless;
    doubt_t *doubt; /* [doubt_count] */
} shape_t;

/* Of a function. */
typedef struct form {
    uint64_t key;
    ebb_layout_t layout;
} form_t;

/* The last launches on a stream: a polynomial of their shapes. */
typedef struct stream_history {
    const ebb_stream_t *stream;
    uint64_t sum, past[BEHIND];
    uint32_t at;
} stream_history_t;

struct ebb_stale {
    uint64_t step;
    ebb_table_t shapes; /* shape_t */
    stream_history_t history[STREAMS];
    uint32_t history_count;
    ebb_table_t places; /* place_t */
    size_t bytes;       /* of all */
    ebb_table_t forms;  /* form_t */
    /* The operation passed last. */
    uint64_t key;
    shape_t *of;                 /* NULL: no kernel, or no memory */
    stream_history_t *passed;    /* its stream; NULL: none */
    uint64_t sum, oldest;        /* the stream's, before */
    place_t *current;            /* NULL: not viewed, or nothing is known */
    const ebb_operation_t *op;   /* as it was viewed */
    const ebb_operation_t *seen; /* its view; NULL: none yet */
    ebb_operation_t view;
    ebb_access_t *access; /* [access_room] */
    uint32_t access_room;
    uint8_t role[MOST_PARAM_BYTES / 8];     /* of its words: ebb_role_t */
    uint8_t leads[MOST_PARAM_BYTES / 8];    /* of its words: into a buffer */
    unsigned char params[MOST_PARAM_BYTES]; /* the view's */
    bool hinted;
    uint64_t count;
};
const size_t ebb_part_stale = sizeof(struct ebb_stale);

/* ---- places ---- */

static uint64_t shape_of(const ebb_operation_t *op)
{
    return op->kind == EBB_KERNEL ? ebb_mix(op->fine, op->attributes ^ op->param_bytes)
                                  : ebb_mix(op->kind + 1, (uint64_t)(uintptr_t)op->function);
}

static stream_history_t *history_of(struct ebb_stale *stale, const ebb_stream_t *stream)
{
    uint32_t i = 0;
    while (i < stale->history_count && stale->history[i].stream != stream)
        i++;
    if (i == STREAMS)
        return &stale->history[STREAMS - 1];
    if (i == stale->history_count)
        stale->history[stale->history_count++] = (stream_history_t){.stream = stream};
    return &stale->history[i];
}

void ebb_stale_begin_step(ebb_device_t *dev)
{
    struct ebb_stale *stale = dev->run->stale;
    stale->step++;
    stale->history_count = 0;
    ebb_words_forget(dev->ebb);
}

/* The polynomial's, and its 32nd power. */
#define FACTOR    UINT64_C(0x9e3779b97f4a7c15)
#define SQUARE(x) ((x) * (x))
#define OLDEST    SQUARE(SQUARE(SQUARE(SQUARE(SQUARE(FACTOR)))))
_Static_assert(BEHIND == 32, "OLDEST is another power");

void ebb_stale_pass(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_stale *stale = dev->run->stale;
    stale->current = NULL;
    stale->seen = NULL;
    stale->passed = NULL;
    if (!ebb_options.stale_words)
        return;
    if (stale->shapes.count > MOST_SHAPES || stale->bytes > MOST_BYTES)
        ebb_stale_forget(dev);
    stream_history_t *history = history_of(stale, op->stream);
    const uint64_t key = shape_of(op) | 1;
    bool added;
    shape_t *shape =
        op->kind == EBB_KERNEL ? ebb_table_add(&stale->shapes, sizeof *shape, key, &added) : NULL;
    if (shape && shape->step != stale->step) {
        shape->step = stale->step;
        shape->count = 0;
    }
    stale->of = shape;
    stale->key = shape ? ebb_mix(ebb_mix(key, history->sum), shape->count++) | 1 : 0;
    uint64_t *past = &history->past[history->at++ % BEHIND];
    stale->passed = history;
    stale->sum = history->sum;
    stale->oldest = *past;
    history->sum = history->sum * FACTOR + key - *past * OLDEST;
    *past = key;
}

void ebb_stale_take_back(ebb_device_t *dev)
{
    struct ebb_stale *stale = dev->run->stale;
    if (!stale->passed)
        return;
    stale->passed->past[--stale->passed->at % BEHIND] = stale->oldest;
    stale->passed->sum = stale->sum;
    if (stale->of)
        stale->of->count--;
    stale->passed = NULL;
}

/* The one passed last; made now if there is none. NULL: no memory. */
static place_t *here(struct ebb_stale *stale, const ebb_operation_t *op)
{
    bool added;
    place_t *p = ebb_table_add(&stale->places, sizeof *p, stale->key, &added);
    if (!p || !added)
        return p && p->first && p->bytes == op->param_bytes ? p : NULL;
    const uint32_t bytes = (uint32_t)op->param_bytes, words = bytes / 8, halves = bytes / 4;
    p->first = calloc(1, (size_t)bytes + 2 * words + halves);
    if (!p->first)
        return NULL;
    p->junk = p->first + bytes;
    p->leads = p->junk + words;
    p->course = p->leads + words;
    memcpy(p->first, op->params, bytes);
    p->bytes = bytes;
    stale->bytes += sizeof *p + (size_t)bytes + 2 * words + halves;
    return p;
}

void ebb_stale_forget(ebb_device_t *dev)
{
    struct ebb_stale *stale = dev->run->stale;
    place_t *place = stale->places.at;
    shape_t *shape = stale->shapes.at;
    for (size_t i = 0; i < stale->places.room; i++)
        free(place[i].first);
    for (size_t i = 0; i < stale->shapes.room; i++) {
        for (uint32_t k = 0; k < shape[i].doubt_count; k++)
            free(shape[i].doubt[k].dispelled);
        free(shape[i].doubt);
    }
    free(place);
    free(shape);
    free(stale->forms.at);
    stale->places = stale->shapes = stale->forms = (ebb_table_t){0};
    stale->bytes = 0;
    stale->key = 0;
    stale->of = NULL;
    stale->current = NULL;
    stale->seen = NULL;
    stale->history_count = 0;
}

static uint64_t word_at(const unsigned char *block, uint32_t word)
{
    uint64_t value;
    memcpy(&value, block + 8 * (size_t)word, sizeof value);
    return value;
}

static uint32_t half_at(const unsigned char *block, uint32_t half)
{
    uint32_t value;
    memcpy(&value, block + 4 * (size_t)half, sizeof value);
    return value;
}

/* What the structure itself says of the operation's words. */
static void ask_layout(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_stale *stale = dev->run->stale;
    bool added;
    form_t *form = ebb_table_add(&stale->forms, sizeof *form, (uint64_t)(uintptr_t)op->function, &added);
    const char *name = form && added && op->function ? ebb_function_name(dev->ebb, op->function) : NULL;
    ebb_layout_parameter_t parameter[MOST_PARAMETERS];
    uint32_t count = 0;
    while (name && count < MOST_PARAMETERS &&
           ebb_function_parameter(dev->ebb, op->function, count, &parameter[count].offset_bytes,
                                  &parameter[count].size_bytes))
        count++;
    if (name)
        ebb_layout_make(name, parameter, count, &form->layout);
    memset(stale->role, EBB_ROLE_UNKNOWN, op->param_bytes / 8);
    if (form)
        ebb_layout_roles(&form->layout, op->params, op->param_bytes, op->grid, stale->role);
    for (unsigned i = 0; i < op->map_count; i++) {
        memset(stale->role + op->map_at[i] / 8, EBB_ROLE_NUMBER, EBB_TENSOR_MAP_BYTES / 8);
        stale->role[op->map_at[i] / 8] = EBB_ROLE_OPERAND;
    }
}

/* ---- doubts ---- */

static doubt_t *find_doubt(const shape_t *s, uint32_t half, uint32_t value)
{
    for (uint32_t i = 0; i < s->doubt_count; i++)
        if (s->doubt[i].half == half && s->doubt[i].value == value)
            return &s->doubt[i];
    return NULL;
}

static size_t doubt_bytes(uint32_t words)
{
    return sizeof(doubt_t) + (words / 64 + 1) * sizeof(uint64_t);
}

static void add_doubt(struct ebb_stale *stale, shape_t *s, uint32_t words, uint32_t half, uint32_t value)
{
    uint64_t *dispelled = s->doubt_count < MOST_DOUBTS ? calloc(words / 64 + 1, sizeof *dispelled) : NULL;
    doubt_t *d =
        dispelled ? ebb_array_append((void **)&s->doubt, &s->doubt_count, &s->doubt_room, sizeof *d) : NULL;
    if (!d) {
        free(dispelled);
        s->hopeless = true;
        return;
    }
    *d = (doubt_t){half, value, dispelled};
    stale->bytes += doubt_bytes(words);
}

static bool is_doubted(const shape_t *s, uint32_t word, const unsigned char *block)
{
    for (uint32_t i = 0; i < s->doubt_count; i++)
        if (half_at(block, s->doubt[i].half) == s->doubt[i].value &&
            !(s->doubt[i].dispelled[word / 64] >> word % 64 & 1))
            return true;
    return false;
}

/* It holds junk in a launch with these numbers, so that they do not mean it. */
static void dispel(shape_t *s, uint32_t word, const unsigned char *block)
{
    for (uint32_t i = 0; i < s->doubt_count; i++)
        if (half_at(block, s->doubt[i].half) == s->doubt[i].value)
            s->doubt[i].dispelled[word / 64] |= (uint64_t)1 << word % 64;
}

/* It means nothing, as it varies. */
static void set_free(struct ebb_stale *stale, place_t *p, uint32_t half)
{
    uint32_t kept = 0;
    const bool persistent = p->course[half] >= PERSISTENT_ONCE;
    for (uint32_t i = 0; persistent && i < stale->of->doubt_count; i++) {
        if (stale->of->doubt[i].half != half) {
            stale->of->doubt[kept++] = stale->of->doubt[i];
            continue;
        }
        free(stale->of->doubt[i].dispelled);
        stale->bytes -= doubt_bytes(p->bytes / 8);
    }
    stale->of->doubt_count = persistent ? kept : stale->of->doubt_count;
    p->course[half] = FREE;
}

/* A small number that was the same in all launches, or has been so for a while, is another small one now. */
static bool is_new(struct ebb_stale *stale, const place_t *p, const unsigned char *block, uint32_t half)
{
    const uint32_t was = half_at(p->first, half), is = half_at(block, half);
    return was != is && was < SMALL && is < SMALL &&
           (p->course[half] == SAME ? p->launches >= SETTLED
                                    : p->course[half] >= PERSISTENT_ONCE && !find_doubt(stale->of, half, is));
}

/* That may mean words. */
static bool is_number(struct ebb_stale *stale, const place_t *p, const uint8_t *leads, uint32_t half)
{
    const uint32_t word = half / 2;
    return word >= p->bytes / 8 || (stale->role[word] == EBB_ROLE_UNKNOWN && !leads[word] && !p->leads[word]);
}

static void note_numbers(struct ebb_stale *stale, place_t *p, const unsigned char *block,
                         const uint8_t *leads)
{
    const uint32_t halves = p->bytes / 4;
    uint32_t list[MOST_NEW + 1], count = 0;
    for (uint32_t h = 0; h < halves && count <= MOST_NEW; h++)
        if (is_number(stale, p, leads, h) && is_new(stale, p, block, h))
            list[count++] = h;
    if (count > MOST_NEW)
        memset(p->junk, 0, p->bytes / 8);
    for (uint32_t i = 0; count <= MOST_NEW && i < count; i++) {
        p->course[list[i]] = p->course[list[i]] == SAME ? PERSISTENT_ONCE : (uint8_t)(p->course[list[i]] + 1);
        if (p->course[list[i]] == PERSISTENT_ONCE + MOST_VALUES)
            set_free(stale, p, list[i]);
        else if (!find_doubt(stale->of, list[i], half_at(block, list[i])))
            add_doubt(stale, stale->of, p->bytes / 8, list[i], half_at(block, list[i]));
    }
    for (uint32_t h = 0; h < halves; h++) {
        const uint32_t is = half_at(block, h);
        if (is != half_at(p->first, h) && is_number(stale, p, leads, h) &&
            (p->course[h] == SAME || (p->course[h] >= PERSISTENT_ONCE && is >= SMALL)))
            set_free(stale, p, h);
    }
}

/* ---- what a launch says ---- */

static bool is_left_over(struct ebb_stale *stale, const place_t *p, uint32_t word, const unsigned char *block)
{
    return stale->role[word] != EBB_ROLE_UNKNOWN
               ? stale->role[word] != EBB_ROLE_OPERAND
               : p->junk[word] >= ENOUGH && p->launches > SETTLED && !stale->of->hopeless &&
                     !is_doubted(stale->of, word, block);
}

static void learn(ebb_device_t *dev, place_t *p, const ebb_operation_t *op, const uint8_t *leads)
{
    struct ebb_stale *stale = dev->run->stale;
    note_numbers(stale, p, op->params, leads);
    for (uint32_t w = 0; w < p->bytes / 8; w++) {
        if (stale->role[w] != EBB_ROLE_UNKNOWN)
            continue;
        if (leads[w]) {
            p->leads[w] = 1;
        } else if (ebb_word_is_junk(dev, word_at(op->params, w), p->leads[w])) {
            p->junk[w] = (uint8_t)(p->junk[w] + (p->junk[w] < UINT8_MAX));
            dispel(stale->of, w, op->params);
        }
    }
    p->launches++;
}

/* In the view. */
static void lead_nowhere(ebb_device_t *dev, const ebb_operation_t *op, uint32_t word)
{
    struct ebb_stale *stale = dev->run->stale;
    const CUdeviceptr nowhere = ebb_nowhere(dev->ebb, word_at(op->params, word));
    if (stale->view.params != stale->params)
        memcpy(stale->params, op->params, op->param_bytes);
    memcpy(stale->params + 8 * (size_t)word, &nowhere, sizeof nowhere);
    stale->view.params = stale->params;
}

/* Its accesses but those of words that are stale. A word that its structure says is not filled in leads nowhere from here on, also if it
 * led to memory that is not ebb's: so it is not taken for a pointer to that. */
static const ebb_operation_t *without(ebb_device_t *dev, const place_t *p, const ebb_operation_t *op)
{
    struct ebb_stale *stale = dev->run->stale;
    uint32_t kept = 0;
    if (op->access_count > stale->access_room) {
        ebb_access_t *grown = realloc(stale->access, op->access_count * sizeof *grown);
        if (!grown)
            return op;
        stale->access = grown;
        stale->access_room = op->access_count;
    }
    stale->view = *op;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const uint32_t word = op->access[i].param_offset / 8;
        if (!is_left_over(stale, p, word, op->params))
            stale->access[kept++] = op->access[i];
        else if (stale->role[word] == EBB_ROLE_UNKNOWN)
            lead_nowhere(dev, op, word);
    }
    for (uint32_t w = 0; w < p->bytes / 8; w++)
        if (stale->role[w] == EBB_ROLE_UNUSED && word_at(op->params, w) >> ADDRESS_BITS)
            lead_nowhere(dev, op, w);
    if (kept == op->access_count && stale->view.params == op->params)
        return op;
    stale->count += op->access_count - kept;
    stale->view.access = stale->access;
    stale->view.access_count = kept;
    return &stale->view;
}

const ebb_operation_t *ebb_stale_view(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_stale *stale = dev->run->stale;
    uint8_t *leads = stale->leads;
    if (stale->seen)
        return stale->seen;
    stale->seen = stale->op = op;
    if (!ebb_options.stale_words || op->kind != EBB_KERNEL || !op->structures || op->opaque || !op->plain ||
        !stale->key || op->param_bytes < 8 || op->param_bytes > MOST_PARAM_BYTES)
        return op;
    place_t *p = stale->current = here(stale, op);
    if (!p)
        return op;
    ask_layout(dev, op);
    memset(leads, 0, p->bytes / 8);
    for (uint32_t i = 0; i < op->access_count; i++)
        leads[op->access[i].param_offset / 8] = 1;
    learn(dev, p, op, leads);
    return stale->seen = without(dev, p, op);
}

bool ebb_stale_is(ebb_device_t *dev, uint32_t param_offset)
{
    struct ebb_stale *stale = dev->run->stale;
    return stale->current && stale->seen &&
           (is_left_over(stale, stale->current, param_offset / 8, stale->op->params) ||
            ebb_word_is_junk(dev, word_at(stale->op->params, param_offset / 8), true));
}

void ebb_stale_describe(ebb_device_t *dev, uint32_t param_offset, char *out, size_t size)
{
    struct ebb_stale *stale = dev->run->stale;
    uint32_t doubts = 0;
    const place_t *p = stale->seen ? stale->current : NULL;
    for (uint32_t i = 0; p && i < stale->of->doubt_count; i++)
        doubts += !(stale->of->doubt[i].dispelled[param_offset / 512] >> param_offset / 8 % 64 & 1);
    if (p && stale->role[param_offset / 8] != EBB_ROLE_UNKNOWN)
        snprintf(out, size, "argument word %u: by its structure %s", param_offset,
                 stale->role[param_offset / 8] == EBB_ROLE_OPERAND  ? "meant"
                 : stale->role[param_offset / 8] == EBB_ROLE_NUMBER ? "a number"
                                                                    : "not filled in");
    else if (p)
        snprintf(out, size, "argument word %u: junk in %u of %u launches here, %u doubts%s", param_offset,
                 p->junk[param_offset / 8], p->launches, doubts,
                 is_doubted(stale->of, param_offset / 8, stale->op->params) ? ", also now" : "");
    else
        snprintf(out, size, "argument word %u", param_offset);
}

void ebb_stale_hint(ebb_device_t *dev, CUresult result)
{
    struct ebb_stale *stale = dev->run->stale;
    if (result == CUDA_ERROR_ILLEGAL_ADDRESS && stale->count && !stale->hinted)
        ebb_log(EBB_WARN, "the device has faulted, perhaps at a word of a kernel's arguments that had always "
                          "held junk, and was taken for no operand; with EBB_STALE_WORDS=0 all count");
    stale->hinted |= result == CUDA_ERROR_ILLEGAL_ADDRESS;
}

uint64_t ebb_stale_count(ebb_device_t *dev)
{
    struct ebb_stale *stale = dev->run->stale;
    return stale->count;
}
