/* The states of buffers (residence.h) under a program whose future is known, wrongly known or not known at all: whatever
 * leaves, is dropped, stays after all or comes ahead of time, every buffer holds what was written last. The program is this
 * test, with ebb's lower two rooms linked in, and a stand-in for the third: what it can make again are whole buffers of one
 * word. The seed is printed; TEST_SEED sets it. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <cuda.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/device.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/replay/replay.h"
#include "ckpt/run/residence/internal.h"
#include "ckpt/run/tracker/tracker.h"
#include "hook/hook.h"
#include "offload/internal.h"
#include "tests/alloc/run_stand_in.h"

static ebb_device_t *const device0 = &ebb_global.device[0];

enum { BUFFERS = 14, CHUNKS_EACH = 2, WORDS = CHUNKS_EACH * (2 << 20) / 4, OPERATIONS = 400 };

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

typedef enum what { WRITE, PATCH, READ, REPLACE } what_t;

static struct {
    unsigned what[OPERATIONS], buffer[OPERATIONS];
    unsigned at; /* the next operation */
} script;

static struct {
    CUdeviceptr address;
    uint32_t word;
    uint32_t patched; /* words at its beginning that hold `word` + 1 */
    bool wrong;       /* what is made next has other bits: there is a copy */
    bool has_copy;
} model[BUFFERS];

static struct {
    unsigned rebuilt, refused, disagreed, dropped;
    bool known, lies;
} stand_in;

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

static unsigned index_of(const ebb_buffer_t *b)
{
    unsigned i = 0;
    while (i < BUFFERS && model[i].address != b->address)
        i++;
    return i;
}

/* ---- the stand-in for the room above ---- */

bool ebb_tracker_known(ebb_device_t *dev)
{
    (void)dev;
    return stand_in.known;
}

ebb_next_use_t ebb_tracker_next_use(const ebb_buffer_t *b)
{
    const unsigned i = index_of(b);
    unsigned ahead = 0;
    if (i == BUFFERS || below(10) == 0)
        return (ebb_next_use_t){.known = false};
    while (script.at + ahead < OPERATIONS && script.buffer[script.at + ahead] != i)
        ahead++;
    if (stand_in.lies)
        ahead = below(OPERATIONS);
    return (ebb_next_use_t){.known = true, .ahead = ahead, .ns = ahead * 20000ull};
}

bool ebb_tracker_coming(ebb_device_t *dev, uint32_t ahead, ebb_coming_t *out)
{
    (void)dev;
    *out = (ebb_coming_t){.buffers = 1};
    return script.at + ahead < OPERATIONS;
}

ebb_buffer_t *ebb_tracker_touched(ebb_device_t *dev, uint32_t ahead, uint32_t i)
{
    (void)dev;
    (void)i;
    return ebb_buffer_at(&ebb_global,
                         model[stand_in.lies ? below(BUFFERS) : script.buffer[script.at + ahead]].address);
}

bool ebb_recipe_can_rebuild(const ebb_buffer_t *b, uint64_t *cost_ns)
{
    const unsigned i = index_of(b);
    *cost_ns = 1 + below(1000000);
    return i < BUFFERS && !model[i].patched;
}

bool ebb_recipe_dropping(ebb_buffer_t *b, ebb_mark_t ready, bool *keep_copy, ebb_mark_t *looked)
{
    (void)ready;
    *keep_copy = model[index_of(b)].has_copy = below(2);
    *looked = (ebb_mark_t){0};
    return true;
}

bool ebb_recipe_may_keep_copy(const ebb_buffer_t *b)
{
    (void)b;
    return true;
}

void ebb_recipe_dropped(ebb_buffer_t *b, bool is)
{
    (void)b;
    stand_in.dropped += is;
}

static bool copy_is_kept(const ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    return r->host.at != NULL;
}

