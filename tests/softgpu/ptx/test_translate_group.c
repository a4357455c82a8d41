/* test_translate_group.c: operations of warps and blocks with each choice for each group of their modifiers: votes, matches, reductions of
 * warps and of barriers, matrices in shared memory, addresses of each space, copies of tensors. Each against what C makes of all threads' values. */
#include "ptx_test.h"

#include "float_reference.h"
#include "run_library.h"

enum { THREADS = 64, WARP = 32 };

static uint64_t from[THREADS];
static uint32_t to[THREADS], tile[THREADS * 4];

/* ---- rows: of threads with a value in %l1, %r1 (its low half), %f1 (the same as a float), %p1 (the lowest bit), a word in %r9 ---- */

typedef struct group_row {
    const char *text;
    uint32_t (*wanted)(uint32_t thread);
} group_row_t;

static bool odd(uint32_t thread)
{
    return from[thread] & 1;
}

static uint32_t ones(uint32_t begin, uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = begin; i < begin + count; i++)
        n += odd(i);
    return n;
}

#define OF_WARP(name, type, first, value, next)                                                              \
    static uint32_t name(uint32_t thread)                                                                    \
    {                                                                                                        \
        const uint32_t begin = thread / WARP * WARP;                                                         \
        type all = first;                                                                                    \
        for (uint32_t i = begin; i < begin + WARP; i++) {                                                    \
            const type x = value;                                                                            \
            all = next;                                                                                      \
        }                                                                                                    \
        uint32_t bits;                                                                                       \
        memcpy(&bits, &all, sizeof bits);                                                                    \
        return bits;                                                                                         \
    }
OF_WARP(sum, uint32_t, 0, W(from[i]), all + x)
OF_WARP(least, uint32_t, UINT32_MAX, W(from[i]), x < all ? x : all)
OF_WARP(most, uint32_t, 0, W(from[i]), x > all ? x : all)
OF_WARP(least_signed, int32_t, INT32_MAX, SW(from[i]), x < all ? x : all)
OF_WARP(most_signed, int32_t, INT32_MIN, SW(from[i]), x > all ? x : all)
OF_WARP(all_and, uint32_t, UINT32_MAX, W(from[i]), all &x)
OF_WARP(all_or, uint32_t, 0, W(from[i]), all | x)
OF_WARP(all_xor, uint32_t, 0, W(from[i]), all ^ x)
OF_WARP(least_float, float, NAN, F(from[i]), min_(all, x))
OF_WARP(most_float, float, NAN, F(from[i]), max_(all, x))
OF_WARP(least_size, float, NAN, fabsf(F(from[i])), min_(all, x))
OF_WARP(most_size, float, NAN, fabsf(F(from[i])), max_(all, x))
OF_WARP(nan_or_least, float, INFINITY, F(from[i]), all != all || x != x ? NAN : min_(all, x))

#define MATCHES(name, mask)                                                                                  \
    static uint32_t name(uint32_t thread)                                                                    \
    {                                                                                                        \
        const uint32_t begin = thread / WARP * WARP;                                                         \
        uint32_t same = 0;                                                                                   \
        for (uint32_t i = 0; i < WARP; i++)                                                                  \
            same |= (uint32_t)((from[begin + i] & (mask)) == (from[thread] & (mask))) << i;                  \
        return same;                                                                                         \
    }
MATCHES(same_words, UINT32_MAX)
MATCHES(same_longs, UINT64_MAX)
static uint32_t all_words(uint32_t thread)
{
    return same_words(thread) == UINT32_MAX ? UINT32_MAX : 0;
}
static uint32_t all_longs(uint32_t thread)
{
    return same_longs(thread) == UINT32_MAX ? UINT32_MAX : 0;
}
static uint32_t whether_all_words(uint32_t thread)
{
    return all_words(thread) + (all_words(thread) ? 100 : 0);
}
static uint32_t uniform(uint32_t thread)
{
    const uint32_t n = ones(thread / WARP * WARP, WARP);
    return n == 0 || n == WARP;
}
static uint32_t three_up(uint32_t thread)
{
    return W(from[thread % WARP < 3 ? thread : thread - 3]);
}
static uint32_t count_odd(uint32_t thread)
{
    return (void)thread, ones(0, THREADS);
}
static uint32_t count_even(uint32_t thread)
{
    return (void)thread, THREADS - ones(0, THREADS);
}
static uint32_t all_odd(uint32_t thread)
{
    return (void)thread, ones(0, THREADS) == THREADS;
}
static uint32_t any_odd(uint32_t thread)
{
    return (void)thread, ones(0, THREADS) > 0;
}
static uint32_t warp_of(uint32_t thread)
{
    return thread / WARP;
}
static uint32_t other_half(uint32_t thread)
{
    return W(from[thread < WARP ? thread : thread - WARP]);
}
static uint32_t reversed(uint32_t thread)
{
    return W(from[THREADS - 1 - thread]);
}

