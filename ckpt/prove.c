#include "prove.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "hash.h"
#include "log.h"
#include "pinned.h"
#include "relaunch.h"

/* Distinct buffers of an operation; a step with one that has more is not recorded. Of each there are three
 * hashes: before, after, and a trial's. */
enum { MOST = 64, LARGEST_TABLE = 64 << 10 };

typedef struct subject {
    ebb_buffer_t *buffer;
    ebb_buffer_t *before, *trial; /* copies: as it was before the operation; what the trial runs on */
    ebb_mode_t mode;
} subject_t;

static struct {
    ebb_hashes_t *hashes;
    CUevent start, stop;
    subject_t subject[MOST];
    unsigned count;
    bool known;  /* hashes are being taken */
    bool copied; /* trials are possible */
    bool hidden; /* it reaches buffers that its arguments do not show: what it does to them is not known */
    ebb_mode_t *mode;
    size_t mode_room;
    ebb_verdict_t why;  /* not copied */
    CUdeviceptr *table; /* pinned: a small buffer, to be searched for pointers */
} prove;

static bool set_up(void)
{
    if (!prove.hashes)
        prove.hashes = ebb_hashes_new(3 * MOST);
    if (prove.hashes && !prove.start &&
        (ebb_driver.cuEventCreate(&prove.start, CU_EVENT_DEFAULT) ||
         ebb_driver.cuEventCreate(&prove.stop, CU_EVENT_DEFAULT)))
        return false;
    return prove.hashes != NULL;
}

static unsigned find_subject(const ebb_buffer_t *b)
{
    unsigned i = 0;
    while (i < prove.count && prove.subject[i].buffer != b)
        i++;
    return i;
}

/* False: too many. */
static bool list_subjects(const ebb_operation_t *op)
{
    prove.count = 0;
    for (uint32_t i = 0; i < op->access_count; i++) {
        unsigned at = find_subject(op->access[i].buffer);
        if (at == MOST)
            return false;
        if (at == prove.count)
            prove.subject[prove.count++] = (subject_t){.buffer = op->access[i].buffer, .mode = EBB_UPDATES};
    }
    return true;
}

/* Whether a word is a pointer to memory of CUDA's, ebb's own included if `all`. */
static bool is_pointer(CUdeviceptr word, bool all)
{
    unsigned type;
    if (word >> 16 == 0 || word >> 48)
        return false;
    if (ebb_buffer_at(word))
        return all;
    return !ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word);
}

/* Memory of CUDA's that ebb does not serve: what is written there would be written again by a replay. */
static bool has_foreign_pointers(const ebb_operation_t *op)
{
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= op->param_bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr word;
        memcpy(&word, op->params + at, sizeof word);
        if (is_pointer(word, false))
            return true;
    }
    return false;
}

/* A table of pointers (grouped matrix products have such): a replay would follow them to the program's own
 * memory. Tables are small; a word counts that points to the beginning of something, as numbers hardly ever
 * do. */
static bool has_tables(const ebb_operation_t *op)
{
    CUstream stream = ebb_stream_handle(op->stream);
    bool found = false;
    for (unsigned i = 0; i < prove.count && !found; i++) {
        const ebb_buffer_t *b = prove.subject[i].buffer;
        if (b->bytes < sizeof(CUdeviceptr) || b->bytes > LARGEST_TABLE)
            continue;
        if (!prove.table && !(prove.table = ebb_pinned_alloc(LARGEST_TABLE)))
            return true;
        if (ebb_driver.cuMemcpyDtoHAsync(prove.table, b->address, b->bytes, stream) ||
            ebb_driver.cuStreamSynchronize(stream))
            return true;
        for (size_t at = 0; at < b->bytes / sizeof(CUdeviceptr); at++) {
            if (prove.table[at] % 4 || !is_pointer(prove.table[at], true))
                continue;
            found = true;
            prove.hidden |= ebb_buffer_at(prove.table[at]) != NULL;
        }
    }
    return found;
}

/* PROVEN: if its replays agree. */
static ebb_verdict_t qualify(const ebb_operation_t *op)
{
    if (op->kind != EBB_KERNEL)
        return EBB_OTHERWISE;
    if (op->opaque || !op->params || op->param_bytes > EBB_RELAUNCH_PARAM_BYTES)
        return EBB_OPAQUE;
    return !op->plain                 ? EBB_ATTRIBUTES
           : !prove.count             ? EBB_UNTRIED
           : has_foreign_pointers(op) ? EBB_FOREIGN
           : has_tables(op)           ? EBB_TABLE
                                      : EBB_PROVEN;
}

