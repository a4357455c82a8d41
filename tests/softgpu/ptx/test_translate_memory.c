/* test_translate_memory.c: loads, stores, atomic operations and matrices as they are translated. */
#include "ptx_test.h"

#include <math.h>

#include "rows.h"
#include "run_library.h"

enum { THREADS = 64 };

// clang-format off
#define KERNEL(name, body)                                                                                                 \
    ".visible .entry " name "(.param .u64 from, .param .u64 to, .param .align 8 .b8 struct_[24])\n{\n"                     \
    ".reg .pred %p<9>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %a<30>; .reg .f32 %f<30>; .reg .f64 %d<20>; .reg .b128 %q<3>;\n" \
    "ld.param.u64 %a0, [from]; ld.param.u64 %a1, [to]; mov.u32 %r0, %tid.x; cvt.u64.u32 %a2, %r0;\n" body "\nret;\n}\n"
/* %a5: from + THREAD * bytes, %a6: to + THREAD * 32 */
#define ELEMENT(bytes) "mad.lo.u64 %a5, %a2, " bytes ", %a0; mad.lo.u64 %a6, %a2, 32, %a1;\n"

static const char module[] = PTX_HEAD
    ".global .align 4 .u32 counter = 7;\n.const .align 8 .b8 text[12] = {104, 105, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};\n.global .align 8 .u64 pointers[2] = {counter, generic(text)};\n"
    ".shared .align 16 .b8 tile[8192];\n"
    KERNEL("sizes", ELEMENT("8") "ld.global.u8 %r1, [%a5+1]; ld.global.s8 %r2, [%a5+2]; ld.global.u16 %h1, [%a5+2]; ld.global.s16 %r3, [%a5+4]; ld.global.s32 %a7, [%a5+4];\n"
                    "st.global.u8 [%a6], %r1; st.global.u32 [%a6+4], %r2; st.global.u16 [%a6+8], %h1; st.global.u32 [%a6+12], %r3; st.global.u64 [%a6+16], %a7; st.global.u8 [%a6+24], %r2;")
    KERNEL("vectors", ELEMENT("32") "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a5]; ld.global.nc.v2.f64 {%d1, %d2}, [%a5+16]; st.global.v4.u32 [%a6], {%r4, %r3, %r2, %r1}; st.global.v2.f64 [%a6+16], {%d2, %d1};")
    KERNEL("wide", ELEMENT("32") "ld.global.b128 %q1, [%a5]; mov.b128 {%a7, %a8}, %q1; st.global.u64 [%a6], %a8; st.global.u64 [%a6+8], %a7; mov.b128 %q2, {%a8, %a7}; st.global.b128 [%a6+16], %q2;")
    KERNEL("gather", "xor.b32 %r1, %r0, 21; mul.lo.u32 %r1, %r1, 37; and.b32 %r1, %r1, 63; mul.wide.u32 %a7, %r1, 4; add.u64 %a5, %a0, %a7; add.u64 %a6, %a1, %a7;\n"
                     "setp.ne.u32 %p0, %r0, 9; @%p0 ld.global.u32 %r2, [%a5]; @!%p0 mov.u32 %r2, 99; st.global.u32 [%a6], %r2;")
    KERNEL("parameters", "ld.param.u32 %r1, [struct_+4]; ld.param.v2.u64 {%a7, %a8}, [struct_+8]; mov.b64 %a9, struct_; cvta.param.u64 %a9, %a9; ld.u16 %h1, [%a9+6]; ld.param.s8 %r2, [struct_+7];\n"
                         "mad.lo.u64 %a6, %a2, 32, %a1; st.global.u32 [%a6], %r1; st.global.u64 [%a6+8], %a7; st.global.u64 [%a6+16], %a8; st.global.u16 [%a6+4], %h1; st.global.u32 [%a6+24], %r2;")
    KERNEL("variables", "mad.lo.u64 %a6, %a2, 32, %a1; atom.global.add.u32 %r1, [counter], 1; st.global.u32 [%a6], %r1; ld.const.u32 %r2, [text+4]; st.global.u32 [%a6+4], %r2;\n"
                        "ld.global.u64 %a7, [pointers+8]; ld.u8 %r3, [%a7+1]; st.global.u32 [%a6+8], %r3;")
    /* each thread: from[0..] is updated by all, the old values do not matter; shared by 32-bit addresses */
    KERNEL("atomics", "red.global.add.u32 [%a0], %r0; red.global.add.u64 [%a0+8], %a2; red.global.min.s32 [%a0+16], %r0; red.global.max.u32 [%a0+20], %r0; red.global.or.b32 [%a0+24], %r0; red.global.and.b32 [%a0+28], %r0; red.global.xor.b32 [%a0+32], %r0;\n"
                      "cvt.rn.f32.u32 %f1, %r0; red.global.add.f32 [%a0+36], %f1; cvt.rn.f64.u32 %d1, %r0; red.global.add.f64 [%a0+40], %d1; atom.global.inc.u32 %r1, [%a0+48], 5; atom.global.dec.u32 %r2, [%a0+52], 5;\n"
                      "mov.b32 %r3, 0x3c003c00; red.global.add.noftz.f16x2 [%a0+56], %r3; mov.b16 %h1, 0x3f80; atom.global.add.noftz.bf16 %h2, [%a0+60], %h1; atom.global.exch.b64 %a7, [%a0+64], 5; red.global.max.s64 [%a0+72], %a2; red.global.add.v2.f32 [%a0+80], {%f1, %f1};\n"
                      "atom.relaxed.gpu.global.cas.b16 %h3, [%a0+88], 0, 7; mov.u32 %r5, tile; st.shared.u32 [%r5+64], 0; bar.sync 0; atom.shared.add.u32 %r6, [%r5+64], 2; bar.sync 0; ld.shared.u32 %r7, [tile+64]; st.global.u32 [%a1], %r7;")
    /* Memory of its own for each lane: some words that stay; in a loop, more than any stack has, each round's given back. Lanes leave it one by one. */
    KERNEL("stack", "and.b32 %r1, %r0, 3; mul.wide.u32 %a5, %r1, 8; add.u64 %a6, %a5, 1032; alloca.u64 %a7, %a6, 64; cvta.local.u64 %a7, %a7; add.u64 %a8, %a7, %a5; add.u64 %a17, %a2, 1000; st.u64 [%a7], %a17; st.u64 [%a8], %a17;\n"
                    "stacksave.u64 %a9; mov.u32 %r2, 0; add.u32 %r3, %r0, 2000; again: alloca.u64 %a10, 1024, 0; cvta.local.u64 %a11, %a10; st.u64 [%a11], %a2; st.u64 [%a11+1016], %a2; ld.u64 %a12, [%a11]; ld.u64 %a13, [%a11+1016];\n"
                    "stackrestore.u64 %a9; add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, %r3; @%p0 bra again;\n"
                    "alloca.u64 %a18, 1024, 0; cvta.local.u64 %a18, %a18; st.u64 [%a18], 5; alloca.u64 %a19, 1024, 0; cvta.local.u64 %a19, %a19; st.u64 [%a19], 5;\n"
                    "ld.u64 %a14, [%a7]; ld.u64 %a15, [%a8]; and.b64 %a16, %a7, 63; mad.lo.u64 %a6, %a2, 32, %a1; st.global.u32 [%a6], %a12; st.global.u32 [%a6+4], %a13; st.global.u32 [%a6+8], %a14; st.global.u32 [%a6+12], %a15; st.global.u32 [%a6+16], %a16;")
    KERNEL("async", "shl.b32 %r1, %r0, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1; cvt.u64.u32 %a7, %r1; add.u64 %a5, %a0, %a7; cp.async.cg.shared.global [%r2], [%a5], 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
                    "cp.async.ca.shared.global [%r2+2048], [%a5], 8, 4; cp.async.wait_all; xor.b32 %r3, %r1, 16; mov.u32 %r4, tile; add.u32 %r4, %r4, %r3; ld.shared.v2.u32 {%r5, %r6}, [%r4]; ld.shared.v2.u32 {%r7, %r8}, [%r2+2048]; mad.lo.u64 %a6, %a2, 32, %a1; st.global.v4.u32 [%a6], {%r5, %r6, %r7, %r8};")
    /* a: 16 x 16, b: 16 x 8 (as rows of its columns) of f16, from memory through ldmatrix */
    KERNEL("mma_f16", "mov.u32 %r1, tile; mul.lo.u32 %r2, %r0, 8; setp.lt.u32 %p0, %r0, 32; @!%p0 bra end; mul.wide.u32 %a7, %r2, 4; add.u64 %a5, %a0, %a7;\n"
                      "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%a5]; ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%a5+16]; shl.b32 %r11, %r0, 5; add.u32 %r11, %r11, %r1; st.shared.v4.u32 [%r11], {%r3, %r4, %r5, %r6}; st.shared.v4.u32 [%r11+16], {%r7, %r8, %r9, %r10}; bar.warp.sync 0xffffffff;\n"
                      "and.b32 %r12, %r0, 15; shr.u32 %r13, %r0, 4; shl.b32 %r12, %r12, 5; shl.b32 %r13, %r13, 4; add.u32 %r12, %r12, %r13; add.u32 %r12, %r12, %r1; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r12];\n"
                      "and.b32 %r14, %r0, 7; shr.u32 %r15, %r0, 3; and.b32 %r15, %r15, 1; shl.b32 %r14, %r14, 5; shl.b32 %r15, %r15, 4; add.u32 %r14, %r14, %r15; add.u32 %r14, %r14, %r1; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r24, %r25}, [%r14+512];\n"
                      "mov.f32 %f0, 0f3f800000; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r20, %r21, %r22, %r23}, {%r24, %r25}, {%f0, %f0, %f0, %f0};\n"
                      "shr.u32 %r30, %r0, 2; and.b32 %r31, %r0, 3; shl.b32 %r30, %r30, 5; shl.b32 %r31, %r31, 3; add.u32 %r30, %r30, %r31; cvt.u64.u32 %a8, %r30; add.u64 %a8, %a8, %a1; st.global.v2.f32 [%a8], {%f1, %f2}; st.global.v2.f32 [%a8+256], {%f3, %f4}; end:")
    /* fragments as the lanes have them: register r of lane l is word 8 * l + r */
    KERNEL("mma_s8", "setp.ge.u32 %p0, %r0, 32; @%p0 ret; mad.lo.u64 %a5, %a2, 32, %a0; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a5]; ld.global.v2.u32 {%r5, %r6}, [%a5+16]; mov.u32 %r7, 10;\n"
                     "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r11, %r12, %r13, %r14}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r7, %r7, %r7, %r7}; mad.lo.u64 %a6, %a2, 16, %a1; st.global.v4.u32 [%a6], {%r11, %r12, %r13, %r14};")
    KERNEL("mma_tf32", "setp.ge.u32 %p0, %r0, 32; @%p0 ret; mad.lo.u64 %a5, %a2, 32, %a0; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a5]; ld.global.v2.u32 {%r5, %r6}, [%a5+16]; mov.f32 %f0, 0f00000000;\n"
                       "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f0, %f0, %f0, %f0}; mad.lo.u64 %a6, %a2, 16, %a1; st.global.v4.f32 [%a6], {%f1, %f2, %f3, %f4};")
    KERNEL("movmatrix", "setp.ge.u32 %p0, %r0, 32; @%p0 ret; mul.wide.u32 %a7, %r0, 4; add.u64 %a5, %a0, %a7; add.u64 %a6, %a1, %a7; ld.global.u32 %r1, [%a5]; movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1; st.global.u32 [%a6], %r2;")
    /* rows go to where lanes 8 * matrix + row say: 16 * (5 * lane % 32) */