#define REDUCTIONS(name)                                                                                     \
    {name ".popc.u32 %r9, 1, %p1", count_odd}, {name ".popc.u32 %r9, 2, !%p1", count_even},                  \
        {name ".popc.u32 %r9, 3, 64, %p1", count_odd},                                                       \
        {name ".and.pred %p2, 1, %p1; selp.u32 %r9, 1, 0, %p2", all_odd},                                    \
        {name ".or.pred %p2, 2, %p1; selp.u32 %r9, 1, 0, %p2", any_odd},                                     \
        {name ".and.pred %p2, 3, 64, %p1; selp.u32 %r9, 1, 0, %p2", all_odd},                                \
    {                                                                                                        \
        name ".or.pred %p2, 4, 64, %p1; selp.u32 %r9, 1, 0, %p2", any_odd                                    \
    }
/* As `name` has .aligned behind the operation. */
#define ALIGNED_REDUCTIONS(name)                                                                             \
    {name ".popc.aligned.u32 %r9, 1, %p1", count_odd},                                                       \
        {name ".popc.aligned.u32 %r9, 3, 64, %p1", count_odd},                                               \
        {name ".and.aligned.pred %p2, 1, %p1; selp.u32 %r9, 1, 0, %p2", all_odd},                            \
    {                                                                                                        \
        name ".or.aligned.pred %p2, 3, 64, %p1; selp.u32 %r9, 1, 0, %p2", any_odd                            \
    }
/* The first warp leaves its values, and goes on; the second waits for it. */
#define MESSAGE(arrive, wait)                                                                                \
    "st.shared.u32 [%r3], %r1; @%p3 " wait " 5, 64; @!%p3 " arrive                                           \
    " 5, 64; mov.u32 %r9, %r1; @%p3 ld.shared.u32 %r9, [%r3-128]"
