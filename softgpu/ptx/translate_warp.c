/* translate_warp.c: what lanes do together: votes, shuffles, barriers, matrices, copies that run beside. */
#include <string.h>

#include "softgpu/ptx/translator.h"

/* A barrier of the block is one of the warp first: all its lanes have to be there. */
static bool is_barrier(uint16_t opcode)
{
    return opcode >= SG_PTX_OP_BAR_SYNC && opcode <= SG_PTX_OP_BARRIER_CTA_RED;
}

static bool is_matrix(uint16_t opcode)
{
    return opcode == SG_PTX_OP_LDMATRIX || opcode == SG_PTX_OP_STMATRIX || opcode == SG_PTX_OP_MOVMATRIX ||
           opcode == SG_PTX_OP_MMA;
}

bool sg_ptx_meets(const sg_ptx_insn_t *insn)
{
    switch (insn->opcode) {
    case SG_PTX_OP_BAR_WARP_SYNC:
    case SG_PTX_OP_SHFL_SYNC:
    case SG_PTX_OP_VOTE_SYNC:
    case SG_PTX_OP_VOTE_BALLOT_SYNC:
    case SG_PTX_OP_MATCH_ANY_SYNC:
    case SG_PTX_OP_MATCH_ALL_SYNC:
    case SG_PTX_OP_REDUX_SYNC:
    case SG_PTX_OP_ELECT_SYNC:
        return true;
    default:
        return is_barrier(insn->opcode) || is_matrix(insn->opcode);
    }
}

/* Where its mask of members is among the operands; of a whole warp: UINT32_MAX. */
static uint32_t members_at(uint16_t opcode)
{
    switch (opcode) {
    case SG_PTX_OP_BAR_WARP_SYNC:
        return 0;
    case SG_PTX_OP_SHFL_SYNC:
        return 5;
    case SG_PTX_OP_MATCH_ALL_SYNC:
        return 3;
    default:
        return is_barrier(opcode) || is_matrix(opcode) ? UINT32_MAX : 2;
    }
}

static bool is_barrier_red(uint16_t opcode)
{
    return opcode == SG_PTX_OP_BAR_RED || opcode == SG_PTX_OP_BAR_CTA_RED ||
           opcode == SG_PTX_OP_BARRIER_RED || opcode == SG_PTX_OP_BARRIER_CTA_RED;
}

/* What lanes leave for those of other activations, and its bits (sg_meet_slow). */
static int write_operands(sg_ptx_translator_t *t)
{
    const uint32_t bits = t->insn->type_count ? sg_ptx_type_bits(t->insn->type[0]) : 0;
    switch (t->insn->opcode) {
    case SG_PTX_OP_SHFL_SYNC:
        for (uint32_t k = 0; k < 3; k++)
            sg_ptx_line(t, "of.v32[%u] = %s;", k, sg_ptx_value(t, 2 + k, 32));
        return 96;
    case SG_PTX_OP_VOTE_SYNC:
    case SG_PTX_OP_VOTE_BALLOT_SYNC:
        sg_ptx_line(t, "of.predicate = %s;", sg_ptx_mask_of(t, 1));
        return 1;
    case SG_PTX_OP_MATCH_ANY_SYNC:
    case SG_PTX_OP_MATCH_ALL_SYNC:
    case SG_PTX_OP_REDUX_SYNC:
        sg_ptx_line(t, "of.v%u%s = %s;", bits, bits == 32 ? "[0]" : "",
                    sg_ptx_value(t, t->insn->opcode == SG_PTX_OP_MATCH_ALL_SYNC ? 2 : 1, bits));
        return (int)bits;
    default:
        if (is_barrier_red(t->insn->opcode))
            sg_ptx_line(t, "of.predicate = %s;", sg_ptx_mask_of(t, t->insn->operand_count - 1u));
        return is_barrier_red(t->insn->opcode) ? 1 : is_matrix(t->insn->opcode) ? -1 : 0;
    }
}

void sg_ptx_write_meeting(sg_ptx_translator_t *t, uint32_t order)
{
    const uint32_t at = members_at(t->insn->opcode);
    sg_ptx_line(t, "{\nconst sg_v32 members = %s;",
                at == UINT32_MAX ? "sg_all32(SG_ALL)" : sg_ptx_value(t, at, 32));
    sg_ptx_line(t, "if (!sg_meet(&flow, %u, &mask, members)) {\nsg_operands_t of;", order);
    const int bits = write_operands(t);
    const char *site = t->insn->opcode == SG_PTX_OP_BAR_WARP_SYNC ? "&sg_anywhere"
                                                                  : sg_ptx_text(t, "operations + %u", order);
    sg_ptx_line(t, "mask = sg_meet_slow(&flow, %u, mask, members, %s, &of, %d);", order, site, bits);
    sg_ptx_line(t, "if (!mask) goto dispatch;\n}\nSG_MET(w, flow.met);\n}");
}