ebb_status_t ebb_recipe_rebuild(ebb_buffer_t *b, ebb_stream_t *stream)
{
    const unsigned i = index_of(b);
    assert_true(ebb_where(b) == EBB_DROPPED && i < BUFFERS);
    if (copy_is_kept(b) && below(4) == 0) {
        stand_in.refused++;
        return ebb_fail(CUDA_ERROR_UNKNOWN, "a test", 0);
    }
    EBB_TRY(ebb_residence_blank(b, stream));
    model[i].wrong = copy_is_kept(b) && below(2);
    EBB_DRIVER(cuMemsetD32Async, b->bytes,
               (b->address, model[i].word + (model[i].wrong ? 7 : 0), WORDS, ebb_stream_handle(stream)));
    stand_in.rebuilt++;
    return ebb_residence_used(b, ebb_mark_issue(stream));
}

bool ebb_recipe_agrees(ebb_buffer_t *b)
{
    const bool wrong = model[index_of(b)].wrong;
    model[index_of(b)].wrong = false;
    stand_in.disagreed += wrong;
    return !wrong;
}

/* Nothing is known to be unchanged. */
ebb_hashes_t *ebb_hashes_new(ebb_device_t *dev, unsigned slots)
{
    (void)dev;
    (void)slots;
    return NULL;
}

ebb_status_t ebb_hash_issue(ebb_device_t *dev, ebb_hashes_t *hashes, unsigned slot, ebb_stream_t *stream,
                            CUdeviceptr address, size_t bytes, ebb_hash_part_t part)
{
    (void)dev;
    (void)hashes, (void)slot, (void)stream, (void)address, (void)bytes, (void)part;
    return CUDA_ERROR_UNKNOWN;
}

ebb_status_t ebb_hash_read(ebb_hashes_t *hashes, unsigned first, unsigned count, ebb_stream_t *stream,
                           uint64_t *out)
{
    (void)hashes, (void)first, (void)count, (void)stream, (void)out;
    return CUDA_ERROR_UNKNOWN;
}

static ebb_status_t before(ebb_operation_t *op)
{
    ebb_pinned_defer(true);
    const ebb_status_t status = ebb_residence_acquire(device0, op);
    ebb_pinned_defer(false);
    return status;
}

static void after(const ebb_operation_t *op, CUresult result)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        assert_true(ebb_is_resident(op->access[i].buffer) && op->access[i].buffer->range->mapped);
    ebb_residence_release(op);
    ebb_pinned_defer(!result);
    ebb_residence_look_ahead(device0);
    ebb_pinned_defer(false);
}

static bool freeing(ebb_buffer_t *b, ebb_stream_t *stream)
{
    ebb_residence_forget(b, stream);
    return false;
}

/* ---- the program ---- */

static void write_all(unsigned i)
{
    model[i].word = (uint32_t)rand();
    model[i].patched = 0;
    OK(cuMemsetD32(model[i].address, model[i].word, WORDS));
}

static void read_all(unsigned i)
{
    static uint32_t host[WORDS];
    OK(cuMemcpyDtoH(host, model[i].address, sizeof host));
    for (uint32_t k = 0; k < WORDS; k++)
        if (host[k] != model[i].word + (k < model[i].patched))
            fail_msg("operation %u: word %u of buffer %u is %u instead of %u", script.at, k, i, host[k],
                     model[i].word + (k < model[i].patched));
}

static void run_one(unsigned what, unsigned i)
{
    switch (what) {
    case WRITE:
        write_all(i);
        break;
    case PATCH:
        model[i].patched = 1 + below(64);
        OK(cuMemsetD32(model[i].address, model[i].word, WORDS));
        OK(cuMemsetD32(model[i].address, model[i].word + 1, model[i].patched));
        break;
    case READ:
        read_all(i);
        break;
    default:
        OK(cuMemFree(model[i].address));
        model[i].address = 0;
        OK(cuMemAlloc(&model[i].address, WORDS * 4));
        write_all(i);
        break;
    }
}