static const group_row_t rows[] = {
    {"redux.sync.add.u32 %r9, %r1, -1", sum},
    {"redux.sync.add.s32 %r9, %r1, -1", sum},
    {"redux.sync.min.u32 %r9, %r1, -1", least},
    {"redux.sync.max.u32 %r9, %r1, -1", most},
    {"redux.sync.min.s32 %r9, %r1, -1", least_signed},
    {"redux.sync.max.s32 %r9, %r1, -1", most_signed},
    {"redux.sync.and.b32 %r9, %r1, -1", all_and},
    {"redux.sync.or.b32 %r9, %r1, -1", all_or},
    {"redux.sync.xor.b32 %r9, %r1, -1", all_xor},
    {"redux.sync.min.f32 %f9, %f1, -1; mov.b32 %r9, %f9", least_float},
    {"redux.sync.max.f32 %f9, %f1, -1; mov.b32 %r9, %f9", most_float},
    {"redux.sync.min.abs.f32 %f9, %f1, -1; mov.b32 %r9, %f9", least_size},
    {"redux.sync.max.abs.f32 %f9, %f1, -1; mov.b32 %r9, %f9", most_size},
    {"redux.sync.min.NaN.f32 %f9, %f1, -1; mov.b32 %r9, %f9", nan_or_least},
    {"match.any.sync.b32 %r9, %r1, -1", same_words},
    {"match.any.sync.b64 %r9, %l1, -1", same_longs},
    {"match.all.sync.b32 %r9, %r1, -1", all_words},
    {"match.all.sync.b64 %r9, %l1, -1", all_longs},
    {"match.all.sync.b32 %r9|%p2, %r1, -1; @%p2 add.u32 %r9, %r9, 100", whether_all_words},
    {"vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r9, 1, 0, %p2", uniform},
    {"shfl.sync.up.b32 %r9, %r1, 3, 0, -1", three_up},
    REDUCTIONS("bar.red"),
    REDUCTIONS("bar.cta.red"),
    REDUCTIONS("barrier.red"),
    REDUCTIONS("barrier.cta.red"),
    ALIGNED_REDUCTIONS("barrier.red"),
    ALIGNED_REDUCTIONS("barrier.cta.red"),
    {"st.shared.u32 [%r3], %r1; bar.cta.sync 1; ld.shared.u32 %r9, [%r4]", reversed},
    {"st.shared.u32 [%r3], %r1; bar.cta.sync 1, 64; ld.shared.u32 %r9, [%r4]", reversed},
    {"st.shared.u32 [%r3], %r1; barrier.sync 1; ld.shared.u32 %r9, [%r4]", reversed},
    {"st.shared.u32 [%r3], %r1; barrier.cta.sync.aligned 1, 64; ld.shared.u32 %r9, [%r4]", reversed},
    {MESSAGE("bar.arrive", "bar.sync"), other_half},
    {MESSAGE("bar.cta.arrive", "bar.cta.sync"), other_half},
    {MESSAGE("barrier.arrive", "barrier.sync"), other_half},
    {MESSAGE("barrier.cta.arrive.aligned", "barrier.cta.sync.aligned"), other_half},
    /* what computes nothing, and lets a kernel go on */
    {"prefetch.L1 [%l2]; prefetch.L2 [%l2]; prefetch.global.L1 [%l2]; prefetch.local.L1 [%l2]; "
     "prefetch.global.L2::evict_normal [%l2]; "
     "prefetch.global.L2::evict_last [%l2]; createpolicy.fractional.L2::evict_normal.b64 %l3, 0f3f800000; "
     "nanosleep.u32 20; pmevent 3; "
     "setmaxnreg.dec.sync.aligned.u32 64; fence.proxy.async.global; fence.proxy.async.shared::cluster; "
     "cp.async.bulk.wait_group 0; "
     "mov.u32 %r9, %tid.x; shr.u32 %r9, %r9, 5",
     warp_of},
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool run(const softgpu_kernel_table_t *table, const char *name, const void *more, char *why)
{
    struct {
        const void *from, *to, *tile, *more;
    } params = {from, to, tile, more};
    ptx_run_t r = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
    memset(to, 0xee, sizeof to);
    const bool ok = ptx_run(ptx_kernel(table, name), &r);
    if (why)
        snprintf(why, sizeof r.why, "%s", r.why);
    else if (!ok)
        fail_msg("%s: %s", name, r.why);
    return ok;
}

#define HEAD(name) HEAD_BEGIN name HEAD_END
#define HEAD_BEGIN ".visible .entry "
#define HEAD_END                                                                                             \
    "(.param .u64 from, .param .u64 to, .param .u64 tile, .param .u64 more)\n{\n"                            \
    ".reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %l<30>; .reg .f32 %f<10>;\n"                              \
    "ld.param.u64 %l8, [from]; ld.param.u64 %l9, [to]; mov.u32 %r2, %tid.x; mad.wide.u32 %l2, %r2, 8, %l8; " \
    "mad.wide.u32 %l9, %r2, 4, %l9; ld.global.u64 %l1, [%l2]; cvt.u32.u64 %r1, %l1; mov.b32 %f1, %r1; "      \
    "and.b32 %r5, %r1, 1; setp.ne.u32 %p1, %r5, 0; mov.u32 %r6, shared; mad.lo.u32 %r3, %r2, 4, %r6; "       \
    "sub.u32 %r4, 63, %r2; mad.lo.u32 %r4, %r4, 4, %r6; setp.ge.u32 %p3, %r2, 32; mov.u32 %r9, 0;\n"
#define TAIL "\nst.global.u32 [%l9], %r9; ret;\n}\n"
#define MODULE                                                                                               \
    PTX_HEAD ".shared .align 128 .b8 shared[1024]; .shared .align 8 .b64 bar; .const .align 4 .b32 "         \
             "constant = 7;\n"

/* Random; all the same; all odd; of few values; with NaN as floats. */
static void fill(uint32_t round)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint64_t x = rows_draw();
        from[i] = round == 0   ? x
                  : round == 1 ? 0x4000000040000001
                  : round == 2 ? x | 1
                  : round == 3 ? x % 3
                               : (x & 0xff00000000) | FB(x >> 60 ? (float)(int64_t)x : NAN);
    }
}