/* ---- shuffles and votes ---- */
/* Operand i, which is the k-th of those that lanes leave. */
static const char *met32(sg_ptx_translator_t *t, uint32_t i, uint32_t k)
{
    return sg_ptx_text(t, "sg_met32(&flow, %u, %s)", k, sg_ptx_value(t, i, 32));
}

/* Of 32 or 64 bits, alone. */
static const char *met(sg_ptx_translator_t *t, uint32_t i, uint32_t bits)
{
    return bits == 32 ? met32(t, i, 0) : sg_ptx_text(t, "sg_met64(&flow, %s)", sg_ptx_value(t, i, bits));
}

static const char *met1(sg_ptx_translator_t *t, uint32_t i)
{
    return sg_ptx_text(t, "sg_met1(&flow, %s)", sg_ptx_mask_of(t, i));
}

/* d|p, a, b, c, members */
static void shfl(sg_ptx_translator_t *t)
{
    const char *how = sg_ptx_modifier_text(sg_ptx_has(t, SG_PTX_KIND_SHUFFLE));
    const sg_ptx_operand_t *by = &t->insn->operands[3], *c = &t->insn->operands[4],
                           *members = &t->insn->operands[5];
    const uint64_t whole = sg_ptx_has(t, SG_PTX_KIND_SHUFFLE) == SG_PTX_SHUFFLE_UP ? 0 : 31;
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "uint32_t p;");
    const bool all =
        by->kind == SG_PTX_IMMEDIATE && c->kind == SG_PTX_IMMEDIATE && (c->bits & 0x1f1f) == whole;
    const unsigned distance = (unsigned)(by->bits & 31);
    if (all)
        sg_ptx_line(t, "sg_v32 x = sg_shfl_%s_all(%s, %u, &p);", how, met32(t, 2, 0), distance);
    else
        sg_ptx_line(t, "sg_v32 x = sg_shfl_%s(%s, %s, %s, &p);", how, met32(t, 2, 0), met32(t, 3, 1),
                    met32(t, 4, 2));
    if (all)
        sg_ptx_line(t, "const sg_v32 from = sg_shfl_%s_all(sg_laneid(), %u, &p);", how, distance);
    else
        sg_ptx_line(t, "const sg_v32 from = sg_shfl_%s(sg_laneid(), %s, %s, &p);", how, met32(t, 3, 1),
                    met32(t, 4, 2));
    const bool named = members->kind == SG_PTX_IMMEDIATE && (uint32_t)members->bits == UINT32_MAX;
    const char *mask = sg_ptx_value(t, 5, 32);
    sg_ptx_line(
        t, "if (__builtin_expect(flow.met != SG_ALL%s, 0)) x = sg_absent(w, mask, flow.met, %s, from, x);",
        named ? "" : sg_ptx_text(t, " || sg_eq_u32(%s, sg_all32(SG_ALL)) != SG_ALL", mask), mask);
    sg_ptx_result(t, &t->insn->operands[0], 32, false, "x");
    sg_ptx_result_mask(t, &t->insn->operands[1], "p");
    sg_ptx_line(t, "}");
}

static void vote(sg_ptx_translator_t *t)
{
    const sg_ptx_modifier_t how =
        t->insn->opcode == SG_PTX_OP_VOTE_BALLOT_SYNC ? SG_PTX_VOTE_BALLOT : sg_ptx_has(t, SG_PTX_KIND_VOTE);
    const char *d = sg_ptx_text(t, "sg_vote_%s(flow.met, %s, %s)", sg_ptx_modifier_text(how), met1(t, 1),
                                sg_ptx_value(t, 2, 32));
    if (how == SG_PTX_VOTE_BALLOT)
        sg_ptx_result(t, &t->insn->operands[0], 32, false, d);
    else
        sg_ptx_result_mask(t, &t->insn->operands[0], d);
}

static void match_any(sg_ptx_translator_t *t)
{
    const uint32_t bits = sg_ptx_type_bits(t->insn->type[0]);
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_match_any_b%u(%s, flow.met, %s, %s)", bits, t->mask, met(t, 1, bits),
                              sg_ptx_value(t, 2, 32)));
}

