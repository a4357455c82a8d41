#include "ckpt/run/replay/replay.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/replay/internal.h"
#include "ckpt/run/state.h"

enum { TRIALS = 2, SIZES = 4 };

typedef enum state { NOTHING, HASHED, COMPARED, COPIED } state_t;

/* Of a large buffer. Its entry of the hashes says whether any comparison since the last verdict has found other bits. */
typedef struct check {
    state_t state;
    uint32_t id, operation;
    size_t operand_bytes;
    ebb_hash_part_t part;
    ebb_mark_t end; /* the last thing that was issued for its entry */
} check_t;

/* What an operation has made again of a buffer, and was the same: how often, up to TRIALS; and with how many bytes of operands: the first sizes, of
 * which the least and the most become the least and the most ever. */
typedef struct passed {
    unsigned times, sizes;
    size_t bytes[SIZES];
} passed_t;

struct ebb_verify {
    ebb_hashes_t *hashes; /* [count] */
    uint32_t *index;      /* [buffers] into check; EBB_NONE: a small one */
    passed_t *passed;     /* [accesses] */
    uint32_t count;
    check_t check[]; /* [count] */
};

/* ---- its memory ---- */

static void release(ebb_device_t *dev, ebb_verify_t *v)
{
    ebb_hashes_delete(dev, v->hashes);
    free(v->index);
    free(v->passed);
    free(v);
}

bool ebb_verify_open(ebb_device_t *dev, ebb_recording_t *learned)
{
    const ebb_trace_t *t = learned->trace;
    if (learned->verify)
        return true;
    ebb_verify_t *v = calloc(1, sizeof *v + t->buffer_count * sizeof v->check[0]);
    if (!v)
        return false;
    v->index = malloc(((size_t)t->buffer_count + 1) * sizeof *v->index);
    v->passed = calloc((size_t)t->access_count + 1, sizeof *v->passed);
    for (uint32_t i = 0; v->index && i < t->buffer_count; i++) {
        v->index[i] = ebb_uses_chunks(&t->buffer[i]) ? v->count : EBB_NONE;
        if (v->index[i] != EBB_NONE)
            v->check[v->count++] = (check_t){.id = i};
    }
    if (v->index && v->passed)
        v->hashes = ebb_hashes_new(dev, v->count + 1);
    if (v->hashes)
        learned->verify = v;
    else
        release(dev, v);
    return learned->verify;
}

void ebb_verify_close(ebb_device_t *dev, ebb_recording_t *learned)
{
    ebb_verify_t *v = learned->verify;
    if (!v)
        return;
    for (uint32_t i = 0; i < v->count; i++)
        (void)ebb_mark_wait(v->check[i].end);
    ebb_verify_poll(dev, learned, true);
    release(dev, v);
    learned->verify = NULL;
}

void ebb_verify_abandon(ebb_recording_t *learned)
{
    ebb_verify_t *v = learned->verify;
    if (!v)
        return;
    ebb_hashes_abandon(v->hashes);
    v->hashes = NULL;
    release(NULL, v);
    learned->verify = NULL;
}

static check_t *check_of(const ebb_recording_t *learned, uint32_t id)
{
    ebb_verify_t *v = learned->verify;
    return v && v->index[id] != EBB_NONE ? &v->check[v->index[id]] : NULL;
}

static unsigned entry_of(const ebb_verify_t *v, const check_t *c)
{
    return (unsigned)(c - v->check);
}

/* ---- verdicts ---- */

void ebb_content_lost(ebb_device_t *dev, uint32_t buffer, const char *why)
{
    ebb_log(EBB_WARN, "the content of buffer %u of the step is lost: %s", buffer, why);
    ebb_fail_program(dev->ebb);
}

/* All that make contents of the buffer: which of them it was is not known. */
static void refute(ebb_device_t *dev, ebb_recording_t *learned, const check_t *c)
{
    const ebb_trace_t *t = learned->trace;
    dev->run->recipes->counts.mismatches++;
    learned->refuted = true;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        ebb_trace_operation_t *o = &t->operation[i];
        if (!o->proofs || ebb_trace_mode(t, i, c->id) <= EBB_READS)
            continue;
        o->proofs = 0;
        o->verdict = EBB_DIFFERS;
    }
    ebb_log(EBB_WARN,
            "buffer %u, recomputed by %s (operation %u), has other bits: it is not recomputed any more",
            c->id, t->operation[c->operation].name, c->operation);
}

