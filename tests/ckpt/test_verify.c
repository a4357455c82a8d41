/* What is made again is compared with what was dropped (ckpt/run/replay/verify.c), on a device that is a table: contents are numbers, and what was
 * issued is done when a mark is waited for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc/base/options.h"
#include "alloc/device.h"
#include "ckpt/run/replay/internal.h"
#include "ckpt/run/run.h"
#include "ckpt/run/state.h"

/* Buffer X and what comes of it; a small one; X's second content. */
enum { X, Y, SMALL, BUFFERS };
enum { MAKES_X, READS_X, UPDATES_X, OPERATIONS };
enum { ENTRIES = 8, BYTES = 1 << 22, JOBS = 16 };

static uint64_t memory[BUFFERS];
static struct job {
    unsigned entry;
    uint64_t bits;
    bool compare;
    uint64_t *to; /* where other bits go */
} job[JOBS];
static unsigned jobs, deleted, abandoned, lost, waits;
static uint64_t hash[ENTRIES];
static bool different[ENTRIES];
static char stream_memory[sizeof(ebb_stream_t)];
static ebb_stream_t *const stream = (ebb_stream_t *)stream_memory;
static int hashes;

static void drain(void)
{
    for (unsigned i = 0; i < jobs; i++) {
        const bool other = hash[job[i].entry] != job[i].bits;
        if (job[i].compare)
            different[job[i].entry] |= other;
        if (job[i].to && other)
            *job[i].to = job[i].bits;
        if (job[i].to || !job[i].compare)
            hash[job[i].entry] = job[i].bits;
    }
    jobs = 0;
}

/* ---- what it stands on ---- */

const size_t ebb_part_recipes = sizeof(recipes_t);
ebb_options_t ebb_options = {.on_mismatch = "error", .verify = 1};

ebb_hashes_t *ebb_hashes_new(ebb_device_t *dev, unsigned entries)
{
    (void)dev;
    assert_true(entries <= ENTRIES);
    return (ebb_hashes_t *)&hashes;
}
void ebb_hashes_delete(ebb_device_t *dev, ebb_hashes_t *h)
{
    (void)dev;
    assert_true(!h || !jobs);
    deleted += h != NULL;
}
void ebb_hashes_abandon(ebb_hashes_t *h)
{
    abandoned += h != NULL;
}
static ebb_status_t issue(unsigned entry, CUdeviceptr address, bool compare)
{
    assert_true(jobs < JOBS);
    job[jobs++] = (struct job){.entry = entry, .bits = memory[address], .compare = compare};
    return 0;
}
ebb_status_t ebb_hash_issue(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *s,
                            CUdeviceptr address, size_t bytes, ebb_hash_part_t part)
{
    (void)dev, (void)h, (void)s, (void)bytes, (void)part;
    return issue(entry, address, false);
}
ebb_status_t ebb_hash_compare(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *s,
                              CUdeviceptr address, size_t bytes, ebb_hash_part_t part)
{
    (void)dev, (void)h, (void)s, (void)bytes, (void)part;
    return issue(entry, address, true);
}
ebb_status_t ebb_hash_copy(ebb_device_t *dev, ebb_hashes_t *h, unsigned entry, ebb_stream_t *s,
                           CUdeviceptr address, size_t bytes, void *host)
{
    (void)dev, (void)h, (void)s, (void)bytes;
    const ebb_status_t status = issue(entry, address, true);
    job[jobs - 1].to = host;
    return status;
}
bool ebb_hash_differs(const ebb_hashes_t *h, unsigned entry)
{
    (void)h;
    return different[entry];
}
void ebb_hash_clear(ebb_hashes_t *h, unsigned entry)
{
    (void)h;
    different[entry] = false;
}
ebb_mark_t ebb_mark_here(ebb_stream_t *s)
{
    return (ebb_mark_t){s, 1};
}
ebb_status_t ebb_mark_join(ebb_stream_t *s, ebb_mark_t mark)
{
    (void)s, (void)mark;
    return 0;
}
ebb_status_t ebb_mark_wait(ebb_mark_t mark)
{
    waits += mark.stream != NULL;
    drain();
    return 0;
}
bool ebb_mark_reached(ebb_mark_t mark)
{
    (void)mark;
    return !jobs;
}
void ebb_log(ebb_log_level_t level, const char *format, ...)
{
    (void)level, (void)format;
}
ebb_status_t ebb_fail(int code, const char *what, size_t bytes)
{
    (void)what, (void)bytes;
    return code;
}
void ebb_fail_program(ebb_t *ebb)
{
    (void)ebb;
    lost++;
}

/* ---- the step ---- */

static ebb_t ebb;
static ebb_device_t *const dev = &ebb.device[0];
static ebb_recording_t learned;

static void add(uint32_t operation, uint32_t buffer, ebb_mode_t mode)
{
    ebb_trace_access_t *a = ebb_trace_add_access(learned.trace);
    assert_non_null(a);
    a->buffer = buffer;
    a->mode = mode;
    assert_int_equal(learned.trace->operation_count, operation + 1);
}