#define STMATRIX(name, trans) KERNEL(name, "setp.ge.u32 %p0, %r0, 32; @%p0 ret; mov.u32 %r1, tile; mul.lo.u32 %r2, %r0, 5; and.b32 %r2, %r2, 31; shl.b32 %r2, %r2, 4; add.u32 %r2, %r2, %r1; mul.wide.u32 %a7, %r0, 16; add.u64 %a5, %a0, %a7; add.u64 %a6, %a1, %a7;\n" \
                      "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%a5]; stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%r2], {%r3, %r4, %r5, %r6}; bar.warp.sync 0xffffffff; shl.b32 %r7, %r0, 4; add.u32 %r7, %r7, %r1; ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r7]; st.global.v4.u32 [%a6], {%r8, %r9, %r10, %r11};")
    STMATRIX("stmatrix", "") STMATRIX("stmatrix_trans", ".trans");
// clang-format on

static const softgpu_kernel_table_t *table;
static uint32_t from[THREADS * 8] __attribute__((aligned(64))), to[THREADS * 8] __attribute__((aligned(64)));
static uint8_t structure[24];

static void run(const char *name)
{
    struct {
        const void *from, *to;
        uint8_t structure[24];
    } params = {from, to, {0}};
    memcpy(params.structure, structure, sizeof structure);
    ptx_run_t r = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
    if (!ptx_run(ptx_kernel(table, name), &r))
        fail_msg("%s: %s", name, r.why);
}