static void run_script(bool lies)
{
    stand_in.lies = lies;
    for (unsigned k = 0; k < OPERATIONS; k++) {
        script.what[k] = below(20) == 0 ? REPLACE : below(3) == 0 ? WRITE : below(8) == 0 ? PATCH : READ;
        script.buffer[k] = below(3) ? (k / 2) % BUFFERS : below(BUFFERS);
    }
    for (script.at = 0; script.at < OPERATIONS;) {
        const unsigned k = script.at++;
        stand_in.known = below(50) ? stand_in.known : !stand_in.known;
        run_one(script.what[k], script.buffer[k]);
    }
    for (unsigned i = 0; i < BUFFERS; i++)
        read_all(i);
}

static int setup(void **state)
{
    (void)state;
    CUdevice device;
    CUcontext context;
    run_stand_in = (struct run_stand_in){.before = before,
                                         .after = after,
                                         .freeing = freeing,
                                         .make_room = ebb_residence_make_room,
                                         .waited = ebb_collect_hosts};
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    if (ebb_have_driver() &&
        getenv("SOFTGPU_LIMITS")) /* contents in several pieces, none of which may be larger */
        ebb_global.offload->pinning.piece_bytes = 1 << 20;
    for (unsigned i = 0; i < BUFFERS; i++) {
        OK(cuMemAlloc(&model[i].address, WORDS * 4));
        write_all(i);
    }
    ebb_lock();
    ebb_link(device0);
    ebb_unlock();
    stand_in.known = true;
    return 0;
}

static void contents_survive_under_a_known_future(void **state)
{
    (void)state;
    /* Some of it is rare. */
    for (unsigned i = 0;
         i < 8 && !(stand_in.dropped && stand_in.rebuilt && stand_in.refused && stand_in.disagreed); i++)
        run_script(false);
    const ebb_traffic_t t = ebb_traffic(device0);
    print_message("%u dropped, %u rebuilt, %u refused, %u wrong and replaced; %llu evicted, %llu of %llu "
                  "fetched ahead\n",
                  stand_in.dropped, stand_in.rebuilt, stand_in.refused, stand_in.disagreed,
                  (unsigned long long)t.evictions, (unsigned long long)t.ahead,
                  (unsigned long long)t.fetches);
    assert_true(stand_in.dropped && stand_in.rebuilt && stand_in.refused && stand_in.disagreed);
    assert_true(t.evictions && t.ahead && t.drops == stand_in.dropped);
    assert_true(ebb_usage(device0).peak_bytes <= ebb_usage(device0).budget_bytes);
    assert_int_equal(ebb_pageable_usage(&ebb_global).peak_bytes, 0);
}

static void a_wrong_future_costs_time_and_nothing_else(void **state)
{
    (void)state;
    run_script(true);
    assert_true(ebb_usage(device0).peak_bytes <= ebb_usage(device0).budget_bytes);
}

/* ---- a free, while ebb's own copy of the buffer is under way ---- */

/* The stream of the copies gets work that takes a while, with memory of the driver's. */
static void keep_busy(ebb_direction_t direction, CUdeviceptr memory)
{
    const CUstream stream = ebb_stream_handle(ebb_copy_stream(device0, direction));
    for (unsigned k = 0; k < 100; k++)
        OK(ebb_driver.cuMemsetD32Async(memory, k, WORDS, stream));
}

static bool is_over_once_forgotten(ebb_buffer_t *b)
{
    const ebb_residence_t *r = b->residence;
    const ebb_mark_t copy = r->where == EBB_LEAVING ? r->left : r->ready;
    const bool before = ebb_mark_reached(copy);
    ebb_residence_forget(b, NULL);
    return !before && ebb_mark_reached(copy);
}