static int set_up(void **state)
{
    (void)state;
    dev->ebb = &ebb;
    if (!dev->run)
        ebb_run_open_device(dev);
    learned = (ebb_recording_t){.trace = ebb_trace_new(1 << 21)};
    for (uint32_t i = 0; i < BUFFERS; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(learned.trace);
        b->bytes = i == SMALL ? 512 : BYTES;
        memory[i] = 100 + i;
    }
    static const struct {
        uint32_t buffer[2];
        ebb_mode_t mode[2];
        int count;
    } of[OPERATIONS] = {[MAKES_X] = {{X}, {EBB_REPLACES}, 1},
                        [READS_X] = {{X, Y}, {EBB_READS, EBB_REPLACES}, 2},
                        [UPDATES_X] = {{X}, {EBB_UPDATES}, 1}};
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        ebb_trace_add_operation(learned.trace)->proofs = 3;
        for (int k = 0; k < of[i].count; k++)
            add(i, of[i].buffer[k], of[i].mode[k]);
    }
    jobs = deleted = abandoned = lost = waits = 0;
    memset(different, 0, sizeof different);
    dev->run->recipes->counts = (ebb_recipe_counts_t){0};
    assert_true(ebb_verify_open(dev, &learned));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ebb_verify_close(dev, &learned);
    ebb_trace_delete(learned.trace);
    return 0;
}

static ebb_status_t drop_of(uint32_t id, uint32_t operation, size_t bytes, bool trial)
{
    const ebb_dropping_t d = {.id = id,
                              .operation = operation,
                              .address = id,
                              .bytes = BYTES,
                              .operand_bytes = bytes,
                              .trial = trial};
    return ebb_verify_dropping(dev, &learned, &d, stream);
}

static ebb_status_t drop(uint32_t id, uint32_t operation, bool trial)
{
    return drop_of(id, operation, BYTES, trial);
}

static void make(uint32_t id, uint64_t bits)
{
    memory[id] = bits;
    assert_int_equal(ebb_verify_made(dev, &learned, id, stream, id, BYTES), 0);
}

static uint32_t proofs(uint32_t operation)
{
    return learned.trace->operation[operation].proofs;
}

/* ---- the tests ---- */

static void same_bits_pass(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(ebb_verify_is_trial(&learned, MAKES_X, X, BYTES));
        assert_int_equal(drop(X, MAKES_X, true), 0);
        assert_true(ebb_verify_is_hashed(&learned, X));
        make(X, 100);
        assert_true(ebb_verify_agrees(dev, &learned, X));
    }
    assert_false(ebb_verify_is_trial(&learned, MAKES_X, X, BYTES));
    assert_false(ebb_verify_agrees(dev, &learned, X)); /* nothing is compared any more */
    assert_int_equal(dev->run->recipes->counts.verified, 2);
    assert_true(!lost && !learned.refuted);
    assert_true(drop(SMALL, MAKES_X, true) != 0);
}

/* Four sizes are tried, and then what is smaller or larger than all that were. */
static void other_sizes_are_tried(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        bool trial;
    } contents[] = {{4 * BYTES, true},  {4 * BYTES, true},    {2 * BYTES, true},  {3 * BYTES, true},
                    {4 * BYTES, false}, {5 * BYTES, true},    {BYTES, true},      {BYTES + 1, false},
                    {7 * BYTES, true},  {6 * BYTES, false},   {2 * BYTES, false}, {BYTES / 2, true},
                    {BYTES - 1, false}, {7 * BYTES + 1, true}};
    learned.any_size = true;
    for (unsigned i = 0; i < sizeof contents / sizeof *contents; i++) {
        assert_int_equal(ebb_verify_is_trial(&learned, MAKES_X, X, contents[i].bytes), contents[i].trial);
        assert_int_equal(drop_of(X, MAKES_X, contents[i].bytes, true), 0);
        make(X, 100);
        assert_true(ebb_verify_agrees(dev, &learned, X));
    }
}

/* The launches that make the buffer's contents are refuted, those that read it are not. */
static void other_bits_refute_what_makes_them(void **state)
{
    (void)state;
    drop(X, MAKES_X, true);
    make(X, 7);
    assert_false(ebb_verify_agrees(dev, &learned, X));
    assert_true(learned.refuted);
    assert_true(!proofs(MAKES_X) && !proofs(UPDATES_X) && proofs(READS_X) == 3);
    assert_int_equal(learned.trace->operation[READS_X].verdict, 0);
    assert_int_equal(lost, 0); /* whoever has asked has a copy */
    assert_int_equal(dev->run->recipes->counts.mismatches, 1);
}