static void fill(void)
{
    uint32_t x = 12345;
    for (uint32_t i = 0; i < THREADS * 8; i++) {
        x = x * 1664525 + 1013904223;
        from[i] = x ^ x >> 13;
        to[i] = 0xeeeeeeee;
    }
}

static void each_size_is_loaded_and_stored(void **state)
{
    (void)state;
    fill();
    run("sizes");
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint8_t *f = (const uint8_t *)from + 8 * i, *t = (const uint8_t *)to + 32 * i;
        int16_t s16;
        int32_t s32;
        int64_t s64;
        memcpy(&s16, f + 4, 2);
        memcpy(&s32, f + 4, 4);
        assert_int_equal(t[0], f[1]);
        assert_int_equal(t[1], 0xee);
        assert_int_equal(*(const int32_t *)(t + 4), (int8_t)f[2]);
        assert_memory_equal(t + 8, f + 2, 2);
        assert_int_equal(*(const int32_t *)(t + 12), s16);
        memcpy(&s64, t + 16, 8);
        assert_int_equal(s64, s32);
        assert_int_equal(t[24], f[2]);
        assert_int_equal(t[25], 0xee);
    }
}

static void vectors_keep_their_order(void **state)
{
    (void)state;
    fill();
    run("vectors");
    for (uint32_t i = 0; i < THREADS; i++) {
        for (uint32_t k = 0; k < 4; k++)
            assert_int_equal(to[8 * i + k], from[8 * i + 3 - k]);
        assert_memory_equal(to + 8 * i + 4, from + 8 * i + 6, 8);
        assert_memory_equal(to + 8 * i + 6, from + 8 * i + 4, 8);
    }
    fill();
    run("wide");
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_memory_equal(to + 8 * i, from + 8 * i + 2, 8);
        assert_memory_equal(to + 8 * i + 2, from + 8 * i, 8);
        assert_memory_equal(to + 8 * i + 4, to + 8 * i, 16);
    }
}