static passed_t *passed_of(const ebb_recording_t *learned, uint32_t operation, uint32_t id)
{
    const ebb_trace_t *t = learned->trace;
    const ebb_trace_operation_t *o = &t->operation[operation];
    uint32_t k = o->first_access;
    while (k + 1 < o->first_access + o->access_count &&
           (t->access[k].buffer != id || t->access[k].mode == EBB_READS))
        k++;
    return &learned->verify->passed[k];
}

/* It has not been tried, and is beyond all that was, or little was. */
static bool is_new_size(const passed_t *p, size_t bytes)
{
    bool less = false, more = false;
    for (unsigned i = 0; i < p->sizes; i++) {
        if (p->bytes[i] == bytes)
            return false;
        less |= p->bytes[i] < bytes;
        more |= p->bytes[i] > bytes;
    }
    return p->sizes < SIZES || !less || !more;
}

static void note_passed(passed_t *p, size_t bytes)
{
    unsigned at = 0;
    p->times += p->times < TRIALS;
    if (!is_new_size(p, bytes))
        return;
    if (p->sizes < SIZES) {
        p->bytes[p->sizes++] = bytes;
        return;
    }
    for (unsigned i = 1; i < SIZES; i++)
        if (bytes < p->bytes[0] ? p->bytes[i] < p->bytes[at] : p->bytes[i] > p->bytes[at])
            at = i;
    p->bytes[at] = bytes;
}

/* Its comparisons are over, or have found other bits. */
static bool judge(ebb_device_t *dev, ebb_recording_t *learned, check_t *c)
{
    ebb_verify_t *v = learned->verify;
    const bool same = !ebb_hash_differs(v->hashes, entry_of(v, c));
    ebb_hash_clear(v->hashes, entry_of(v, c));
    if (c->state == COMPARED)
        c->state = NOTHING;
    if (!same)
        refute(dev, learned, c);
    else
        note_passed(passed_of(learned, c->operation, c->id), c->operand_bytes);
    return same;
}

bool ebb_verify_agrees(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id)
{
    check_t *c = check_of(learned, id);
    return c && c->state == COMPARED && !ebb_mark_wait(c->end) && judge(dev, learned, c);
}

/* A verdict that is worth having. */
static bool is_known(const ebb_recording_t *learned, const check_t *c, bool wait)
{
    const ebb_verify_t *v = learned->verify;
    return ebb_hash_differs(v->hashes, entry_of(v, c)) ||
           (c->state == COMPARED &&
            (wait ? !ebb_mark_wait(c->end)
                  : passed_of(learned, c->operation, c->id)->times < TRIALS && ebb_mark_reached(c->end)));
}

/* Nothing is lost: the host has what it is now. */
static void thaw(ebb_recording_t *learned, check_t *c)
{
    ebb_hash_clear(learned->verify->hashes, entry_of(learned->verify, c));
    learned->trace->buffer[c->id].changes = learned->refuted = true;
    ebb_log(EBB_INFO,
            "buffer %u, which operations had only read, was written by one: it is copied out like others",
            c->id);
}

/* Of a content without a copy. */
static void hear(ebb_device_t *dev, ebb_recording_t *learned, check_t *c)
{
    if (c->state == COPIED) {
        thaw(learned, c);
        return;
    }
    if (judge(dev, learned, c))
        return;
    if (!strcmp(ebb_options.on_mismatch, "warn"))
        ebb_log(EBB_WARN, "going on with other bits (EBB_ON_MISMATCH=warn)");
    else
        ebb_content_lost(dev, c->id, "it was recomputed with other bits, and no copy was left");
}