/* ---- copies ---- */

static ebb_status_t copy(const ebb_operation_t *op, const ebb_buffer_t *to, const ebb_buffer_t *from)
{
    EBB_DRIVER(cuMemcpyDtoDAsync, from->bytes,
               (to->address, from->address, from->bytes, ebb_stream_handle(op->stream)));
    ebb_mark_issue(op->stream);
    return 0;
}

static bool take_copy(const ebb_operation_t *op, const subject_t *s, ebb_buffer_t **out)
{
    if (ebb_heap_alloc(&(ebb_request_t){.bytes = s->buffer->bytes, .stream = op->stream}, out)) {
        *out = NULL;
        return false;
    }
    (*out)->held++;
    return true;
}

static void drop_copies(const ebb_operation_t *op)
{
    for (unsigned i = 0; i < prove.count; i++) {
        subject_t *s = &prove.subject[i];
        ebb_mark_t here = ebb_mark_here(op->stream);
        if (s->before)
            ebb_heap_free(s->before, here);
        if (s->trial)
            ebb_heap_free(s->trial, here);
        s->before = s->trial = NULL;
    }
}

static bool take_copies(const ebb_operation_t *op)
{
    for (unsigned i = 0; i < prove.count; i++) {
        subject_t *s = &prove.subject[i];
        if (!take_copy(op, s, &s->before) || !take_copy(op, s, &s->trial) || copy(op, s->before, s->buffer)) {
            drop_copies(op);
            return false;
        }
    }
    return true;
}

/* ---- hashes: slot i before, MOST + i after, 2 * MOST + i of the trial ---- */

static ebb_status_t hash_subjects(const ebb_operation_t *op, unsigned first, bool of_trial)
{
    for (unsigned i = 0; i < prove.count; i++) {
        const ebb_buffer_t *b = of_trial ? prove.subject[i].trial : prove.subject[i].buffer;
        EBB_TRY(ebb_hash_issue(prove.hashes, first + i, op->stream, b->address, b->bytes));
    }
    return 0;
}

void ebb_prove_before(const ebb_operation_t *op)
{
    prove.known = prove.copied = prove.hidden = false;
    prove.count = 0;
    if (!set_up() || !list_subjects(op))
        return;
    if (op->kind == EBB_KERNEL && hash_subjects(op, 0, false))
        return;
    prove.why = qualify(op);
    prove.copied = prove.why == EBB_PROVEN && take_copies(op);
    if (prove.why == EBB_PROVEN && !prove.copied)
        prove.why = EBB_NO_ROOM;
    prove.known = !ebb_driver.cuEventRecord(prove.start, ebb_stream_handle(op->stream));
}

/* ---- trials ---- */

static ebb_status_t relaunch(const ebb_operation_t *op)
{
    const ebb_issued_t issued = ebb_issued_view(op);
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t i = 0; i < op->access_count && count < EBB_RELAUNCH_POINTERS; i++) {
        const ebb_access_t *a = &op->access[i];
        CUdeviceptr to = prove.subject[find_subject(a->buffer)].trial->address + a->offset_bytes;
        pointer[count++] = (ebb_pointer_t){a->param_offset, to};
    }
    return ebb_relaunch(&issued, op->stream, pointer, count);
}

/* Replays from what was there before, the subjects in `zeroed` (a bit each) zeroed; whether everything comes
 * out as the program's operation has left it. */
static bool try_replay(const ebb_operation_t *op, uint64_t zeroed, const uint64_t *after)
{
    uint64_t hash[MOST];
    for (unsigned i = 0; i < prove.count; i++) {
        const subject_t *s = &prove.subject[i];
        if (!(zeroed >> i & 1)) {
            if (copy(op, s->trial, s->before))
                return false;
        } else if (ebb_driver.cuMemsetD8Async(s->trial->address, 0, s->trial->bytes,
                                              ebb_stream_handle(op->stream))) {
            return false;
        }
    }
    if (relaunch(op) || hash_subjects(op, 2 * MOST, true) ||
        ebb_hash_read(prove.hashes, 2 * MOST, prove.count, op->stream, hash))
        return false;
    return !memcmp(hash, after, prove.count * sizeof *hash);
}