static void match_all(sg_ptx_translator_t *t)
{
    const uint32_t bits = sg_ptx_type_bits(t->insn->type[0]);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "uint32_t p;");
    sg_ptx_line(t, "const sg_v32 x = sg_match_all_b%u(%s, flow.met, %s, %s, &p);", bits, t->mask,
                met(t, 2, bits), sg_ptx_value(t, 3, 32));
    sg_ptx_result(t, &t->insn->operands[0], 32, false, "x");
    sg_ptx_result_mask(t, &t->insn->operands[1], "p");
    sg_ptx_line(t, "}");
}

static void activemask(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 32, false, sg_ptx_text(t, "sg_all32(%s)", t->mask));
}

static void redux(sg_ptx_translator_t *t)
{
    const sg_ptx_type_t type = t->insn->type[0];
    const char *x = met(t, 1, 32);
    if (sg_ptx_has(t, SG_PTX_KIND_ABS))
        x = sg_ptx_text(t, "sg_abs_f32(%s)", x);
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_redux_%s%s_%s(%s, flow.met, %s, %s)",
                              sg_ptx_modifier_text(sg_ptx_has(t, SG_PTX_KIND_OP)),
                              sg_ptx_has(t, SG_PTX_KIND_NAN) ? "_nan" : "", sg_ptx_type_text(type), t->mask,
                              x, sg_ptx_value(t, 2, 32)));
}

static void elect(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "uint32_t p;");
    sg_ptx_line(t, "const sg_v32 x = sg_elect(%s, flow.met, %s, &p);", t->mask, sg_ptx_value(t, 2, 32));
    sg_ptx_result(t, &t->insn->operands[0], 32, false, "x");
    sg_ptx_result_mask(t, &t->insn->operands[1], "p");
    sg_ptx_line(t, "}");
}

static void nothing(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, ";");
}

/* ---- barriers ---- */
/* The same in all lanes: the first one's. */
static const char *uniform(sg_ptx_translator_t *t, uint32_t i)
{
    const sg_ptx_operand_t *operand = &t->insn->operands[i];
    if (operand->kind == SG_PTX_NONE)
        return "0";
    if (operand->kind == SG_PTX_IMMEDIATE)
        return sg_ptx_text(t, "%u", (unsigned)operand->bits);
    return sg_ptx_text(t, "sg_lane32(%s, sg_first(%s))", sg_ptx_value(t, i, 32), t->mask);
}

static void sync(sg_ptx_translator_t *t)
{
    const char *count = t->insn->operand_count > 1 ? uniform(t, 1) : "0";
    sg_ptx_line(t, "if (!sg_was_led(&flow)) sg_barrier_sync(w, %s, %s, %s);", uniform(t, 0), count,
                sg_ptx_place_text(t));
}

static void arrive(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "if (!sg_was_led(&flow)) sg_barrier_arrive(w, %s, %s);", uniform(t, 0), uniform(t, 1));
}

/* d, id, [count,] p */
static void red(sg_ptx_translator_t *t)
{
    const uint32_t last = t->insn->operand_count - 1u;
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "uint32_t lanes;");
    sg_ptx_line(t, "const uint32_t yes = sg_barrier_red(&flow, %s, %s, %s, &lanes, %s);", uniform(t, 1),
                last == 3 ? uniform(t, 2) : "0", met1(t, last), sg_ptx_place_text(t));
    if (sg_ptx_has(t, SG_PTX_KIND_OP) == SG_PTX_DO_POPC)
        sg_ptx_result(t, &t->insn->operands[0], 32, false, "sg_all32(yes)");
    else
        sg_ptx_result_mask(t, &t->insn->operands[0],
                           sg_ptx_has(t, SG_PTX_KIND_OP) == SG_PTX_DO_AND ? "(yes == lanes ? SG_ALL : 0)"
                                                                          : "(yes ? SG_ALL : 0)");
    sg_ptx_line(t, "}");
}

static void fence(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "__atomic_thread_fence(__ATOMIC_SEQ_CST);");
}

static void sleep_(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "if (%s) { w->waits += 20; w->services->pause(); }", t->mask);
}

static void breakpoint(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "if (%s) sg_fail(w, SG_ERROR_LAUNCH, \"brkpt\");", t->mask);
}

