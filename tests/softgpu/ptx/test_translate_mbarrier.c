/* test_translate_mbarrier.c: barriers in shared memory, and bulk copies, form by form, of a block of 64 threads. */
#include "ptx_test.h"

#include "run_library.h"

enum { THREADS = 64 };

// clang-format off
/* to[thread] = r9 */
#define KERNEL(name, body)                                                                                                 \
    ".visible .entry " name "(.param .u64 to, .param .u64 from)\n{\n"                                                      \
    ".reg .pred %p<20>; .reg .b32 %r<40>; .reg .b64 %a<20>;\n"                                                             \
    "ld.param.u64 %a0, [to]; ld.param.u64 %a5, [from]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.u64 %a2, %a0, %a1; add.u64 %a6, %a5, %a1;\n" \
    "mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u64 %a7, bar; cvta.shared.u64 %a8, %a7; mad.lo.u32 %r3, %r0, 4, %r1; mov.u32 %r9, 0; setp.ne.u32 %p0, %r0, 0;\n" body "\nst.global.u32 [%a2], %r9;\nret;\n}\n"
#define INIT(count) "@!%p0 mbarrier.init.shared::cta.b64 [bar], " count "; @!%p0 fence.mbarrier_init.release.cluster; bar.sync 0;\n"

static const char module[] = PTX_HEAD
    ".shared .align 16 .b8 tile[256]; .shared .align 16 .b8 other[256]; .shared .align 8 .b64 bar;\n"
    /* each phase has what threads wrote before: r9 = sum of both phases' neighbours */
    KERNEL("phases", INIT("64")
        "st.shared.u32 [%r3], %r0; mbarrier.arrive.shared::cta.b64 %a3, [%r2];\n"
        "one: mbarrier.try_wait.shared.b64 %p1, [bar], %a3; @!%p1 bra one; sub.u32 %r4, 63, %r0; mad.lo.u32 %r4, %r4, 4, %r1; ld.shared.u32 %r9, [%r4];\n"
        "mbarrier.arrive.b64 %a3, [%a8]; two: mbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%r2], %a3; @!%p1 bra two;\n"
        "add.u32 %r5, %r0, 1000; st.shared.u32 [%r3], %r5; mbarrier.arrive.release.cta.shared::cta.b64 _, [%r2], 1;\n"
        "three: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0, 100; @!%p1 bra three; ld.shared.u32 %r6, [%r4]; add.u32 %r9, %r9, %r6;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [%r2]; four: mbarrier.test_wait.parity.b64 %p1, [%a8], 1; @!%p1 bra four;")
    /* odd lanes arrive, even ones wait for them */
    KERNEL("lanes", INIT("32") "and.b32 %r4, %r0, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra wait; mbarrier.arrive.shared.b64 %a3, [bar]; mov.u32 %r9, 5; bra met;\n"
        "wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra wait; mov.u32 %r9, 6; met:")
    /* the words of a barrier, in one thread: the k-th number is behind those of all threads. By each space, bytes by theirs. */
