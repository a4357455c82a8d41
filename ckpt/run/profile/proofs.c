/* proofs.c: the pass that shows which launches give the same bits again.
 *
 * Right behind an operation of the program the same launch is issued again, on copies of all that it touches, in
 * scratch memory that starts as the bytes were before it, and again with all that it writes zeroed. What comes out is
 * compared on the device with what the program's own operation has left. Equal bits prove that the launch gives them
 * again; equal bits in spite of zeros, that it replaces what it writes, unless a part of that was zeros: what adds to zeros looks alike.
 * Three agreeing replays over two steps are asked for. Nothing but zeros and what was there ever reaches a kernel; where nothing
 * was, in a buffer that the operation is the first to touch, a plan's replay may find anything (plan.h).
 *
 * Everything is ordered on the operation's stream; the host does not wait. Large buffers that many pointers share
 * are not copied where the operation is known only to read them.
 *
 * Only qualified launches are tried: kernels whose launch attributes, if any, name no events or memory, whose arguments
 * are known and point to no memory of CUDA's outside ebb's arena, directly or through a table of pointers in a small
 * buffer; not of modules of which the program has looked up a variable, nor NCCL's or NVSHMEM's. What does not fit
 * into the budget together with its copies is not proven.
 *
 * Work is spread over steps: a step is slowed down only so far, and the next one goes on from there.
 */
#include "ckpt/run/profile/internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/base/table.h"
#include "alloc/device.h"
#include "alloc/ebb_alloc.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/state.h"
#include "ckpt/run/tracker/tracker.h"

enum { MOST = 64 /* distinct buffers of an operation */, LAUNCH_NS = 2000, ALIGN = 512 };

/* In steps' worth of time: how much slower a pass may make its step, by a guess that the passes before have corrected, within bounds: a step
 * may be slow for other reasons, such as evictions. */
static const double cost_of_a_pass = 1.25, most_wrong = 2.0;

/* A distinct buffer of an operation. */
typedef struct subject {
    uint32_t id;
    ebb_buffer_t *buffer; /* while the operation is under way */
    uint32_t tiles;
    bool writes, direct;
    uint64_t bit;           /* in a trial's sets; 0: it is not written */
    bool copied, again;     /* which copies of it there are: for the replay of what was there, for "zero" */
    bool zeroed, doubted;   /* `again` begins as zeros; it may have been zeros before, too */
    CUdeviceptr copy, zero; /* in the scratch */
} subject_t;

/* Replays of one operation in this step, and where their answers are. */
typedef struct trial {
    uint32_t operation, result;
    uint32_t first, count; /* subjects, but for direct ones */
    uint64_t all, zeroed;  /* written subjects; those that began as zeros in the replay "zero" */
    uint32_t before;       /* the results of those that are doubted: whether it was other than zeros */
    bool copy, zero;       /* which replays there were */
    ebb_issued_t issued;
} trial_t;

struct ebb_proofs {
    ebb_profile_t *profile;
    ebb_tiles_t *answers;
    trial_t *trial;
    uint32_t trial_count, trial_room, results, most_results;
    subject_t *asked; /* [asked_count] of all trials */
    uint32_t asked_count, asked_room;
    double spent_ns, most_ns, bytes_per_ns;
    /* Of the operation under way. */
    subject_t subject[MOST];
    unsigned count;
    bool tried;
    trial_t now;
    /* Stays from one operation to the next on a stream, while there is memory. */
    ebb_buffer_t *scratch; /* NULL: none */
    ebb_stream_t *stream;  /* that its use is ordered on */
    bool is_short;         /* of memory: it goes after each operation */
};
const size_t ebb_part_proofs = sizeof(struct ebb_proofs);

/* ---- begin and end ---- */