static void rows_equal_c(void **state)
{
    char *text, name[16];
    size_t bytes;
    (void)state;
    rows_seed();
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "%s", MODULE);
    for (uint32_t i = 0; i < ROWS; i++) {
        snprintf(name, sizeof name, "k%u", i);
        fprintf(out, "%s%s%s%s;%s", HEAD_BEGIN, name, HEAD_END, rows[i].text, TAIL);
    }
    fclose(out);
    const softgpu_kernel_table_t *table = ptx_build(text);
    for (uint32_t round = 0; round < 5; round++)
        for (uint32_t i = 0; i < ROWS; i++) {
            fill(round);
            snprintf(name, sizeof name, "k%u", i);
            run(table, name, NULL, NULL);
            for (uint32_t t = 0; t < THREADS; t++) {
                const uint32_t wanted = rows[i].wanted(t);
                const bool both_nan =
                    strstr(rows[i].text, ".f32") && F(wanted) != F(wanted) && F(to[t]) != F(to[t]);
                if (to[t] != wanted && !both_nan)
                    fail_msg("%s: thread %u has 0x%x instead of 0x%x", rows[i].text, t, to[t], wanted);
            }
        }
    free(text);
}

static void brkpt_ends_the_kernel(void **state)
{
    char why[512];
    (void)state;
    const softgpu_kernel_table_t *table = ptx_build(MODULE HEAD("k") "@%p3 brkpt;" TAIL);
    assert_false(run(table, "k", NULL, why));
    assert_non_null(strstr(why, "brkpt"));
}

/* ---- addresses ---- */
static void addresses_are_of_their_space(void **state)
{
    static const char module[] = MODULE HEAD(
        "k") "mov.u64 %l10, shared; cvta.shared.u64 %l11, %l10; cvta.shared::cta.u64 %l12, %l10; "
             "cvta.shared::cluster.u64 %l13, %l10;\n"
             "mov.u64 %l14, constant; cvta.const.u64 %l15, %l14; mov.u64 %l16, from; cvta.param::entry.u64 "
             "%l17, %l16; cvta.param.u64 %l18, %l16;\n"
             "setp.eq.u64 %p2, %l11, %l12; @%p2 add.u32 %r9, %r9, 1; setp.eq.u64 %p2, %l11, %l13; @%p2 "
             "add.u32 %r9, %r9, 2;\n"
             "ld.u32 %r10, [%l15]; setp.eq.u32 %p2, %r10, 7; @%p2 add.u32 %r9, %r9, 4; ld.u64 %l19, [%l17]; "
             "setp.eq.u64 %p2, %l19, %l8; @%p2 add.u32 %r9, %r9, 8;\n"
             "isspacep.shared::cta %p2, %l11; @%p2 add.u32 %r9, %r9, 16; isspacep.shared::cluster %p2, %l11; "
             "@%p2 add.u32 %r9, %r9, 32;\n"
             "isspacep.const %p2, %l15; @%p2 add.u32 %r9, %r9, 64; isspacep.param %p2, %l18; @%p2 add.u32 "
             "%r9, %r9, 128; isspacep.param::entry %p2, %l17; @%p2 add.u32 %r9, %r9, 256;\n"
             "isspacep.shared::cta %p2, %l8; @%p2 add.u32 %r9, %r9, 512; isspacep.shared::cluster %p2, %l8; "
             "@%p2 add.u32 %r9, %r9, 1024; isspacep.const %p2, %l8; @%p2 add.u32 %r9, %r9, 2048;\n"
             "isspacep.param %p2, %l8; @%p2 add.u32 %r9, %r9, 4096; isspacep.param::entry %p2, %l11; @%p2 "
             "add.u32 %r9, %r9, 8192;" TAIL;
    (void)state;
    run(ptx_build(module), "k", NULL, NULL);
    for (uint32_t t = 0; t < THREADS; t++)
        assert_int_equal(to[t], 511);
}

/* ---- matrices of 8 x 8 halves ---- */