static void scattered_addresses_are_each_lanes(void **state)
{
    (void)state;
    fill();
    run("gather");
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint32_t at = (i ^ 21) * 37 & 63;
        assert_int_equal(to[at], i == 9 ? 99 : from[at]);
    }
}

static void parameters_and_variables_are_found(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < 24; i++)
        structure[i] = (uint8_t)(200 + i);
    fill();
    run("parameters");
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_memory_equal(to + 8 * i, structure + 4, 4);
        assert_memory_equal(to + 8 * i + 1, structure + 6, 2);
        assert_memory_equal(to + 8 * i + 2, structure + 8, 16);
        assert_int_equal((int32_t)to[8 * i + 6], (int8_t)207);
    }
    fill();
    run("variables");
    uint64_t sum = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        sum += to[8 * i];
        assert_int_equal(to[8 * i + 1], 0x04030201);
        assert_int_equal(to[8 * i + 2], 105);
    }
    assert_int_equal(sum, THREADS * 7 + THREADS * (THREADS - 1) / 2);
    const softgpu_unit_t *unit = &table->units[0];
    assert_int_equal(unit->variable_count, 3);
    assert_int_equal((uintptr_t)unit->begin % 4096 + (uintptr_t)unit->end % 4096, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range((uintptr_t)unit->variables[i].storage, (uintptr_t)unit->begin,
                        (uintptr_t)unit->end - unit->variables[i].bytes);
    assert_int_equal(ptx_kernel(table, "async")->static_shared_bytes, 8192);
    assert_int_equal(ptx_kernel(table, "sizes")->static_shared_bytes, 0);
}