/* The most that an operation moves in its time: about what the memory can do. */
static double guess_rate(const ebb_trace_t *t)
{
    double rate = 1;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const ebb_trace_operation_t *o = &t->operation[i];
        double bytes = 0;
        for (uint32_t k = o->first_access; k < o->first_access + o->access_count; k++)
            bytes += t->access[k].offset_bytes ? 0 : (double)t->buffer[t->access[k].buffer].bytes;
        if (o->duration_ns && bytes / (double)o->duration_ns > rate)
            rate = bytes / (double)o->duration_ns;
    }
    return rate;
}

/* Answers for at most so many tiles: of all operations that are open, what is read once, what is written twice,
 * or three times in its first trial. */
static uint32_t count_results(const ebb_profile_t *l)
{
    const ebb_trace_t *t = l->recorded.trace;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->operation_count; i++)
        for (uint32_t k = 0; ebb_fact_is_open(&l->fact[i]) && k < t->operation[i].access_count; k++) {
            const ebb_trace_access_t *a = &t->access[t->operation[i].first_access + k];
            const unsigned times = a->mode == EBB_READS ? 1 : l->fact[i].rounds ? 2 : 3;
            sum += times * (uint64_t)ebb_tile_count(t->buffer[a->buffer].bytes);
        }
    return sum < UINT32_MAX / 2 ? (uint32_t)sum : UINT32_MAX / 2;
}

/* What is guessed for proofs that may cost so much of a step, by those that there were. */
static double guess_most(const ebb_profile_t *l)
{
    const double took_ns = l->cost_ns - l->cost_before_ns;
    const double ratio = took_ns > 0 ? l->proofs_guessed_ns / took_ns : 1;
    return cost_of_a_pass * l->step_ns *
           (ratio > most_wrong       ? most_wrong
            : ratio < 1 / most_wrong ? 1 / most_wrong
                                     : ratio);
}

bool ebb_proofs_is_needed(ebb_device_t *dev, ebb_profile_t *l)
{
    if (!ebb_facts_select(dev, l))
        return false;
    for (uint32_t i = 0; i < l->recorded.trace->operation_count; i++)
        if (ebb_fact_is_open(&l->fact[i]))
            return true;
    return false;
}

bool ebb_proofs_begin(ebb_device_t *dev)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_profile_t *l = dev->run->pass->profile;
    const double most_ns = guess_most(l);
    memset(proofs, 0, sizeof *proofs);
    ebb_words_forget(dev->ebb);
    ebb_facts_note_modes(dev, l); /* another step's pass may have shown more */
    proofs->profile = l;
    proofs->most_ns = most_ns > 0 ? most_ns : 1e18;
    proofs->bytes_per_ns = guess_rate(l->recorded.trace);
    proofs->most_results = count_results(l);
    proofs->answers = ebb_tiles_new(dev, 1, proofs->most_results, 0);
    return proofs->answers != NULL;
}

/* ---- before ---- */

/* False: too many. */
static bool list_subjects(struct ebb_proofs *proofs, uint32_t i, const ebb_operation_t *op)
{
    const ebb_profile_t *l = proofs->profile;
    const ebb_trace_operation_t *o = &l->recorded.trace->operation[i];
    proofs->count = 0;
    for (uint32_t k = 0; k < op->access_count; k++) {
        unsigned at = 0;
        while (at < proofs->count && proofs->subject[at].buffer != op->access[k].buffer)
            at++;
        if (at == MOST)
            return false;
        if (at < proofs->count)
            continue;
        const ebb_trace_access_t *a = &l->recorded.trace->access[o->first_access + k];
        const bool writes = a->mode != EBB_READS;
        proofs->subject[proofs->count++] = (subject_t){.id = a->buffer,
                                                       .buffer = op->access[k].buffer,
                                                       .tiles = ebb_tile_count(op->access[k].buffer->bytes),
                                                       .writes = writes,
                                                       .direct = !writes && l->buffer[a->buffer].arena};
    }
    return true;
}