static void run_trials(const ebb_operation_t *op, const uint64_t *after, ebb_proof_t *out)
{
    uint64_t replaced = 0;
    for (unsigned again = 0; again < 2; again++) {
        bool same = try_replay(op, 0, after);
        out->agreed += same;
        out->refuted |= !same;
    }
    for (unsigned i = 0; i < prove.count && !out->refuted; i++)
        if (prove.subject[i].mode == EBB_UPDATES && try_replay(op, (uint64_t)1 << i, after)) {
            replaced |= (uint64_t)1 << i;
            out->agreed++;
        }
    /* As a replay of a plan will find them: all zeroed at once. */
    if (replaced & (replaced - 1) && !try_replay(op, replaced, after))
        replaced = 0;
    for (unsigned i = 0; i < prove.count; i++)
        if (replaced >> i & 1)
            prove.subject[i].mode = EBB_REPLACES;
}

static bool learn_kernel(const ebb_operation_t *op, ebb_proof_t *out)
{
    uint64_t hash[2 * MOST];
    if (hash_subjects(op, MOST, false) || ebb_hash_read(prove.hashes, 0, prove.count, op->stream, hash) ||
        ebb_hash_read(prove.hashes, MOST, prove.count, op->stream, hash + MOST))
        return false;
    for (unsigned i = 0; i < prove.count; i++)
        if (hash[i] == hash[MOST + i])
            prove.subject[i].mode = EBB_READS;
    if (prove.copied)
        run_trials(op, hash + MOST, out);
    out->verdict = out->refuted ? EBB_DIFFERS : prove.why;
    return true;
}

/* Copies and memsets do what they say. Replays of those that stay on the device agree. */
static void know_copy(const ebb_operation_t *op, ebb_proof_t *out)
{
    bool within = op->kind == EBB_SET;
    if (op->kind == EBB_OTHER) /* may do anything to what it touches, and is not issued again */
        return;
    out->verdict = EBB_HOST;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const ebb_access_t *a = &op->access[i];
        bool writes = a->param_offset == 0, whole = !a->offset_bytes && op->bytes >= a->buffer->bytes;
        prove.subject[find_subject(a->buffer)].mode = !writes ? EBB_READS
                                                      : whole ? EBB_REPLACES
                                                              : EBB_UPDATES;
        within |= !writes && op->access_count == 2 && prove.count == 2;
    }
    if (op->access_count == 2 && prove.count == 1) /* within one buffer */
        prove.subject[0].mode = EBB_UPDATES;
    out->agreed = within ? 3 : 0;
    if (within)
        out->verdict = EBB_PROVEN;
}

static bool give_modes(const ebb_operation_t *op, ebb_proof_t *out)
{
    if (op->access_count > prove.mode_room) {
        free(prove.mode);
        prove.mode_room = 2 * (size_t)op->access_count;
        prove.mode = calloc(prove.mode_room, sizeof *prove.mode);
        if (!prove.mode) {
            prove.mode_room = 0;
            return false;
        }
    }
    for (uint32_t i = 0; i < op->access_count; i++)
        prove.mode[i] = prove.subject[find_subject(op->access[i].buffer)].mode;
    out->mode = prove.mode;
    return true;
}

bool ebb_prove_after(const ebb_operation_t *op, ebb_proof_t *out)
{
    *out = (ebb_proof_t){.verdict = op->kind == EBB_OTHER ? EBB_OTHERWISE : EBB_UNTRIED};
    CUstream stream = ebb_stream_handle(op->stream);
    float ms = 0;
    bool good = prove.known && !prove.hidden && !ebb_driver.cuEventRecord(prove.stop, stream);
    if (op->kind == EBB_KERNEL)
        good = good && learn_kernel(op, out);
    else if (good)
        know_copy(op, out);
    good = good && !ebb_driver.cuEventSynchronize(prove.stop) &&
           !ebb_driver.cuEventElapsedTime(&ms, prove.start, prove.stop);
    if (prove.copied)
        drop_copies(op);
    out->duration_ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    if (good)
        return give_modes(op, out);
    static bool said;
    if (!said)
        ebb_log(EBB_WARN, "an operation could not be learned: %s",
                prove.hidden ? "it reaches buffers through a table of pointers" : ebb_last_failure());
    said = true;
    return false;
}

void ebb_prove_abandon(const ebb_operation_t *op)
{
    if (prove.copied)
        drop_copies(op);
    prove.known = prove.copied = false;
}

void ebb_prove_end(void)
{
    ebb_pinned_free(prove.table, LARGEST_TABLE);
    ebb_hashes_delete(prove.hashes);
    if (prove.start)
        ebb_driver.cuEventDestroy(prove.start);
    if (prove.stop)
        ebb_driver.cuEventDestroy(prove.stop);
    free(prove.mode);
    memset(&prove, 0, sizeof prove);
}
