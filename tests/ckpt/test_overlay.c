/* test_overlay.c: places on chunks: on the allocations of bench/traces/ the overlay takes at most 2% more than what is alive at
 * once, and the small region no chunk more; plans over all budgets get neither slower nor smaller as the budget grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/checker/checker.h"
#include "ckpt/planner/planner.h"
#include "lifetimes.h"
#include "traces.h"

#define PLENTY (UINT64_C(1) << 50)
enum { IDS = 1 << 16 };

/* One step from the form that bench/record_traces.sh writes: "a id bytes", "f id", "k ids..." and "step" where it begins. What
 * is freed in another step than it was allocated in is there throughout, or up to the end. */
static ebb_trace_t *read_allocations(const char *path, uint64_t chunk_bytes)
{
    static uint32_t buffer_of[IDS];
    char line[4096];
    unsigned id;
    unsigned long long bytes;
    bool in_step = false;
    FILE *f = fopen(path, "r");
    ebb_trace_t *t = ebb_trace_new(chunk_bytes);
    if (!f || !t)
        fail_msg("%s cannot be read", path);
    while (fgets(line, sizeof line, f)) {
        in_step |= !strncmp(line, "step", 4);
        if (sscanf(line, "a %u %llu", &id, &bytes) == 2 && id < IDS) {
            ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
            buffer_of[id] = t->buffer_count - 1;
            *b = (ebb_trace_buffer_t){.bytes = bytes, .born = in_step ? t->operation_count : EBB_NONE};
            b->dies = b->next = EBB_NONE;
            if (!in_step)
                b->next = t->buffer_count - 1;
        } else if (sscanf(line, "f %u", &id) == 1 && id < IDS) {
            ebb_trace_buffer_t *b = &t->buffer[buffer_of[id]];
            b->dies = b->born == EBB_NONE ? EBB_NONE : t->operation_count;
        } else if (line[0] == 'k') {
            ebb_trace_add_operation(t)->duration_ns = 1000;
            for (char *at = strtok(line + 1, " \n"); at; at = strtok(NULL, " \n"))
                *ebb_trace_add_access(t) =
                    (ebb_trace_access_t){.buffer = buffer_of[strtoul(at, NULL, 10)], .mode = EBB_UPDATES};
        }
    }
    fclose(f);
    for (uint32_t i = 0; i < t->buffer_count; i++)
        if (t->buffer[i].born != EBB_NONE && t->buffer[i].dies == EBB_NONE)
            t->buffer[i].dies = t->operation_count;
    return t;
}

/* The most chunks that are alive at an operation, of buffers that have chunks of their own. */
static uint64_t live_peak(const ebb_trace_t *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->operation_count; i++) {
        uint64_t now = 0;
        for (uint32_t b = 0; b < t->buffer_count; b++) {
            const ebb_trace_buffer_t *x = &t->buffer[b];
            const bool alive = x->born == EBB_NONE || (x->born <= i && x->dies > i);
            now +=
                alive && x->bytes > t->chunk_bytes / 2 ? (x->bytes + t->chunk_bytes - 1) / t->chunk_bytes : 0;
        }
        most = now > most ? now : most;
    }
    return most;
}

/* The chunks that small buffers take at least which are born in the step. */
static uint64_t small_peak(const ebb_trace_t *t)
{
    ebb_lifetime_t *l = calloc(t->buffer_count, sizeof *l);
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->buffer_count; i++) {
        const ebb_trace_buffer_t *b = &t->buffer[i];
        if (b->born != EBB_NONE && b->bytes <= t->chunk_bytes / 2)
            l[count++] =
                (ebb_lifetime_t){.begin = b->born, .end = b->dies, .bytes = (b->bytes + 511) / 512 * 512};
    }
    const uint64_t alive = lifetimes_alive(l, count);
    free(l);
    return (alive + t->chunk_bytes - 1) / t->chunk_bytes;
}