void ebb_verify_poll(ebb_device_t *dev, ebb_recording_t *learned, bool wait)
{
    ebb_verify_t *v = learned->verify;
    for (uint32_t i = 0; v && i < v->count; i++)
        if (is_known(learned, &v->check[i], wait))
            hear(dev, learned, &v->check[i]);
}

/* ---- contents ---- */

bool ebb_verify_is_trial(const ebb_recording_t *learned, uint32_t operation, uint32_t id,
                         size_t operand_bytes)
{
    const passed_t *p = passed_of(learned, operation, id);
    return p->times < TRIALS || (learned->any_size && is_new_size(p, operand_bytes));
}

bool ebb_verify_is_hashed(const ebb_recording_t *learned, uint32_t id)
{
    const check_t *c = check_of(learned, id);
    return c && c->state == HASHED;
}

ebb_status_t ebb_verify_dropping(ebb_device_t *dev, ebb_recording_t *learned, const ebb_dropping_t *d,
                                 ebb_stream_t *stream)
{
    const ebb_verify_t *v = learned->verify;
    check_t *c = check_of(learned, d->id);
    const uint64_t every = d->trial ? 1 : (uint64_t)ebb_options.verify;
    if (!c)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a small buffer", d->bytes);
    /* What is asked about next must not be taken for this. */
    if (c->state == COPIED)
        EBB_TRY(ebb_mark_wait(c->end));
    if (is_known(learned, c, d->trial))
        hear(dev, learned, c);
    c->state = NOTHING;
    if (!every)
        return 0;
    c->part = (ebb_hash_part_t){d->step + d->operation, every};
    EBB_TRY(ebb_mark_join(stream, c->end)); /* a comparison may still read the entry */
    EBB_TRY(ebb_hash_issue(dev, v->hashes, entry_of(v, c), stream, d->address, d->bytes, c->part));
    c->operation = d->operation;
    c->operand_bytes = d->operand_bytes;
    c->end = ebb_mark_here(stream);
    c->state = HASHED;
    return 0;
}

ebb_status_t ebb_verify_made(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                             CUdeviceptr address, size_t bytes)
{
    const ebb_verify_t *v = learned->verify;
    check_t *c = check_of(learned, id);
    if (!c || c->state != HASHED)
        return 0;
    EBB_TRY(ebb_mark_join(stream, c->end));
    EBB_TRY(ebb_hash_compare(dev, v->hashes, entry_of(v, c), stream, address, bytes, c->part));
    c->end = ebb_mark_here(stream);
    c->state = COMPARED;
    dev->run->recipes->counts.verified++;
    return 0;
}

ebb_status_t ebb_verify_copied(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                               CUdeviceptr address, size_t bytes)
{
    check_t *c = check_of(learned, id);
    if (!c)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a small buffer", bytes);
    /* What is said of the entry before must not be taken for this. */
    if (is_known(learned, c, c->state == COMPARED))
        hear(dev, learned, c);
    c->state = NOTHING;
    EBB_TRY(ebb_mark_join(stream, c->end));
    EBB_TRY(ebb_hash_issue(dev, learned->verify->hashes, entry_of(learned->verify, c), stream, address, bytes,
                           EBB_HASH_ALL));
    c->end = ebb_mark_here(stream);
    c->state = COPIED;
    return 0;
}

ebb_status_t ebb_verify_keep(ebb_device_t *dev, ebb_recording_t *learned, uint32_t id, ebb_stream_t *stream,
                             CUdeviceptr address, size_t bytes, void *host)
{
    check_t *c = check_of(learned, id);
    if (!c || c->state != COPIED)
        return ebb_fail(CUDA_ERROR_INVALID_VALUE, "a buffer of which there is no hash", bytes);
    EBB_TRY(ebb_mark_join(stream, c->end));
    EBB_TRY(ebb_hash_copy(dev, learned->verify->hashes, entry_of(learned->verify, c), stream, address, bytes,
                          host));
    c->end = ebb_mark_here(stream);
    return 0;
}

void ebb_verify_forget(const ebb_recording_t *learned, uint32_t id)
{
    check_t *c = check_of(learned, id);
    if (c && c->state == HASHED)
        c->state = NOTHING;
}