static size_t room_for(size_t bytes)
{
    return (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Which replays this step has: in the first, one of what was there and one with written parts zeroed; later one with those
 * zeroed that came out the same, and where that would still be too few, another one of what was there. Zeroed are those
 * that may well be replaced, because nothing has touched them before: one that is updated would change what is made from
 * it. Where there are none, all are. What is born in the step and untouched has held nothing; any other may have held zeros. */
static void choose_replays(struct ebb_proofs *proofs, uint32_t i)
{
    const ebb_profile_t *l = proofs->profile;
    const ebb_fact_t *f = &l->fact[i];
    const uint32_t first = l->recorded.trace->operation[i].first_access;
    trial_t *now = &proofs->now;
    uint64_t fresh = 0, virgin = 0, next = 1;
    *now = (trial_t){.operation = i};
    for (unsigned s = 0; s < proofs->count; s++) {
        subject_t *x = &proofs->subject[s];
        if (!x->writes)
            continue;
        x->bit = next;
        next <<= 1;
        now->all |= x->bit;
        if (l->buffer[x->id].first_use < first)
            continue;
        fresh |= x->bit;
        virgin |= l->recorded.trace->buffer[x->id].born != EBB_NONE ? x->bit : 0;
    }
    now->zeroed = f->rounds ? f->zeroed : fresh ? fresh : now->all;
    now->zero = now->all != 0; /* of nothing: another one of what was there */
    now->copy = !now->zero || !f->rounds || f->agreed + 1 < EBB_LEAST_PROOFS;
    for (unsigned s = 0; s < proofs->count; s++) {
        subject_t *x = &proofs->subject[s];
        x->copied = !x->direct && (!x->writes || now->copy);
        x->again = x->writes && now->zero;
        x->zeroed = x->bit & now->zeroed;
        x->doubted = !f->rounds && x->bit & now->zeroed & ~virgin;
    }
}

static size_t place_subjects(struct ebb_proofs *proofs)
{
    size_t at = 0;
    for (unsigned s = 0; s < proofs->count; s++) {
        subject_t *x = &proofs->subject[s];
        x->copy = at;
        at += x->copied ? room_for(x->buffer->bytes) : 0;
        x->zero = at;
        at += x->again ? room_for(x->buffer->bytes) : 0;
    }
    return at;
}

/* Of the replays, with filling and comparing. */
static double time_needed(struct ebb_proofs *proofs, uint64_t duration_ns)
{
    const int replays = proofs->now.copy + proofs->now.zero;
    double bytes = 0;
    for (unsigned s = 0; s < proofs->count; s++) {
        const subject_t *x = &proofs->subject[s];
        const int moved = x->direct ? 0 : x->writes ? 1 + 2 * proofs->now.copy + 2 * proofs->now.zero : 4;
        bytes += moved * (double)x->buffer->bytes;
    }
    return replays * (double)duration_ns + 2.0 * LAUNCH_NS + bytes / proofs->bytes_per_ns;
}

static void give_scratch_back(ebb_device_t *dev)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_scratch_free(proofs->scratch, proofs->stream);
    proofs->scratch = NULL;
}

/* Used in the order of the stream. Another stream gets another. */
static bool take_scratch(ebb_device_t *dev, size_t bytes, ebb_stream_t *stream)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    if (proofs->scratch && proofs->stream == stream && proofs->scratch->bytes >= bytes)
        return true;
    give_scratch_back(dev);
    proofs->scratch = ebb_scratch_alloc(dev, bytes, stream);
    proofs->stream = stream;
    return proofs->scratch != NULL;
}

bool ebb_learn_relieve(ebb_device_t *dev)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    if (!proofs->scratch || proofs->tried)
        return false;
    proofs->is_short = true;
    give_scratch_back(dev);
    return true;
}

static uint32_t tiles_asked(struct ebb_proofs *proofs)
{
    uint32_t sum = 0;
    for (unsigned s = 0; s < proofs->count; s++) {
        const subject_t *x = &proofs->subject[s];
        sum += x->tiles * (uint32_t)(x->copied + x->again + x->doubted);
    }
    return sum;
}

