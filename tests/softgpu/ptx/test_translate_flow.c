/* test_translate_flow.c: control flow of warps: lanes part and meet, wait for each other, call. Each kernel writes a word per thread. */
#include "ptx_test.h"

#include "rows.h"
#include "run_library.h"

enum { THREADS = 80 };

// clang-format off
#define KERNEL(name, body)                                                                                                 \
    ".visible .entry " name "(.param .u64 to, .param .u64 shared_words)\n{\n"                                              \
    ".reg .pred %p<20>; .reg .b32 %r<40>; .reg .b64 %a<20>; .reg .f32 %f<9>;\n"                                            \
    "ld.param.u64 %a0, [to]; ld.param.u64 %a5, [shared_words]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.u64 %a2, %a0, %a1;\n" \
    "mov.u32 %r1, %laneid; mov.u32 %r9, 0;\n" body "\nst.global.u32 [%a2], %r9;\nret;\n}\n"

static const char module[] = PTX_HEAD
    ".shared .align 4 .b8 words[4096];\n"
    /* r9 = lane & 1 ? (lane & 2 ? 3 : 1) : (lane & 4 ? 40 : 0), + 1000 by all, together */
    KERNEL("nested", "and.b32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra even;\n"
                     "and.b32 %r3, %r1, 2; setp.eq.u32 %p1, %r3, 0; @%p1 bra one; mov.u32 %r9, 3; bra met; one: mov.u32 %r9, 1; bra met;\n"
                     "even: and.b32 %r3, %r1, 4; setp.eq.u32 %p1, %r3, 0; @%p1 bra met; mov.u32 %r9, 40;\n"
                     "met: activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 1000, %r9;")
    /* sum of 0..lane; then how many are together behind the loop */
    KERNEL("loop", "mov.u32 %r2, 0;\n"
                   "again: add.u32 %r9, %r9, %r2; add.u32 %r2, %r2, 1; setp.le.u32 %p0, %r2, %r1; @%p0 bra again;\n"
                   "activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 10000, %r9;")
    /* for i in 0..99: if i % 7 == lane % 7 continue; if i > lane break; r9 += i */
    KERNEL("breaks", "mov.u32 %r2, 0; rem.u32 %r3, %r1, 7;\n"
                     "top: setp.ge.u32 %p0, %r2, 100; @%p0 bra out; rem.u32 %r4, %r2, 7; setp.eq.u32 %p1, %r4, %r3; @%p1 bra next;\n"
                     "setp.gt.u32 %p2, %r2, %r1; @%p2 bra out; add.u32 %r9, %r9, %r2;\n"
                     "next: add.u32 %r2, %r2, 1; bra top;\n"
                     "out: activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 10000, %r9;")
    /* a loop with two entries: odd lanes come in at b */
    KERNEL("irreducible", "mov.u32 %r2, 0; and.b32 %r3, %r1, 1; setp.eq.u32 %p0, %r3, 1; @%p0 bra b;\n"
                          "a: add.u32 %r9, %r9, 1;\n"
                          "b: add.u32 %r9, %r9, 100; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 4; @%p1 bra a;")
    KERNEL("early", "setp.gt.u32 %p0, %r1, 9; mov.u32 %r9, 5; @%p0 bra go; st.global.u32 [%a2], %r9; ret;\n"
                    "go: activemask.b32 %r4; popc.b32 %r9, %r4;")
    /* lanes 0 to 15 exchange among themselves in a branch, the others in another */
    KERNEL("shuffles", "setp.lt.u32 %p0, %r1, 16; @%p0 bra low;\n"
                       "shfl.sync.bfly.b32 %r9, %r1, 1, 31, 0xffff0000; add.u32 %r9, %r9, 100; bra met;\n"
                       "low: shfl.sync.idx.b32 %r9|%p1, %r1, 3, 31, 0x0000ffff;\n"
                       "met: shfl.sync.down.b32 %r3|%p2, %r9, 1, 31, 0xffffffff; @%p2 add.u32 %r9, %r9, %r3;")
    /* all lanes meet in one shuffle, though they come from two branches at different times */
    KERNEL("rendezvous", "mov.u32 %r2, 7; setp.lt.u32 %p0, %r1, 20; @%p0 bra wait;\n"
                         "mov.u32 %r3, 0; spin: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra spin; mov.u32 %r2, %r3;\n"
                         "wait: vote.sync.ballot.b32 %r9, %p0, 0xffffffff; redux.sync.add.u32 %r4, %r2, 0xffffffff; add.u32 %r9, %r9, %r4;")
    /* lanes leave a loop one by one; in each round those that are left vote */
    KERNEL("votes", "mov.u32 %r2, 0; mov.u32 %r5, 0xffffffff;\n"
                    "round: setp.ge.u32 %p0, %r1, %r2; vote.ballot.sync.b32 %r3, %p0, %r5; popc.b32 %r4, %r3; add.u32 %r9, %r9, %r4;\n"
                    "@!%p0 bra done; mov.u32 %r5, %r3; add.u32 %r2, %r2, 1; bra round; done:")
    /* each lane has the mask of the lanes with its key */
    KERNEL("groups", "rem.u32 %r2, %r1, 5; match.any.sync.b32 %r3, %r2, 0xffffffff; redux.sync.add.u32 %r9, %r1, %r3;\n"
                     "elect.sync %r4|%p0, %r3; @%p0 add.u32 %r9, %r9, 1000; vote.sync.all.pred %p1, %p0, %r3; @%p1 add.u32 %r9, %r9, 5000;")
    /* a lock of the warp's own lanes: each adds 1 to a word, not atomically */
    KERNEL("lock", "mov.u32 %r2, 1;\n"
                   "try: atom.global.cas.b32 %r3, [%a5], 0, 1; setp.ne.u32 %p0, %r3, 0; @%p0 bra try;\n"
                   "ld.volatile.global.u32 %r4, [%a5+4]; add.u32 %r4, %r4, 1; st.volatile.global.u32 [%a5+4], %r4; membar.gl;\n"
                   "atom.global.exch.b32 %r5, [%a5], 0; mov.u32 %r9, 1;")
    /* lane 5 waits for lane 3 in a loop of plain volatile loads; warps, too */
    KERNEL("flag", "setp.eq.u32 %p0, %r0, 3; @%p0 bra set;\n"
                   "look: ld.volatile.global.u32 %r2, [%a5]; setp.eq.u32 %p1, %r2, 0; @%p1 bra look; mov.u32 %r9, %r2; bra end;\n"
                   "set: st.volatile.global.u32 [%a5], 77; mov.u32 %r9, 1; end:")
    KERNEL("table", "rem.u32 %r2, %r1, 3; t: .branchtargets x, y, z;\n"
                    "brx.idx %r2, t; x: mov.u32 %r9, 10; bra m; y: mov.u32 %r9, 20; bra m; z: mov.u32 %r9, 30;\n"
                    "m: activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 100, %r9;")
    KERNEL("lost", "setp.lt.u32 %p0, %r1, 3; @%p0 bra a; bar.warp.sync 0xffffffff; bra b; a: vote.sync.any.pred %p1, %p0, 0xffffffff; b:")
    KERNEL("sites", "setp.lt.u32 %p0, %r1, 3; @%p0 bra a; mov.u32 %r9, 1; bar.warp.sync 0xffffffff; add.u32 %r9, %r9, 10; bra b;\n"
                    "a: mov.u32 %r9, 2; bar.warp.sync 0xffffffff; add.u32 %r9, %r9, 20; b:")
    KERNEL("stranger", "bar.warp.sync 0x0000ffff;")
    KERNEL("misaligned", "add.u64 %a3, %a0, 2; ld.global.u32 %r9, [%a3];")
    KERNEL("traps", "setp.eq.u32 %p0, %r0, 40; @%p0 trap;")
    ".func (.param .b32 out) fib(.param .b32 in)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; mov.b32 %r2, %r1; setp.lt.s32 %p0, %r1, 2; @%p0 bra end;\n"
    "add.s32 %r3, %r1, -1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }\n"
    "add.s32 %r3, %r1, -2; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call.uni (b), fib, (a); ld.param.b32 %r5, [b]; }\n"
    "add.s32 %r2, %r4, %r5;\nend: st.param.b32 [out], %r2; ret;\n}\n"
    ".func (.param .b32 out) leaves(.param .b32 in)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; setp.gt.u32 %p0, %r1, 20; @%p0 exit; add.u32 %r1, %r1, 300; st.param.b32 [out], %r1; ret;\n}\n"
    KERNEL("calls", "rem.u32 %r2, %r1, 9; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), fib, (a); ld.param.b32 %r9, [b]; }\n"
                    "activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 1000, %r9;")
    KERNEL("indirect", "mov.u64 %a3, fib; mov.u64 %a4, leaves; and.b32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 0; selp.b64 %a6, %a3, %a4, %p0;\n"
                       "rem.u32 %r3, %r1, 7; mov.u32 %r9, 4242; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3;\n"
                       "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (b), %a6, (a), proto; ld.param.b32 %r9, [b]; }")
    KERNEL("exits", "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), leaves, (a); ld.param.b32 %r9, [b]; }\n"
                    "bar.warp.sync 0xffffffff;")
    /* Functions in which lanes wait for lanes that are not in the same call. */
    ".func (.param .b32 out) exchange(.param .b32 in)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; setp.ne.u32 %p0, %r1, 0; vote.sync.ballot.b32 %r2, %p0, 0xffffffff; redux.sync.add.u32 %r3, %r1, 0xffffffff;\n"
    "shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffffffff; match.any.sync.b32 %r5, %r1, 0xffffffff; popc.b32 %r5, %r5;\n"
    "add.u32 %r2, %r2, %r3; mad.lo.u32 %r2, %r4, 3, %r2; mad.lo.u32 %r2, %r5, 1000, %r2; st.param.b32 [out], %r2; ret;\n}\n"
    KERNEL("sides", "setp.lt.u32 %p0, %r1, 16; @%p0 bra low;\n"
                    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), exchange, (a); ld.param.b32 %r9, [b]; } bra met;\n"
                    "low: shl.b32 %r2, %r1, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), exchange, (a); ld.param.b32 %r9, [b]; }\n"
                    "met: activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 100000, %r9;")
    /* in a loop, and from within another function */
    ".func (.param .b32 out) deeper(.param .b32 in)\n{\n.reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), exchange, (a); ld.param.b32 %r2, [b]; } st.param.b32 [out], %r2; ret;\n}\n"
    KERNEL("rounds", "mov.u32 %r2, 0; and.b32 %r6, %r1, 1; setp.eq.u32 %p0, %r6, 1;\n"
                     "again: add.u32 %r3, %r1, %r2; @%p0 bra odd;\n"
                     "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), deeper, (a); ld.param.b32 %r4, [b]; } bra met;\n"
                     "odd: { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3; call (b), exchange, (a); ld.param.b32 %r4, [b]; }\n"
                     "met: add.u32 %r9, %r9, %r4; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 50; @%p1 bra again;")
    ".func (.param .b32 out) meet(.param .b32 in)\n{\n.reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; bar.warp.sync 0xffffffff; add.u32 %r1, %r1, 7; st.param.b32 [out], %r1; ret;\n}\n"
    KERNEL("outside", "and.b32 %r6, %r1, 1; setp.eq.u32 %p0, %r6, 1; @%p0 bra odd; bar.warp.sync 0xffffffff; mov.u32 %r9, 5; bra met;\n"
                      "odd: { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), meet, (a); ld.param.b32 %r9, [b]; } met:")
    KERNEL("guarded", "and.b32 %r6, %r1, 1; setp.eq.u32 %p0, %r6, 1; mov.u32 %r9, 5; @%p0 call (%r9), meet, (%r1); @!%p0 bar.warp.sync 0xffffffff;\n"
                      "activemask.b32 %r4; popc.b32 %r5, %r4; mad.lo.u32 %r9, %r5, 100, %r9;")
    ".func (.param .b32 out) together(.param .b32 in)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>;\n"
    "ld.param.b32 %r1, [in]; and.b32 %r2, %r1, 1; setp.eq.u32 %p0, %r2, 1; bar.sync 0; barrier.red.popc.aligned.u32 %r3, 0, %p0; bar.sync 0; st.param.b32 [out], %r3; ret;\n}\n"
    KERNEL("blocks", "setp.lt.u32 %p0, %r1, 5; @%p0 bra low;\n"
                     "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), together, (a); ld.param.b32 %r9, [b]; } bra met;\n"
                     "low: { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), together, (a); ld.param.b32 %r9, [b]; } met:")
    /* a lock whose functions are not inlined */
    ".func take(.param .b64 at)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %a<3>;\n"
    "ld.param.u64 %a0, [at]; try: atom.cas.b32 %r1, [%a0], 0, 1; setp.ne.u32 %p0, %r1, 0; @%p0 bra try; ret;\n}\n"
    ".func give(.param .b64 at)\n{\n.reg .b32 %r<9>; .reg .b64 %a<3>;\nld.param.u64 %a0, [at]; membar.gl; atom.exch.b32 %r1, [%a0], 0; ret;\n}\n"
    KERNEL("locked", "{ .param .b64 a; st.param.b64 [a], %a5; call take, (a); }\n"
                     "ld.volatile.global.u32 %r4, [%a5+4]; add.u32 %r4, %r4, 1; st.volatile.global.u32 [%a5+4], %r4;\n"
                     "{ .param .b64 a; st.param.b64 [a], %a5; call give, (a); } mov.u32 %r9, 1; activemask.b32 %r5;")
    /* lane 5 waits in a function for what lane 3 does behind it */
    ".func look(.param .b64 at)\n{\n.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %a<3>;\n"
    "mov.u32 %r2, %laneid; setp.eq.u32 %p1, %r2, 3; @%p1 ret; ld.param.u64 %a0, [at]; again: ld.volatile.u32 %r1, [%a0]; setp.eq.u32 %p0, %r1, 0; @%p0 bra again; ret;\n}\n"
    KERNEL("ahead", "{ .param .b64 a; st.param.b64 [a], %a5; call look, (a); } mov.u32 %r9, 3; setp.eq.u32 %p0, %r1, 3; @%p0 st.volatile.global.u32 [%a5], 1;")
    ".extern .func (.param .b64 out) malloc(.param .b64 bytes);\n.extern .func free(.param .b64 at);\n"
    KERNEL("heap", "{ .param .b64 n; .param .b64 m; st.param.b64 [n], 64; call (m), malloc, (n); ld.param.b64 %a3, [m]; } st.u32 [%a3+60], %r0; ld.u32 %r9, [%a3+60];\n"
                   "{ .param .b64 n; st.param.b64 [n], %a3; call free, (n); }")
    KERNEL("barriers", "shl.b32 %r2, %r0, 2; mov.u32 %r3, words; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r0; bar.sync 0;\n"
                       "mov.u32 %r4, %ntid.x; sub.u32 %r4, %r4, %r0; sub.u32 %r4, %r4, 1; shl.b32 %r4, %r4, 2; mov.u32 %r5, words; add.u32 %r5, %r5, %r4; ld.shared.u32 %r9, [%r5];\n"
                       "setp.lt.u32 %p0, %r0, 33; barrier.red.popc.aligned.u32 %r6, 0, %p0; mad.lo.u32 %r9, %r6, 1000, %r9;\n"
                       "barrier.red.and.aligned.pred %p1, 0, %p0; barrier.red.or.aligned.pred %p2, 0, %p0; selp.u32 %r7, 100000, 0, %p1; add.u32 %r9, %r9, %r7; selp.u32 %r7, 200000, 0, %p2; add.u32 %r9, %r9, %r7;\n"
                       "setp.ge.u32 %p3, %r0, 64; @%p3 bra end; setp.ge.u32 %p4, %r0, 32; @%p4 bra take; bar.arrive 1, 64; bra end; take: bar.sync 1, 64; add.u32 %r9, %r9, 1000000; end:")
    ".extern .shared .align 16 .b8 dynamic[];\n"
    KERNEL("spaces", ".local .align 8 .b8 own[16];\n"
                     "mov.u64 %a3, own; cvta.local.u64 %a4, %a3; st.local.u32 [%a3+4], %r0; ld.u32 %r2, [%a4+4]; isspacep.local %p0, %a4; selp.u32 %r3, 1000, 0, %p0; add.u32 %r9, %r2, %r3;\n"
                     "mov.u64 %a6, dynamic; cvta.shared.u64 %a7, %a6; mul.wide.u32 %a8, %r0, 4; add.u64 %a9, %a7, %a8; st.u32 [%a9], %r0; add.u64 %a10, %a6, %a8; ld.shared.u32 %r4, [%a10]; sub.u32 %r4, %r4, %r0; add.u32 %r9, %r9, %r4;\n"
                     "isspacep.shared %p1, %a9; isspacep.global %p2, %a0; isspacep.global %p3, %a9; selp.u32 %r5, 10000, 0, %p1; selp.u32 %r6, 20000, 0, %p2; selp.u32 %r7, 40000, 0, %p3; add.u32 %r9, %r9, %r5; add.u32 %r9, %r9, %r6; add.u32 %r9, %r9, %r7;\n"
                     "cvta.to.shared.u64 %a11, %a9; sub.u64 %a11, %a11, %a10; cvt.u32.u64 %r8, %a11; add.u32 %r9, %r9, %r8;");