#define COUNTS(name, space, at, bytes)                                                                                                                                              \
    KERNEL(name, "@!%p0 mbarrier.init" space ".b64 " at ", 5; bar.sync 0; @%p0 bra end; add.u64 %a4, %a0, 0;\n"                                                                     \
        "mbarrier.arrive.noComplete" space ".b64 %a3, " at ", 2; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+256], %r10;\n"                /* 5 */                     \
        "mbarrier.arrive" space ".b64 %a3, " at "; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+260], %r10;\n"                              /* 3 */                     \
        "mbarrier.arrive_drop" space ".b64 %a3, " at "; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+264], %r10;\n"                         /* 2 */                     \
        "mbarrier.test_wait" space ".b64 %p1, " at ", %a3; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+268], %r10;\n"                                  /* 0 */                     \
        "mbarrier.arrive" space ".b64 %a9, " at "; mbarrier.test_wait" space ".b64 %p1, " at ", %a3; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+272], %r10;\n" /* 1 */            \
        "mbarrier.try_wait" space ".b64 %p1, " at ", %a3; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+276], %r10;\n"                                   /* 1 */                     \
        "mbarrier.arrive_drop.noComplete" space ".b64 %a3, " at ", 2; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+280], %r10;\n"           /* 4 */                     \
        "mbarrier.expect_tx.relaxed.cta" bytes ".b64 " at ", 96; mbarrier.arrive" space ".b64 %a9, " at ", 2;\n"                                                                    \
        "mbarrier.test_wait.parity" space ".b64 %p1, " at ", 1; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+284], %r10;\n"                             /* 0 */                     \
        "mbarrier.complete_tx.relaxed.cta" bytes ".b64 " at ", 96;\n"                                                                                                               \
        "mbarrier.test_wait.parity" space ".b64 %p1, " at ", 1; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+288], %r10;\n"                             /* 1 */                     \
        "mbarrier.try_wait.parity" space ".b64 %p1, " at ", 1; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+292], %r10;\n"                              /* 1 */                     \
        "mbarrier.arrive_drop.expect_tx" space ".b64 %a3, " at ", 32; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+296], %r10;\n"           /* 2 */                     \
        "mbarrier.complete_tx" bytes ".b64 " at ", 32; mbarrier.arrive" space ".b64 %a3, " at "; mbarrier.arrive.expect_tx" space ".b64 %a3, " at ", 16; mbarrier.pending_count.b64 %r10, %a3; st.global.u32 [%a4+300], %r10;\n" /* 1 */ \
        "mbarrier.test_wait" space ".b64 %p1, " at ", %a3; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+304], %r10; mbarrier.complete_tx" bytes ".b64 " at ", 16;\n" /* 0 */         \
        "mbarrier.test_wait" space ".b64 %p1, " at ", %a3; selp.u32 %r10, 1, 0, %p1; st.global.u32 [%a4+308], %r10; mbarrier.inval" space ".b64 " at "; end:") /* 1 */
    COUNTS("counts", ".shared", "[bar]", ".shared") COUNTS("counts_cta", ".shared::cta", "[%r2]", ".shared::cta")
    COUNTS("counts_cluster", ".shared::cta", "[%r2]", ".shared::cluster") COUNTS("counts_generic", "", "[%a8]", "")
    /* a copy in, one inside, one out */
    KERNEL("copies", INIT("1") "@%p0 bra wait; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%a5], 128, [bar]; add.u64 %a9, %a5, 128;\n"
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+128], [%a9], 128, [%r2];\n"
        "wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra wait; ld.shared.u32 %r9, [%r3];\n"
        "bar.sync 0; @%p0 bra wait2; mbarrier.arrive.expect_tx.shared::cta.b64 %a10, [bar], 256; cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [other], [tile], 256, [bar];\n"
        "wait2: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 1; @!%p2 bra wait2; mov.u32 %r5, other; mad.lo.u32 %r5, %r0, 4, %r5; ld.shared.u32 %r6, [%r5]; mad.lo.u32 %r9, %r6, 3, %r9; st.shared.u32 [%r5], %r9; bar.sync 0;\n"
        "fence.proxy.async.shared::cta; @!%p0 cp.async.bulk.global.shared::cta.bulk_group [%a5], [other], 256; @!%p0 cp.async.bulk.commit_group; @!%p0 cp.async.bulk.wait_group.read 0; cp.async.bulk.prefetch.L2.global [%a5], 256;\n"
        "bar.sync 0; ld.global.u32 %r7, [%a6]; add.u32 %r9, %r9, %r7;")
    /* a wait is missing: what was there before is read */
    KERNEL("early", "st.shared.u32 [%r3], 7;" INIT("1") "@%p0 bra go; mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%a5], 256, [bar]; go: bar.sync 0; ld.shared.u32 %r9, [%r3];")
#define OWN_COPIES(name, space, at) KERNEL(name, INIT("64") "cp.async.ca.shared.global [%r3], [%a6], 4; cp.async.mbarrier.arrive.noinc" space ".b64 " at ";\n" \
        "wait: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra wait; sub.u32 %r4, 63, %r0; mad.lo.u32 %r4, %r4, 4, %r1; ld.shared.u32 %r9, [%r4];\n" \
        "cp.async.mbarrier.arrive" space ".b64 " at "; mbarrier.test_wait.parity.shared.b64 %p2, [bar], 0; @%p2 add.u32 %r9, %r9, 1000;")
    OWN_COPIES("own_copies", ".shared", "[bar]") OWN_COPIES("own_copies_cta", ".shared::cta", "[%r2]") OWN_COPIES("own_copies_generic", "", "[%a8]")
    /* 16 bytes by each of 16 threads: r9 = their sum; of 8 of them with a size, of none but by thread 0 where a predicate says to ignore them */