/* The scratch begins as the replays shall find it. */
static ebb_status_t fill(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_tile_list_t list;
    proofs->now.before = proofs->results;
    ebb_tiles_begin(&list, proofs->answers, op->stream, EBB_TILES_MOVE);
    for (unsigned s = 0; s < proofs->count; s++) {
        subject_t *x = &proofs->subject[s];
        x->copy += proofs->scratch->address;
        x->zero += proofs->scratch->address;
        if (x->copied)
            ebb_tiles_move(dev, &list, x->copy, x->buffer->address, x->buffer->bytes,
                           x->doubted ? proofs->results : EBB_NONE);
        if (x->again)
            ebb_tiles_move(dev, &list, x->zero, x->zeroed ? 0 : x->buffer->address, x->buffer->bytes,
                           EBB_NONE);
        proofs->results += x->doubted ? x->tiles : 0;
    }
    return ebb_tiles_end(dev, &list);
}

void ebb_proofs_before(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_fact_t *f = &proofs->profile->fact[i];
    ebb_trace_operation_t *o = &proofs->profile->recorded.trace->operation[i];
    proofs->tried = false;
    if (!ebb_fact_is_open(f) || proofs->spent_ns >= proofs->most_ns || !op->plain)
        return;
    if (!list_subjects(proofs, i, op) || ebb_facts_has_foreign(dev, op->params, op->param_bytes)) {
        f->why = proofs->count == MOST ? EBB_NO_ROOM : EBB_FOREIGN;
        return;
    }
    choose_replays(proofs, i);
    size_t bytes = place_subjects(proofs);
    double ns = time_needed(proofs, o->duration_ns);
    if (!bytes || proofs->results + tiles_asked(proofs) > proofs->most_results) {
        f->why = EBB_UNTRIED;
        return;
    }
    if (proofs->spent_ns && proofs->spent_ns + ns > proofs->most_ns)
        return; /* in the next step */
    if (!take_scratch(dev, bytes, op->stream)) {
        f->why = EBB_NO_ROOM;
        return;
    }
    proofs->tried = true;
    proofs->spent_ns += ns;
    o->proof_bytes = bytes > o->proof_bytes ? bytes : o->proof_bytes;
    o->proof_ns = (uint64_t)ns / (proofs->now.copy + proofs->now.zero);
    if (fill(dev, op))
        f->why = EBB_REFUSED;
}

/* ---- behind ---- */

static ebb_status_t replay(ebb_device_t *dev, const ebb_operation_t *op, bool zero)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    const ebb_issued_t issued = ebb_issued_view(op);
    ebb_pointer_t pointer[EBB_RELAUNCH_POINTERS];
    unsigned count = 0;
    for (uint32_t k = 0; k < op->access_count && count < EBB_RELAUNCH_POINTERS; k++) {
        const ebb_access_t *a = &op->access[k];
        const subject_t *x = proofs->subject;
        while (x->buffer != a->buffer)
            x++;
        if (!x->direct)
            pointer[count++] =
                (ebb_pointer_t){a->param_offset, (x->writes && zero ? x->zero : x->copy) + a->offset_bytes};
    }
    return ebb_relaunch(dev, &issued, op->stream, pointer, count);
}

/* What came out, in the order in which it is read in judge: of each subject, the replays'. Subjects stay until then. */
static ebb_status_t compare(ebb_device_t *dev, const ebb_operation_t *op)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_tile_list_t list;
    proofs->now.first = proofs->asked_count;
    proofs->now.result = proofs->results;
    ebb_tiles_begin(&list, proofs->answers, op->stream, EBB_TILES_COMPARE);
    for (unsigned s = 0; s < proofs->count; s++) {
        const subject_t *x = &proofs->subject[s];
        if (x->direct)
            continue;
        subject_t *kept = ebb_array_append((void **)&proofs->asked, &proofs->asked_count, &proofs->asked_room,
                                           sizeof *kept);
        if (!kept)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *kept = *x;
        ebb_tiles_compare(dev, &list, x->buffer->address, x->copied ? x->copy : x->zero,
                          x->copied && x->again ? x->zero : 0, x->buffer->bytes, proofs->results);
        proofs->results += x->tiles * (uint32_t)(x->copied + x->again);
    }
    proofs->now.count = proofs->asked_count - proofs->now.first;
    return ebb_tiles_end(dev, &list);
}