static void atomic_operations_lose_nothing(void **state)
{
    (void)state;
    const uint32_t n = THREADS, sum = n * (n - 1) / 2;
    memset(from, 0, sizeof from);
    from[4] = 1000;
    from[7] = 0xff;
    from[18] = (uint32_t)-9;
    from[19] = UINT32_MAX;
    run("atomics");
    double d;
    memcpy(&d, from + 10, 8);
    assert_int_equal(from[0], sum);
    assert_int_equal(from[2], sum);
    assert_int_equal(from[4], 0);
    assert_int_equal(from[5], n - 1);
    assert_int_equal(from[6], n - 1);
    assert_int_equal(from[7], 0);
    assert_int_equal(from[8], 0);
    assert_true(F(from[9]) == (float)sum);
    assert_true(d == sum);
    assert_int_equal(from[12], n % 6);
    assert_int_equal(from[13], (6 - n % 6) % 6);
    assert_int_equal(from[14], 0x54005400);      /* 64 */
    assert_int_equal(from[15] & 0xffff, 0x4280); /* 64 */
    assert_int_equal(from[16], 5);
    assert_int_equal(from[18], n - 1);
    assert_int_equal(from[19], 0);
    assert_true(F(from[20]) == (float)sum && F(from[21]) == (float)sum);
    assert_int_equal(from[22], 7);
    assert_int_equal(to[0], 2 * n);
}

static void asynchronous_copies_arrive(void **state)
{
    (void)state;
    fill();
    run("async");
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_memory_equal(to + 8 * i, from + 4 * (i ^ 1), 8);
        assert_int_equal(to[8 * i + 2], from[4 * i]);
        assert_int_equal(to[8 * i + 3], 0);
    }
}

static uint16_t half(int x)
{
    const _Float16 h = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
}

static void matrices_are_multiplied(void **state)
{
    (void)state;
    uint16_t *a = (uint16_t *)(void *)from, *b = a + 256;
    float *d = (float *)(void *)to;
    memset(from, 0, sizeof from);
    for (int i = 0; i < 256; i++)
        a[i] = half(i * 7 % 23 - 11);
    for (int i = 0; i < 128; i++)
        b[i] = half(i * 5 % 19 - 9);
    run("mma_f16");
    for (int r = 0; r < 16; r++)
        for (int c = 0; c < 8; c++) {
            int sum = 1;
            for (int k = 0; k < 16; k++)
                sum += ((r * 16 + k) * 7 % 23 - 11) * ((c * 16 + k) * 5 % 19 - 9);
            assert_int_equal((int)d[r * 8 + c], sum);
        }

    fill();
    run("mma_s8");
    const uint8_t *bytes = (const uint8_t *)from;
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t r = lane / 4 + 8 * (i / 2), c = lane % 4 * 2 + i % 2;
            int32_t sum = 10;
            for (uint32_t k = 0; k < 32;
                 k++) { /* chapter 9.7.14.5.8 of the ISA, from element to lane and byte */
                const uint32_t lane_a = r % 8 * 4 + k % 16 / 4, at_a = (k / 16 * 2 + r / 8) * 4 + k % 4;
                const uint32_t lane_b = c * 4 + k % 16 / 4, at_b = k / 16 * 4 + k % 4;
                sum += (int8_t)bytes[32 * lane_a + at_a] * (int)bytes[32 * lane_b + 16 + at_b];
            }
            assert_int_equal((int32_t)to[4 * lane + i], sum);
        }

    for (uint32_t i = 0; i < THREADS * 8; i++)
        from[i] = (uint32_t)FB((float)((int)(i * 11 % 31) - 15));
    run("mma_tf32");
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t r = lane / 4 + 8 * (i / 2), c = lane % 4 * 2 + i % 2;
            float sum = 0;
            for (uint32_t k = 0; k < 8; k++)
                sum += F(from[8 * (r % 8 * 4 + k % 4) + k / 4 * 2 + r / 8]) *
                       F(from[8 * (c * 4 + k % 4) + 4 + k / 4]);
            assert_true(F(to[4 * lane + i]) == sum);
        }
}