static void a_buffer_is_forgotten_when_its_copies_are_over(void **state)
{
    (void)state;
    CUdeviceptr memory;
    write_all(0);
    OK(cuCtxSynchronize());
    ebb_lock();
    OK(ebb_driver.cuMemAlloc_v2(&memory, WORDS * 4));
    ebb_buffer_t *b = ebb_buffer_at(&ebb_global, model[0].address);
    keep_busy(EBB_OUT, memory);
    OK(ebb_leave(b, false));
    const bool out = is_over_once_forgotten(b);
    OK(ebb_leave(b, false));
    OK(ebb_vacate(b));
    keep_busy(EBB_IN, memory);
    OK(ebb_fetch(b));
    const bool in = is_over_once_forgotten(b);
    OK(ebb_driver.cuMemFree_v2(memory));
    ebb_unlock();
    assert_true(out);
    assert_true(in);
    read_all(0);
}

/* ---- another thread, while host memory is pinned ---- */

static struct {
    ebb_driver_t real;
    pthread_t program;
    CUcontext context;
    CUdeviceptr small;
    sem_t pins, done;
    bool over;
    unsigned pinned, waited_for;
} slow;

/* Pinning takes as long as it takes the other thread to make a call. */
static void wait_for_call(size_t bytes)
{
    struct timespec end;
    if (!pthread_equal(pthread_self(), slow.program) || bytes < 1 << 20)
        return;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 2;
    slow.pinned++;
    sem_post(&slow.pins);
    slow.waited_for += !sem_timedwait(&slow.done, &end);
}

static CUresult register_slowly(void *p, size_t bytes, unsigned flags)
{
    wait_for_call(bytes);
    return slow.real.cuMemHostRegister(p, bytes, flags);
}

static CUresult allocate_slowly(void **p, size_t bytes, unsigned flags)
{
    wait_for_call(bytes);
    return slow.real.cuMemHostAlloc(p, bytes, flags);
}

static void *call_meanwhile(void *unused)
{
    (void)unused;
    CUresult result = cuCtxSetCurrent(slow.context);
    while (!sem_wait(&slow.pins) && !slow.over && !result) {
        result = cuMemsetD8Async(slow.small, 1, 256, CU_STREAM_PER_THREAD);
        sem_post(&slow.done);
    }
    return result ? &slow : NULL;
}

static void another_threads_calls_go_on_while_what_an_eviction_needs_is_pinned(void **state)
{
    (void)state;
    pthread_t thread;
    void *failed;
    OK(cuCtxGetCurrent(&slow.context));
    OK(cuMemAlloc(&slow.small, 256));
    ebb_lock();
    ebb_options.prealloc = 0; /* the program's thread alone pins */
    ebb_pinned_trim(device0);
    ebb_unlock();
    slow.program = pthread_self();
    slow.real = ebb_driver;
    ebb_driver.cuMemHostRegister = register_slowly;
    ebb_driver.cuMemHostAlloc = allocate_slowly;
    assert_int_equal(sem_init(&slow.pins, 0, 0) | sem_init(&slow.done, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, call_meanwhile, NULL), 0);
    for (unsigned i = 0; i < BUFFERS; i++)
        write_all(i);
    slow.over = true;
    sem_post(&slow.pins);
    pthread_join(thread, &failed);
    ebb_driver = slow.real;
    print_message("%u times something was pinned, beside calls of another thread %u\n", slow.pinned,
                  slow.waited_for);
    assert_null(failed);
    assert_true(slow.pinned);
    assert_int_equal(slow.waited_for, slow.pinned);
    for (unsigned i = 0; i < BUFFERS; i++)
        read_all(i);
}

int main(void)
{
    const char *given = getenv("TEST_SEED");
    const unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    print_message("TEST_SEED=%u\n", seed);
    srand(seed);
    setenv("EBB_BUDGET", "28MiB", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_survive_under_a_known_future),
        cmocka_unit_test(a_wrong_future_costs_time_and_nothing_else),
        cmocka_unit_test(a_buffer_is_forgotten_when_its_copies_are_over),
        cmocka_unit_test(another_threads_calls_go_on_while_what_an_eviction_needs_is_pinned),
    };
    return cmocka_run_group_tests_name("residence", tests, setup, NULL);
}