/* Rows are 16 bytes; that of lane l (8 * matrix + row) is at 16 * (l * 5 % 32). Registers of lane l are words 4 * l and on. */
static void write_matrix_kernel(FILE *out, uint32_t count, const char *trans, const char *space, bool store)
{
    const char *place = *space ? "[%r12]" : "[%l12]";
    char registers[64] = "{%r20";
    for (uint32_t i = 1; i < count; i++)
        snprintf(registers + strlen(registers), sizeof registers - strlen(registers), ", %%r%u", 20 + i);
    strcat(registers, "}");
    fprintf(out, "%s%s%u%s%s%s%s", HEAD_BEGIN, store ? "st" : "ld", count, *trans ? "t" : "",
            *space ? "s" : "", strstr(space, "cta") ? "c" : "", HEAD_END);
    fprintf(out, "setp.ge.u32 %%p2, %%r2, 32; @%%p2 ret; ld.param.u64 %%l10, [tile]; mad.wide.u32 %%l11, "
                 "%%r2, 16, %%l10;\n");
    fprintf(out, "mov.u32 %%r10, shared; mad.lo.u32 %%r11, %%r2, 16, %%r10; mul.lo.u32 %%r12, %%r2, 5; "
                 "and.b32 %%r12, %%r12, 31; mad.lo.u32 %%r12, %%r12, 16, %%r10;\n"
                 "cvt.u64.u32 %%l12, %%r12; cvta.shared.u64 %%l12, %%l12; ld.global.v4.u32 {%%r20, %%r21, "
                 "%%r22, %%r23}, [%%l11];\n");
    if (store)
        fprintf(out,
                "stmatrix.sync.aligned.m8n8.x%u%s%s.b16 %s, %s; bar.warp.sync -1; ld.shared.v4.u32 {%%r20, "
                "%%r21, %%r22, %%r23}, [%%r11];\n",
                count, trans, space, place, registers);
    else
        fprintf(out,
                "st.shared.v4.u32 [%%r11], {%%r20, %%r21, %%r22, %%r23}; bar.warp.sync -1; "
                "ldmatrix.sync.aligned.m8n8.x%u%s%s.b16 %s, %s;\n",
                count, trans, space, registers, place);
    fprintf(out, "st.global.v4.u32 [%%l11], {%%r20, %%r21, %%r22, %%r23}; ret;\n}\n");
}

static uint16_t half_at(const uint32_t *words, uint32_t number)
{
    return (uint16_t)(words[number / 2] >> number % 2 * 16);
}

static uint16_t of_lane(const uint32_t *words, uint32_t matrix, uint32_t row, uint32_t column)
{
    return half_at(words, 2 * ((4 * row + column / 2) * 4 + matrix) + column % 2);
}

static uint16_t of_row(const uint32_t *words, uint32_t matrix, uint32_t row, uint32_t column)
{
    return half_at(words, (8 * matrix + row) * 5 % 32 * 8 + column);
}

static void matrices_of_every_form_are_moved(void **state)
{
    static const char *const spaces[] = {"", ".shared", ".shared::cta"}, *const transposed[] = {"", ".trans"};
    char *text, name[32];
    size_t bytes;
    (void)state;
    FILE *out = open_memstream(&text, &bytes);
    fprintf(out, "%s", MODULE);
    for (uint32_t i = 0; i < 36; i++)
        write_matrix_kernel(out, 1u << i % 3, transposed[i / 3 % 2], spaces[i / 6 % 3], i / 18);
    fclose(out);
    const softgpu_kernel_table_t *table = ptx_build(text);
    for (uint32_t i = 0; i < 36; i++) {
        const bool trans = i / 3 % 2, store = i / 18;
        uint32_t before[THREADS * 4];
        const char *space = spaces[i / 6 % 3];
        for (uint32_t k = 0; k < THREADS * 4; k++)
            before[k] = tile[k] = W(rows_draw());
        snprintf(name, sizeof name, "%s%u%s%s%s", store ? "st" : "ld", 1u << i % 3, trans ? "t" : "",
                 *space ? "s" : "", strstr(space, "cta") ? "c" : "");
        run(table, name, NULL, NULL);
        for (uint32_t k = 0; k < 64u << i % 3; k++) {
            const uint32_t matrix = k / 64, row = k / 8 % 8, column = k % 8;
            const uint16_t is =
                               store ? of_row(tile, matrix, row, column) : of_lane(tile, matrix, row, column),
                           wanted = store
                                        ? of_lane(before, matrix, trans ? column : row, trans ? row : column)
                                        : of_row(before, matrix, trans ? column : row, trans ? row : column);
            if (is != wanted)
                fail_msg("%s: matrix %u, row %u, column %u is 0x%x instead of 0x%x", name, matrix, row,
                         column, is, wanted);
        }
    }
    free(text);
}