/* Each access to global memory and each operation once for each thread. */
static void a_kernel_declares_what_its_text_costs(void **state)
{
    (void)state;
    const softgpu_kernel_table_t *costs = ptx_build(
        PTX_HEAD
        ".shared .align 4 .b32 s;\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %a<2>; .reg .f32 %f<9>; "
        ".reg .b32 %r<9>;\nld.param.u64 %a0, [p]; ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%a0]; "
        "fma.rn.f32 %f0, %f0, %f1, %f2; add.f32 %f0, %f0, %f3; add.u32 %r0, %r1, %r2;\n"
        "st.global.f32 [%a0], %f0; st.shared.u32 [s], %r0; red.global.add.u32 [%a0], 1; ret;\n}\n");
    const softgpu_launch_t launch = {.grid = {3, 2, 1}, .block = {32, 2, 1}};
    const softgpu_cost_t cost = ptx_kernel(costs, "k")->cost(&launch);
    assert_true(cost.bytes == 384.0 * (16 + 4 + 8) && cost.operations == 384.0 * 3 &&
                cost.kind == SOFTGPU_FP32);
}

/* Element (row, column) of a matrix of 8 x 8 as the lanes have it: of register `number` of so many. */
static uint16_t element(const uint32_t *registers, uint32_t count, uint32_t number, uint32_t row,
                        uint32_t column)
{
    return (uint16_t)(registers[(4 * row + column / 2) * count + number] >> (column % 2 * 16));
}

static void matrices_are_transposed_and_stored(void **state)
{
    (void)state;
    fill();
    run("movmatrix");
    for (uint32_t row = 0; row < 8; row++)
        for (uint32_t column = 0; column < 8; column++)
            assert_int_equal(element(to, 1, 0, row, column), element(from, 1, 0, column, row));
    for (int trans = 0; trans < 2; trans++) {
        fill();
        run(trans ? "stmatrix_trans" : "stmatrix");
        for (uint32_t i = 0; i < 4 * 64; i++) {
            const uint32_t matrix = i / 64, row = i / 8 % 8, column = i % 8;
            const uint16_t *stored = (const uint16_t *)to + (8 * matrix + row) * 5 % 32 * 8;
            assert_int_equal(stored[column], trans ? element(from, 4, matrix, column, row)
                                                   : element(from, 4, matrix, row, column));
        }
    }
}

static void each_lane_takes_memory_of_its_own(void **state)
{
    (void)state;
    fill();
    run("stack");
    for (uint32_t i = 0; i < THREADS; i++) {
        for (uint32_t k = 0; k < 4; k++)
            assert_int_equal(to[8 * i + k], k < 2 ? i : i + 1000);
        assert_int_equal(to[8 * i + 4], 0);
    }
}

static void what_is_not_translated_is_refused_and_named(void **state)
{
    (void)state;
    static const char *const lines[][2] = {{"stacksave.u32 %r5", "stacksave.u32"},
                                           {"alloca.u64 %a5, 8, 24", "alloca.u64"},
                                           {"wgmma.fence.sync.aligned", "wgmma.fence"},
                                           {"cvta.global.u32 %r1, %r2", "cvta"}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        static const char kernel[] = PTX_HEAD ".shared .align 8 .b64 tile;\n" KERNEL("k", "LINE;");
        const char *at = strstr(kernel, "LINE");
        char text[2048];
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - kernel), kernel, lines[i][0], at + 4);
        const char *why = ptx_untranslated(text);
        assert_non_null(why);
        if (!strstr(why, lines[i][1]) || !strstr(why, "line "))
            fail_msg("%s: %s", lines[i][0], why);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_size_is_loaded_and_stored),
                                       cmocka_unit_test(vectors_keep_their_order),
                                       cmocka_unit_test(scattered_addresses_are_each_lanes),
                                       cmocka_unit_test(parameters_and_variables_are_found),
                                       cmocka_unit_test(atomic_operations_lose_nothing),
                                       cmocka_unit_test(each_lane_takes_memory_of_its_own),
                                       cmocka_unit_test(asynchronous_copies_arrive),
                                       cmocka_unit_test(matrices_are_multiplied),
                                       cmocka_unit_test(matrices_are_transposed_and_stored),
                                       cmocka_unit_test(a_kernel_declares_what_its_text_costs),
                                       cmocka_unit_test(what_is_not_translated_is_refused_and_named)};
    return cmocka_run_group_tests(tests, build, NULL);
}