// clang-format on

static const softgpu_kernel_table_t *table;
static uint32_t words[4];

static bool run(const char *name, uint32_t *to, char *why)
{
    struct {
        uint64_t to, words;
    } params = {(uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)words};
    ptx_run_t r = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = &params};
    memset(to, 0, THREADS * sizeof *to);
    memset(words, 0, sizeof words);
    const bool ok = ptx_run(ptx_kernel(table, name), &r);
    if (why)
        memcpy(why, r.why, sizeof r.why);
    else if (!ok)
        fail_msg("%s: %s", name, r.why);
    return ok;
}

/* `expected` of a thread's number, its lane and how many lanes its warp has. */
static void check(const char *name, uint32_t (*expected)(uint32_t thread, uint32_t lane, uint32_t lanes))
{
    uint32_t to[THREADS];
    run(name, to, NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        const uint32_t lanes = THREADS - i / 32 * 32 < 32 ? THREADS - i / 32 * 32 : 32;
        const uint32_t want = expected(i, i % 32, lanes);
        if (to[i] != want)
            fail_msg("%s: thread %u has %u (0x%x) instead of %u (0x%x)", name, i, to[i], to[i], want, want);
    }
}

#define EXPECT(name, ...)                                                                                    \
    static uint32_t name##_expected(uint32_t thread, uint32_t lane, uint32_t lanes)                          \
    {                                                                                                        \
        (void)thread;                                                                                        \
        (void)lane;                                                                                          \
        (void)lanes;                                                                                         \
        __VA_ARGS__                                                                                          \
    }                                                                                                        \
    static void name##_lanes(void **state)                                                                   \
    {                                                                                                        \
        (void)state;                                                                                         \
        check(#name, name##_expected);                                                                       \
    }

static uint32_t fib(uint32_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

// clang-format off
EXPECT(nested, return (lane & 1 ? (lane & 2 ? 3 : 1) : (lane & 4 ? 40 : 0)) + lanes * 1000;)
EXPECT(loop, return lane * (lane + 1) / 2 + lanes * 10000;)
EXPECT(breaks, uint32_t s = 0; for (uint32_t i = 0; i < 100; i++) { if (i % 7 == lane % 7) continue; if (i > lane) break; s += i; } return s + lanes * 10000;)
EXPECT(irreducible, return 400 + (lane & 1 ? 3 : 4);)
EXPECT(early, return lane > 9 ? lanes - 10 : 5;)
static uint32_t shuffled(uint32_t lane, uint32_t lanes) { return lane < 16 ? 3 : (lane ^ 1) + 100 + 0 * lanes; }
EXPECT(shuffles, if (lanes < 32) return shuffled(lane, lanes) + (lane < 15 ? 3 : 0) + (lane == 15 ? 0xdbdbdbdbu : 0); return shuffled(lane, lanes) + (lane < 31 ? shuffled(lane + 1, lanes) : 0);)
EXPECT(rendezvous, uint32_t s = 0; for (uint32_t i = 0; i < lanes; i++) s += i < 20 ? 7 : i; return s + (lanes < 32 ? (1u << (lanes < 20 ? lanes : 20)) - 1 : (1u << 20) - 1);)
EXPECT(votes, uint32_t s = 0; for (uint32_t r = 0; r <= lane + 1; r++) s += r < lanes ? lanes - r : 0; return s;)
EXPECT(groups, uint32_t s = 0; uint32_t n = 0; for (uint32_t i = lane % 5; i < lanes; i += 5, n++) s += i; return s + (lane < 5 ? 1000 : 0) + (n == 1 ? 5000 : 0);)
EXPECT(flag, return thread == 3 ? 1 : 77;)
EXPECT(table, return (lane % 3 + 1) * 10 + lanes * 100;)
EXPECT(calls, return fib(lane % 9) + lanes * 1000;)
EXPECT(indirect, return lane & 1 ? lane % 7 + 300 : fib(lane % 7);)
EXPECT(exits, return lane > 20 ? 0 : lane + 300;)
static uint32_t given(uint32_t lane) { return lane < 16 ? 2 * lane : lane; }
static uint32_t exchanged(uint32_t lane, uint32_t lanes, uint32_t (*of)(uint32_t))
{
    uint32_t yes = 0, sum = 0, same = 0;
    for (uint32_t i = 0; i < lanes; i++) { yes |= (uint32_t)(of(i) != 0) << i; sum += of(i); same += of(i) == of(lane); }
    return yes + sum + 3 * of(lane ^ 1) + 1000 * same;
}
static uint32_t turn;
static uint32_t turned(uint32_t lane) { return lane + turn; }
EXPECT(sides, return exchanged(lane, lanes, given) + 100000 * lanes;)
EXPECT(rounds, uint32_t s = 0; for (turn = 0; turn < 50; turn++) s += exchanged(lane, lanes, turned); return s;)
EXPECT(outside, return lane & 1 ? lane + 7 : 5;)
EXPECT(guarded, return (lane & 1 ? lane + 7 : 5) + 100 * lanes;)
EXPECT(blocks, return THREADS / 2;)
EXPECT(ahead, return 3;)
EXPECT(heap, return thread;)
EXPECT(sites, return lane < 3 ? 22 : 11;)
EXPECT(barriers, return THREADS - 1 - thread + 33000 + 200000 + (thread >= 32 && thread < 64 ? 1000000 : 0);)
EXPECT(spaces, return thread + 1000 + 10000 + 20000;)
// clang-format on

static void a_lock_of_lanes_is_taken_by_each(void **state)
{
    (void)state;
    uint32_t to[THREADS];
    static const char *const kernels[] = {"lock", "locked"};
    for (size_t i = 0; i < 2; i++) {
        run(kernels[i], to, NULL);
        assert_int_equal(words[0], 0);
        assert_int_equal(words[1], THREADS);
    }
}

static void what_cannot_go_on_fails_and_is_named(void **state)
{
    (void)state;
    static const char *const kernels[][2] = {{"lost", "vote.sync"},
                                             {"stranger", "does not name it"},
                                             {"misaligned", "4 bytes"},
                                             {"traps", "trap"}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        uint32_t to[THREADS];
        char why[512];
        if (run(kernels[i][0], to, why))
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(nested_lanes),
                                       cmocka_unit_test(loop_lanes),
                                       cmocka_unit_test(breaks_lanes),
                                       cmocka_unit_test(irreducible_lanes),
                                       cmocka_unit_test(early_lanes),
                                       cmocka_unit_test(shuffles_lanes),
                                       cmocka_unit_test(rendezvous_lanes),
                                       cmocka_unit_test(votes_lanes),
                                       cmocka_unit_test(groups_lanes),
                                       cmocka_unit_test(flag_lanes),
                                       cmocka_unit_test(table_lanes),
                                       cmocka_unit_test(calls_lanes),
                                       cmocka_unit_test(sites_lanes),
                                       cmocka_unit_test(indirect_lanes),
                                       cmocka_unit_test(exits_lanes),
                                       cmocka_unit_test(barriers_lanes),
                                       cmocka_unit_test(sides_lanes),
                                       cmocka_unit_test(rounds_lanes),
                                       cmocka_unit_test(outside_lanes),
                                       cmocka_unit_test(guarded_lanes),
                                       cmocka_unit_test(blocks_lanes),
                                       cmocka_unit_test(ahead_lanes),
                                       cmocka_unit_test(heap_lanes),
                                       cmocka_unit_test(spaces_lanes),
                                       cmocka_unit_test(a_lock_of_lanes_is_taken_by_each),
                                       cmocka_unit_test(what_cannot_go_on_fails_and_is_named)};
    return cmocka_run_group_tests(tests, build, NULL);
}