/* ---- cp.async ---- */
/* to, from, bytes, and perhaps how many of them are read, or a predicate: none is */
static void copy(sg_ptx_translator_t *t)
{
    const uint32_t bytes = (uint32_t)t->insn->operands[2].bits;
    const sg_ptx_slot_t *fourth = t->form->slot_count > 4 ? &t->form->slots[3] : NULL;
    const char *given = sg_ptx_text(t, "sg_all32(%u)", bytes);
    if (fourth != NULL && fourth->only_with == 0 && fourth->type == SG_PTX_PRED)
        given = sg_ptx_text(t, "sg_set32(%s, sg_all32(0), sg_all32(%u))", sg_ptx_mask_of(t, 3), bytes);
    else if (fourth != NULL && fourth->only_with == 0)
        given = sg_ptx_value(t, 3, 32);
    sg_ptx_line(t, "sg_copy_async(w, %s, %s, %s, %u, %s, %s);", t->mask,
                sg_ptx_address(t, &t->insn->operands[0], SG_PTX_SPACE_SHARED),
                sg_ptx_address(t, &t->insn->operands[1], SG_PTX_SPACE_GLOBAL), bytes, given,
                sg_ptx_place_text(t));
}

static void commit(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "if (%s) w->services->commit_async();", t->mask);
}

static void wait(sg_ptx_translator_t *t)
{
    const bool all = t->insn->opcode == SG_PTX_OP_CP_ASYNC_WAIT_ALL;
    sg_ptx_line(t, "if (%s) w->services->wait_async(%s);", t->mask,
                all ? "UINT32_MAX" : sg_ptx_text(t, "%u", (unsigned)t->insn->operands[0].bits));
}

/* ---- matrices ---- */
static const sg_ptx_operand_t *part(const sg_ptx_operand_t *operand, uint32_t i)
{
    return operand->kind == SG_PTX_VECTOR ? &operand->elements[i] : operand;
}

static uint32_t parts(const sg_ptx_operand_t *operand)
{
    return operand->kind == SG_PTX_VECTOR ? operand->count : 1;
}

static void list(sg_ptx_translator_t *t, const char *name, const sg_ptx_operand_t *operand, uint32_t bits)
{
    sg_ptx_line(t, "const sg_v%u %s[] = {", bits, name);
    for (uint32_t i = 0; i < parts(operand); i++)
        sg_ptx_line(t, "%s,", sg_ptx_value_of(t, part(operand, i), bits));
    sg_ptx_line(t, "};");
}

static void results(sg_ptx_translator_t *t, const sg_ptx_operand_t *operand, uint32_t bits)
{
    for (uint32_t i = 0; i < parts(operand); i++)
        sg_ptx_result(t, part(operand, i), bits, false, sg_ptx_text(t, "d[%u]", i));
}

/* All lanes have to be there: "the behavior is undefined" without. */
static void whole(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "sg_whole(w, %s, \"%s\", %s);", t->mask, sg_ptx_opcode_text(t->insn->opcode),
                sg_ptx_place_text(t));
}

static void ldmatrix(sg_ptx_translator_t *t)
{
    const sg_ptx_operand_t *to = &t->insn->operands[0];
    const uint32_t count = parts(to);
    whole(t);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "sg_v32 d[%u];", count);
    sg_ptx_line(t, "sg_ldmatrix(w, %s, %u, %s, d);",
                sg_ptx_address(t, &t->insn->operands[1], sg_ptx_has(t, SG_PTX_KIND_SPACE)), count,
                sg_ptx_has(t, SG_PTX_KIND_TRANSPOSED) ? "true" : "false");
    results(t, to, 32);
    sg_ptx_line(t, "}");
}

static void stmatrix(sg_ptx_translator_t *t)
{
    const sg_ptx_operand_t *from = &t->insn->operands[1];
    sg_ptx_line(t, "{");
    list(t, "x", from, 32);
    sg_ptx_line(t, "sg_stmatrix(w, %s, %u, %s, x);",
                sg_ptx_address(t, &t->insn->operands[0], sg_ptx_has(t, SG_PTX_KIND_SPACE)), parts(from),
                sg_ptx_has(t, SG_PTX_KIND_TRANSPOSED) ? "true" : "false");
    sg_ptx_line(t, "}");
}

static void movmatrix(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_movmatrix(%s)", sg_ptx_value(t, 1, 32)));
}

static const char *element(sg_ptx_translator_t *t, sg_ptx_type_t type)
{
    switch (type) {
    case SG_PTX_F16:
        return "SG_F16";
    case SG_PTX_BF16:
        return "SG_BF16";
    case SG_PTX_TF32:
        return "SG_TF32";
    case SG_PTX_E4M3:
        return "SG_E4M3";
    case SG_PTX_E5M2:
        return "SG_E5M2";
    default:
        sg_ptx_refuse(t, "elements of type .%s", sg_ptx_type_text(type));
    }
}