void ebb_proofs_after(ebb_device_t *dev, uint32_t i, const ebb_operation_t *op)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_fact_t *f = &proofs->profile->fact[i];
    if (!proofs->tried)
        return;
    proofs->tried = false;
    if (f->why == EBB_PROVEN &&
        ((proofs->now.copy && replay(dev, op, false)) || (proofs->now.zero && replay(dev, op, true))))
        f->why = EBB_REFUSED;
    if (f->why == EBB_PROVEN && !compare(dev, op) && ebb_issued_keep(&proofs->now.issued, op)) {
        trial_t *t =
            ebb_array_append((void **)&proofs->trial, &proofs->trial_count, &proofs->trial_room, sizeof *t);
        if (t)
            *t = proofs->now;
        else
            ebb_issued_forget(&proofs->now.issued);
    }
    if (proofs->is_short)
        give_scratch_back(dev);
}

/* ---- what came out ---- */

static bool differs(struct ebb_proofs *proofs, uint32_t *result, uint32_t tiles)
{
    bool any = false;
    for (uint32_t k = 0; k < tiles; k++)
        any |= ebb_tiles_result(proofs->answers, (*result)++);
    return any;
}

/* A tile of it was zeros before: what comes out of it from zeros shows nothing. */
static bool had_zeros(struct ebb_proofs *proofs, uint32_t *before, uint32_t tiles)
{
    bool any = false;
    for (uint32_t k = 0; k < tiles; k++)
        any |= !ebb_tiles_result(proofs->answers, (*before)++);
    return any;
}

static void judge(ebb_device_t *dev, const trial_t *trial)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    ebb_profile_t *l = proofs->profile;
    ebb_fact_t *f = &l->fact[trial->operation];
    bool copy_same = true;
    uint64_t same = 0, doubtful = 0;
    uint32_t result = trial->result, before = trial->before;
    for (const subject_t *x = proofs->asked + trial->first; x < proofs->asked + trial->first + trial->count;
         x++) {
        if (x->copied)
            copy_same &= !differs(proofs, &result, x->tiles);
        if (x->again && !differs(proofs, &result, x->tiles))
            same |= x->bit;
        if (x->doubted && had_zeros(proofs, &before, x->tiles))
            doubtful |= x->bit;
    }
    const bool zero_same = same == trial->all;
    ebb_record_tried(dev, &l->recorded, trial->operation, &trial->issued.op, !f->rounds);
    f->agreed += (uint32_t)(trial->copy && copy_same) + (uint32_t)(trial->zero && zero_same);
    f->refuted |= !copy_same;
    /* From zeros not everything need come out. From what did come out, zeroed once more, everything must, if it was
     * all; of some, never tried together, it need not. */
    if (!f->rounds)
        f->zeroed = same & trial->zeroed & ~doubtful;
    else if (trial->zero && !zero_same) {
        f->refuted |= !trial->zeroed || trial->zeroed == trial->all;
        f->zeroed = 0;
    }
    f->written = (unsigned)__builtin_popcountll(trial->all);
    f->rounds++;
}

bool ebb_proofs_end(ebb_device_t *dev, bool good)
{
    struct ebb_proofs *proofs = dev->run->proofs;
    if (!good)
        ebb_wait_for_device(dev->ebb);
    proofs->profile->proofs_guessed_ns += proofs->spent_ns;
    bool read = good && !ebb_tiles_read(proofs->answers, dev->run->pass->stream);
    for (uint32_t i = 0; i < proofs->trial_count; i++) {
        if (read)
            judge(dev, &proofs->trial[i]);
        ebb_issued_forget(&proofs->trial[i].issued);
    }
    give_scratch_back(dev);
    ebb_tiles_delete(dev, proofs->answers);
    free(proofs->trial);
    free(proofs->asked);
    memset(proofs, 0, sizeof *proofs);
    return true;
}