static void other_bits_without_a_copy_are_told(void **state)
{
    (void)state;
    for (int warn = 0; warn < 2; warn++) {
        strcpy(ebb_options.on_mismatch, warn ? "warn" : "error");
        lost = 0;
        drop(X, MAKES_X, false);
        make(X, memory[X] + 1);
        ebb_verify_poll(dev, &learned, false);
        assert_int_equal(dev->run->recipes->counts.mismatches, warn); /* it is still under way */
        drain();
        ebb_verify_poll(dev, &learned, false);
        assert_int_equal(dev->run->recipes->counts.mismatches, warn + 1);
        assert_int_equal(lost, !warn);
        ebb_verify_poll(dev, &learned, true);
        assert_int_equal(dev->run->recipes->counts.mismatches, warn + 1);
    }
    strcpy(ebb_options.on_mismatch, "error");
}

/* A verdict that nobody has looked at is none about the next content. */
static void verdicts_are_about_their_content(void **state)
{
    (void)state;
    drop(X, MAKES_X, false);
    make(X, 7);
    drop(X, UPDATES_X, true);
    assert_int_equal(lost, 1);
    make(X, 7);
    assert_true(ebb_verify_agrees(dev, &learned, X));
}

/* A hash of another content is not compared with: dropped without a look (EBB_VERIFY=0), or kept after all. */
static void hashes_are_about_their_content(void **state)
{
    (void)state;
    ebb_options.verify = 0;
    drop(X, MAKES_X, true);
    ebb_verify_forget(&learned, X);
    make(X, 7);
    assert_false(ebb_verify_agrees(dev, &learned, X));
    drop(X, MAKES_X, true);
    assert_int_equal(drop(X, MAKES_X, false), 0);
    make(X, 8);
    ebb_verify_poll(dev, &learned, true);
    assert_true(!lost && !learned.refuted && dev->run->recipes->counts.verified == 0);
    ebb_options.verify = 1;
}

/* The host's copy follows, and nothing is lost. */
static void frozen_buffers_are_kept_until_they_change(void **state)
{
    (void)state;
    uint64_t host = memory[Y];
    assert_int_not_equal(ebb_verify_keep(dev, &learned, Y, stream, Y, BYTES, &host), 0);
    assert_int_equal(ebb_verify_copied(dev, &learned, Y, stream, Y, BYTES), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ebb_verify_keep(dev, &learned, Y, stream, Y, BYTES, &host), 0);
    ebb_verify_forget(&learned, Y); /* of what is made again */
    ebb_verify_poll(dev, &learned, true);
    drain();
    ebb_verify_poll(dev, &learned, true);
    assert_false(learned.refuted || learned.trace->buffer[Y].changes);
    memory[Y] = 77;
    assert_int_equal(ebb_verify_keep(dev, &learned, Y, stream, Y, BYTES, &host), 0);
    drain();
    assert_int_equal(host, 77);
    ebb_verify_poll(dev, &learned, false);
    assert_true(learned.refuted && learned.trace->buffer[Y].changes);
    assert_int_equal(proofs(READS_X), 3);
    assert_int_equal(lost + dev->run->recipes->counts.mismatches, 0);
}

/* Of one buffer: what was said of it before is heard as what it was. */
static void copies_and_recomputations_are_told_apart(void **state)
{
    (void)state;
    uint64_t host = memory[X];
    assert_int_equal(drop(X, MAKES_X, false), 0);
    make(X, 5); /* other bits, without a copy; not heard yet */
    assert_int_equal(ebb_verify_copied(dev, &learned, X, stream, X, BYTES), 0);
    assert_true(lost == 1 && proofs(MAKES_X) == 0 && !learned.trace->buffer[X].changes);
    memory[X] = 6; /* unseen: copied, which is not heard yet */
    assert_int_equal(ebb_verify_keep(dev, &learned, X, stream, X, BYTES, &host), 0);
    assert_int_equal(drop(X, UPDATES_X, false), 0);
    assert_true(lost == 1 && host == 6 && learned.trace->buffer[X].changes);
}

/* Also a hash that nobody will ask for; but nothing is waited for, nor touched, once the context is gone. */
static void closing_waits_for_what_is_under_way(void **state)
{
    (void)state;
    drop(X, MAKES_X, true);
    ebb_verify_forget(&learned, X);
    ebb_verify_close(dev, &learned); /* ebb_hashes_delete sees to it that nothing is under way */
    assert_true(deleted == 1 && waits);
    assert_true(ebb_verify_open(dev, &learned));
    drop(X, MAKES_X, true);
    waits = 0;
    ebb_verify_abandon(&learned);
    assert_true(abandoned == 1 && deleted == 1 && !waits && !learned.verify);
    jobs = 0;
    assert_false(ebb_verify_is_hashed(&learned, X));
    ebb_verify_poll(dev, &learned, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(same_bits_pass),
        TEST(other_sizes_are_tried),
        TEST(other_bits_refute_what_makes_them),
        TEST(other_bits_without_a_copy_are_told),
        TEST(verdicts_are_about_their_content),
        TEST(hashes_are_about_their_content),
        TEST(frozen_buffers_are_kept_until_they_change),
        TEST(copies_and_recomputations_are_told_apart),
        TEST(closing_waits_for_what_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