static void mma(sg_ptx_translator_t *t)
{
    const sg_ptx_insn_t *insn = t->insn;
    const sg_ptx_type_t d = insn->type[0], a = insn->type[1], b = insn->type[2];
    const uint32_t bits = d == SG_PTX_F64 ? 64 : 32, m = insn->shape[0], k = insn->shape[2];
    whole(t);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "sg_v%u d[%u];", bits, parts(&insn->operands[0]));
    list(t, "x", &insn->operands[1], bits);
    list(t, "y", &insn->operands[2], bits);
    list(t, "z", &insn->operands[3], bits);
    if (d == SG_PTX_F64)
        sg_ptx_line(t, "sg_mma_f64(%u, %u, x, y, z, d);", m, k);
    else if (d == SG_PTX_S32)
        sg_ptx_line(t, "sg_mma_int(%u, %u, %u, %u, %u, x, y, z, d);", m, k, a == SG_PTX_S8, b == SG_PTX_S8,
                    sg_ptx_has(t, SG_PTX_KIND_SATFINITE) != 0);
    else
        sg_ptx_line(t, "sg_mma_float(%u, %s, %s, %u, x, y, z, d);", k, element(t, a), element(t, b),
                    d == SG_PTX_F16);
    results(t, &insn->operands[0], bits);
    sg_ptx_line(t, "}");
}

sg_ptx_emit_t sg_ptx_emit_warp(const sg_ptx_insn_t *insn)
{
    switch (insn->opcode) {
    case SG_PTX_OP_SHFL_SYNC:
        return shfl;
    case SG_PTX_OP_VOTE_SYNC:
    case SG_PTX_OP_VOTE_BALLOT_SYNC:
        return vote;
    case SG_PTX_OP_MATCH_ANY_SYNC:
        return match_any;
    case SG_PTX_OP_MATCH_ALL_SYNC:
        return match_all;
    case SG_PTX_OP_ACTIVEMASK:
        return activemask;
    case SG_PTX_OP_REDUX_SYNC:
        return redux;
    case SG_PTX_OP_ELECT_SYNC:
        return elect;
    case SG_PTX_OP_BAR_WARP_SYNC:
    case SG_PTX_OP_PMEVENT:
    case SG_PTX_OP_SETMAXNREG_INC:
    case SG_PTX_OP_SETMAXNREG_DEC:
    case SG_PTX_OP_GRIDDEPCONTROL_WAIT:
    case SG_PTX_OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS:
        return nothing;
    case SG_PTX_OP_BAR_SYNC:
    case SG_PTX_OP_BAR_CTA_SYNC:
    case SG_PTX_OP_BARRIER_SYNC:
    case SG_PTX_OP_BARRIER_CTA_SYNC:
        return sync;
    case SG_PTX_OP_BAR_ARRIVE:
    case SG_PTX_OP_BAR_CTA_ARRIVE:
    case SG_PTX_OP_BARRIER_ARRIVE:
    case SG_PTX_OP_BARRIER_CTA_ARRIVE:
        return arrive;
    case SG_PTX_OP_BAR_RED:
    case SG_PTX_OP_BAR_CTA_RED:
    case SG_PTX_OP_BARRIER_RED:
    case SG_PTX_OP_BARRIER_CTA_RED:
        return red;
    case SG_PTX_OP_MEMBAR:
    case SG_PTX_OP_FENCE:
    case SG_PTX_OP_FENCE_PROXY:
    case SG_PTX_OP_FENCE_MBARRIER_INIT:
        return fence;
    case SG_PTX_OP_NANOSLEEP:
        return sleep_;
    case SG_PTX_OP_BRKPT:
        return breakpoint;
    case SG_PTX_OP_CP_ASYNC:
        return copy;
    case SG_PTX_OP_CP_ASYNC_COMMIT_GROUP:
        return commit;
    case SG_PTX_OP_CP_ASYNC_WAIT_GROUP:
    case SG_PTX_OP_CP_ASYNC_WAIT_ALL:
        return wait;
    case SG_PTX_OP_LDMATRIX:
        return ldmatrix;
    case SG_PTX_OP_STMATRIX:
        return stmatrix;
    case SG_PTX_OP_MOVMATRIX:
        return movmatrix;
    case SG_PTX_OP_MMA:
        return mma;
    default:
        return NULL;
    }
}