#define ASYNC(name, space, more) KERNEL(name, "setp.ge.u32 %p3, %r0, 16; @%p3 bra end; mad.lo.u32 %r5, %r0, 16, %r1; mad.wide.u32 %a9, %r0, 16, %a5; mov.u32 %r7, 8;\n" \
        "st.shared.v4.u32 [%r5], {%r7, %r7, %r7, %r7}; cp.async.ca" space ".global [%r5], [%a9], 16" more "; cp.async.wait_all; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];\n" \
        "add.u32 %r9, %r10, %r11; add.u32 %r9, %r9, %r12; add.u32 %r9, %r9, %r13; end:")
    ASYNC("async", ".shared", "") ASYNC("async_cta", ".shared::cta", "") ASYNC("size", ".shared", ", %r7") ASYNC("size_cta", ".shared::cta", ", %r7")
    ASYNC("ignore", ".shared", ", %p0") ASYNC("ignore_cta", ".shared::cta", ", %p0")
    KERNEL("small", "setmaxnreg.inc.sync.aligned.u32 64; griddepcontrol.wait; griddepcontrol.launch_dependents; fence.proxy.async; fence.proxy.alias;\n"
        "elect.sync %r4|%p1, 0xffffffff; mov.u32 %r5, %laneid; setp.eq.u32 %p2, %r4, %r5; selp.u32 %r9, 1, 0, %p1; @%p2 add.u32 %r9, %r9, 2;\n"
        "mov.u32 %r6, %cluster_nctarank; mad.lo.u32 %r9, %r6, 10, %r9; mov.u32 %r6, %cluster_ctarank; add.u32 %r9, %r9, %r6; mov.u32 %r6, %nclusterid.x; mad.lo.u32 %r9, %r6, 100, %r9; mov.u32 %r6, %cluster_nctaid.y; mad.lo.u32 %r9, %r6, 1000, %r9;")
    KERNEL("nothing_there", "mbarrier.arrive.shared.b64 %a3, [bar];")
    KERNEL("gone", INIT("2") "@!%p0 mbarrier.inval.shared.b64 [bar]; bar.sync 0; mbarrier.arrive.shared.b64 %a3, [bar];")
    KERNEL("too_many", INIT("63") "mbarrier.arrive.shared.b64 %a3, [bar], 2;")
    KERNEL("completes", INIT("2") "@!%p0 mbarrier.arrive.noComplete.shared.b64 %a3, [bar], 2;")
    KERNEL("none", INIT("0"))
    KERNEL("odd_size", INIT("1") "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%a5], 24, [bar];");
// clang-format on

static const softgpu_kernel_table_t *table;
static uint32_t to[THREADS + 16];
static _Alignas(16) uint32_t from[THREADS];

static bool run(const char *name, char *why)
{
    struct {
        uint64_t to, from;
    } params = {(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from};
    ptx_run_t r = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
    memset(to, 0, sizeof to);
    for (uint32_t i = 0; i < THREADS; i++)
        from[i] = 100 + i * i;
    const bool ok = ptx_run(ptx_kernel(table, name), &r);
    if (why)
        memcpy(why, r.why, sizeof r.why);
    else if (!ok)
        fail_msg("%s: %s", name, r.why);
    return ok;
}

static void phases_follow_one_another(void **state)
{
    (void)state;
    run("phases", NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(to[i], 2 * (63 - i) + 1000);
    run("lanes", NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(to[i], i & 1 ? 5 : 6);
}

static void arrivals_and_bytes_are_counted(void **state)
{
    static const uint32_t want[] = {5, 3, 2, 0, 1, 1, 4, 0, 1, 1, 2, 1, 0, 1};
    static const char *const kernels[] = {"counts", "counts_cta", "counts_cluster", "counts_generic"};
    (void)state;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        run(kernels[k], NULL);
        for (uint32_t i = 0; i < sizeof want / sizeof *want; i++)
            if (to[THREADS + i] != want[i])
                fail_msg("%s: number %u is %u instead of %u", kernels[k], i, to[THREADS + i], want[i]);
    }
}

static void copies_arrive_when_they_are_waited_for(void **state)
{
    (void)state;
    run("copies", NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(to[i], 8 * (100 + i * i));
    run("early", NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(to[i], 7);
    static const char *const own[] = {"own_copies", "own_copies_cta", "own_copies_generic"};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
        run(own[k], NULL);
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(to[i], 100 + (63 - i) * (63 - i) + 1000);
    }
}

static void copies_take_what_they_are_told(void **state)
{
    static const char *const kernels[] = {"async", "async_cta", "size", "size_cta", "ignore", "ignore_cta"};
    (void)state;
    for (uint32_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        run(kernels[k], NULL);
        for (uint32_t i = 0; i < THREADS; i++) {
            uint32_t sum = 0;
            for (uint32_t word = 0; word < (k / 2 == 1 ? 2u : 4u) && i < 16 && (k / 2 != 2 || i == 0); word++)
                sum += from[4 * i + word];
            assert_int_equal(to[i], sum);
        }
    }
}

static void a_block_is_a_cluster(void **state)
{
    (void)state;
    run("small", NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(to[i], 1110 + (i % 32 ? 0 : 3));
}

static void misuse_is_named(void **state)
{
    static const char *const kernels[][2] = {
        {"gone", "is not initialised"}, {"nothing_there", "is not initialised"},
        {"too_many", "more arrivals"},  {"completes", "an arrival that says it does not"},
        {"none", "for no arrivals"},    {"odd_size", "multiples of 16"}};
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        char why[512];
        if (run(kernels[i][0], why))
            fail_msg("%s runs", kernels[i][0]);
        if (!strstr(why, kernels[i][1]))
            fail_msg("%s: %s", kernels[i][0], why);
    }
}

static int build(void **state)
{
    (void)state;
    table = ptx_build(module);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(phases_follow_one_another),
                                       cmocka_unit_test(arrivals_and_bytes_are_counted),
                                       cmocka_unit_test(copies_arrive_when_they_are_waited_for),
                                       cmocka_unit_test(copies_take_what_they_are_told),
                                       cmocka_unit_test(a_block_is_a_cluster),
                                       cmocka_unit_test(misuse_is_named)};
    return cmocka_run_group_tests(tests, build, NULL);
}