static void overlay_takes_hardly_more_than_what_is_alive(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny", "wide", "naive-dropout", "gpt2-124M"};
    static const uint64_t sizes[] = {64 << 10, 256 << 10, 2 << 20};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            char path[1024], why[400] = "";
            snprintf(path, sizeof path, "%s/%s.txt", BENCH_TRACES, names[i]);
            ebb_trace_t *t = read_allocations(path, sizes[k]);
            assert_null(ebb_trace_check(t));
            assert_true(t->operation_count > 50);
            const ebb_plan_request_t r = {.policy = "keep",
                                          .device_bytes = PLENTY,
                                          .host_bytes = PLENTY,
                                          .min_buffer = 1,
                                          .hardware = {1, 1, 0}};
            ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
            if (!p)
                fail_msg("%s: %s", names[i], why);
            const uint64_t alive = live_peak(t), small = small_peak(t);
            print_message("%-14s chunks of %4" PRIu64 " KiB: %6" PRIu64 " alive, %6" PRIu32
                          " in the overlay; small ones: %3" PRIu64 " alive, %3" PRIu64 " in their region\n",
                          names[i], sizes[k] >> 10, alive, p->chunk_count, small,
                          p->small_bytes / t->chunk_bytes);
            assert_int_equal(p->small_bytes, small * t->chunk_bytes);
            assert_true(p->chunk_count * UINT64_C(100) <= alive * 102);
            ebb_plan_delete(p);
            ebb_trace_delete(t);
        }
}

/* In two dozen steps from the smallest budget to one that keeps everything. */
static void larger_budget_is_neither_slower_nor_smaller(void **state)
{
    (void)state;
    trace_shape_t shape = {.layers = 3,
                           .width_chunks = 2,
                           .weight_chunks = 3,
                           .micro_batches = 1,
                           .kernel_ns = 2000,
                           .stored_scores = true};
    for (uint32_t which = 0; which < 14; which++) {
        ebb_trace_t *t = which == 0   ? trace_of_transformer(&shape)
                         : which == 1 ? trace_of_chain(20, 1)
                                      : trace_by_chance(40 + which, 50);
        ebb_plan_request_t r = {.host_bytes = PLENTY,
                                .min_buffer = 1 << 20,
                                .offload = which != 1,
                                .recompute = true,
                                .hardware = {.out_bytes_per_ns = 50, .in_bytes_per_ns = 50}};
        ebb_plan_request_t keep = r;
        keep.policy = "keep";
        const uint64_t most = ebb_plan_floor(t, &keep), least = ebb_plan_floor(t, &r);
        const uint64_t stride = ((most - least) / t->chunk_bytes / 24 + 1) * t->chunk_bytes;
        assert_true(least && least <= most);
        uint64_t time = UINT64_MAX, peak = 0;
        uint32_t plans = 0;
        bool all = false;
        for (r.device_bytes = least; !all; r.device_bytes += stride) {
            char why[400] = "";
            ebb_plan_t *p = ebb_plan_make(t, &r, why, sizeof why);
            if (!p)
                fail_msg("trace %" PRIu32 " at %" PRIu64 ": %s", which, r.device_bytes, why);
            const uint64_t now = ebb_plan_sum(p, t).peak_bytes;
            if (p->predicted_ns > time || now < peak)
                fail_msg("trace %" PRIu32 " at %" PRIu64 ": %" PRIu64 " after %" PRIu64 " ns, %" PRIu64
                         " after %" PRIu64 " bytes",
                         which, r.device_bytes, p->predicted_ns, time, now, peak);
            time = p->predicted_ns;
            peak = now;
            plans++;
            all = !p->action_count;
            ebb_plan_delete(p);
        }
        print_message("trace %" PRIu32 ": %" PRIu32 " budgets\n", which, plans);
        ebb_trace_delete(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overlay_takes_hardly_more_than_what_is_alive),
        cmocka_unit_test(larger_budget_is_neither_slower_nor_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