/* ---- copies of tensors ---- */

/* The box at (x, y) comes in by the one spelling or the other, goes to the tile as it is, and out to the tensor with each number doubled. */
#define TENSOR(name, space)                                                                                  \
    HEAD(name)                                                                                               \
    "ld.param.u64 %l10, [tile]; ld.param.u64 %l11, [more]; ld.global.v2.s32 {%r10, %r11}, [%l11+128]; "      \
    "setp.ne.u32 %p2, %r2, 0;\n"                                                                             \
    "@!%p2 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0; @%p2 bra wait; "                              \
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;\n"                                             \
    "cp.async.bulk.tensor.2d." space                                                                         \
    ".global.mbarrier::complete_tx::bytes [shared], [%l11, {%r10, %r11}], [bar];\n"                          \
    "wait: mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra wait; @%p3 bra out; ld.shared.u32 "  \
    "%r9, [%r3];\n"                                                                                          \
    "mad.wide.u32 %l12, %r2, 4, %l10; st.global.u32 [%l12], %r9; shl.b32 %r12, %r9, 1; st.shared.u32 "       \
    "[%r3], %r12;\n"                                                                                         \
    "out: bar.sync 0; @%p2 bra end; fence.proxy.async.shared::cta; "                                         \
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%l11, {%r10, %r11}], [shared];\n"                \
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; end:" TAIL

static void boxes_of_tensors_are_copied(void **state)
{
    enum { WIDTH = 10, HEIGHT = 6, PITCH = 12, BOX = 8, ROWS_OF_BOX = 4 };
    static const int32_t places[][2] = {{0, 0}, {1, 2}, {-3, -1}, {5, 3}, {-2, 4}, {20, 0}, {0, -4}};
    static const char *const kernels[] = {"cta", "cluster"};
    (void)state;
    const softgpu_kernel_table_t *table =
        ptx_build(MODULE TENSOR("cta", "shared::cta") TENSOR("cluster", "shared::cluster"));
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t p = 0; p < sizeof places / sizeof *places; p++) {
            int32_t tensor[HEIGHT * PITCH], before[HEIGHT * PITCH];
            _Alignas(16) struct {
                softgpu_tensor_t map; /* what the service of run_library.c reads */
                char pad[128 - sizeof(softgpu_tensor_t) % 128];
                int32_t at[2];
            } more = {.map = {.at = (char *)tensor,
                              .rank = 2,
                              .element_bytes = 4,
                              .size = {WIDTH, HEIGHT},
                              .stride = {4, 4 * PITCH},
                              .box = {BOX, ROWS_OF_BOX}},
                      .at = {places[p][0], places[p][1]}};
            _Static_assert(sizeof(softgpu_tensor_t) <= 128, "the coordinates are at 128");
            for (int32_t i = 0; i < HEIGHT * PITCH; i++)
                before[i] = tensor[i] = 100 + i;
            run(table, kernels[k], &more, NULL);
            for (int32_t row = 0; row < ROWS_OF_BOX; row++)
                for (int32_t column = 0; column < BOX; column++) {
                    const int32_t x = places[p][0] + column, y = places[p][1] + row;
                    const bool inside = x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT;
                    assert_int_equal(tile[row * BOX + column], inside ? before[y * PITCH + x] : 0);
                    if (inside)
                        before[y * PITCH + x] *= 2;
                }
            assert_memory_equal(tensor, before, sizeof tensor);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_c), cmocka_unit_test(brkpt_ends_the_kernel),
        cmocka_unit_test(addresses_are_of_their_space), cmocka_unit_test(matrices_of_every_form_are_moved),
        cmocka_unit_test(boxes_of_tensors_are_copied)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
