/* translate_mbarrier.c: barriers in shared memory, and copies that complete on them. */
#include "softgpu/ptx/translator.h"

static const char *barrier(sg_ptx_translator_t *t, uint32_t i)
{
    return sg_ptx_address(t, &t->insn->operands[i], sg_ptx_has(t, SG_PTX_KIND_SPACE));
}

static void init(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "sg_mbarrier_init(w, %s, %s, %s);", t->mask, barrier(t, 0), sg_ptx_value(t, 1, 32));
}

static void inval(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "sg_mbarrier_inval(w, %s, %s);", t->mask, barrier(t, 0));
}

static void count_bytes(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "sg_mbarrier_bytes(w, %s, %s, %s, %d);", t->mask, barrier(t, 0), sg_ptx_value(t, 1, 32),
                t->insn->opcode == SG_PTX_OP_MBARRIER_COMPLETE_TX);
}

static void arrive(sg_ptx_translator_t *t)
{
    const uint16_t opcode = t->insn->opcode;
    const bool bytes =
        opcode == SG_PTX_OP_MBARRIER_ARRIVE_EXPECT_TX || opcode == SG_PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX;
    const bool silent =
        opcode == SG_PTX_OP_MBARRIER_ARRIVE_NOCOMPLETE || opcode == SG_PTX_OP_MBARRIER_ARRIVE_DROP_NOCOMPLETE;
    const char *given = t->insn->operands[2].kind == SG_PTX_NONE ? "sg_all32(1)" : sg_ptx_value(t, 2, 32);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const sg_v64 x = sg_mbarrier_arrive(w, %s, %s, %s, %s, %d, %d);", t->mask, barrier(t, 1),
                bytes ? "sg_all32(1)" : given, bytes ? given : "sg_all32(0)",
                opcode >= SG_PTX_OP_MBARRIER_ARRIVE_DROP, !silent);
    sg_ptx_result(t, &t->insn->operands[0], 64, false, "x");
    sg_ptx_line(t, "}");
}

static void test(sg_ptx_translator_t *t)
{
    const uint16_t opcode = t->insn->opcode;
    const bool parity =
        opcode == SG_PTX_OP_MBARRIER_TEST_WAIT_PARITY || opcode == SG_PTX_OP_MBARRIER_TRY_WAIT_PARITY;
    const char *state =
        parity ? sg_ptx_text(t, "sg_mbarrier_parity(%s)", sg_ptx_value(t, 2, 32)) : sg_ptx_value(t, 2, 64);
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const uint32_t p = sg_mbarrier_test(w, %s, %s, %s);", t->mask, barrier(t, 1), state);
    sg_ptx_result_mask(t, &t->insn->operands[0], "p");
    sg_ptx_line(t, "}");
}

static void pending(sg_ptx_translator_t *t)
{
    sg_ptx_result(t, &t->insn->operands[0], 32, false,
                  sg_ptx_text(t, "sg_mbarrier_pending(%s)", sg_ptx_value(t, 1, 64)));
}

/* The lanes' own copies are done, and count as an arrival: a new one, or one that the barrier expects. */
static void arrive_after_copies(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, "if (%s) w->services->wait_async(UINT32_MAX);", t->mask);
    if (sg_ptx_has(t, SG_PTX_KIND_NOINC))
        sg_ptx_line(t, "sg_mbarrier_arrive(w, %s, %s, sg_all32(1), sg_all32(0), 0, 1);", t->mask,
                    barrier(t, 0));
}

static void copy(sg_ptx_translator_t *t)
{
    const bool to_global = sg_ptx_has(t, SG_PTX_KIND_SPACE) == SG_PTX_SPACE_GLOBAL,
               from_global = sg_ptx_has(t, SG_PTX_KIND_FROM) == SG_PTX_FROM_GLOBAL;
    const char *to = barrier(t, 0),
               *from = sg_ptx_address(t, &t->insn->operands[1],
                                      from_global ? SG_PTX_SPACE_GLOBAL : SG_PTX_SPACE_SHARED);
    if (to_global)
        sg_ptx_line(t, "sg_bulk_to_global(w, %s, %s, %s, %s);", t->mask, to, from, sg_ptx_value(t, 2, 32));
    else
        sg_ptx_line(t, "sg_bulk_to_shared(w, %s, %s, %s, %s, %s);", t->mask, to, from, sg_ptx_value(t, 2, 32),
                    barrier(t, 3));
}

static void copy_tensor(sg_ptx_translator_t *t)
{
    const bool store = sg_ptx_has(t, SG_PTX_KIND_SPACE) == SG_PTX_SPACE_GLOBAL;
    const sg_ptx_operand_t *of = t->insn->operands, *map = &of[!store], *at = of[store ? 1 : 2].elements,
                           *box = &of[store ? 2 : 0];
    const char *where = sg_ptx_text(t, "%s, %s, %s, %s", sg_ptx_address(t, map, SG_PTX_ABSENT),
                                    sg_ptx_value_of(t, &at[0], 32), sg_ptx_value_of(t, &at[1], 32),
                                    sg_ptx_address(t, box, SG_PTX_SPACE_SHARED));
    if (store)
        sg_ptx_line(t, "sg_tensor_to_global(w, %s, %s, %s);", t->mask, where, sg_ptx_place_text(t));
    else
        sg_ptx_line(t, "sg_tensor_to_shared(w, %s, %s, %s, %s);", t->mask, where, barrier(t, 3),
                    sg_ptx_place_text(t));
}

static void nothing(sg_ptx_translator_t *t)
{
    sg_ptx_line(t, ";");
}

sg_ptx_emit_t sg_ptx_emit_mbarrier(const sg_ptx_insn_t *insn)
{
    switch (insn->opcode) {
    case SG_PTX_OP_MBARRIER_INIT:
        return init;
    case SG_PTX_OP_MBARRIER_INVAL:
        return inval;
    case SG_PTX_OP_MBARRIER_EXPECT_TX:
    case SG_PTX_OP_MBARRIER_COMPLETE_TX:
        return count_bytes;
    case SG_PTX_OP_MBARRIER_ARRIVE:
    case SG_PTX_OP_MBARRIER_ARRIVE_EXPECT_TX:
    case SG_PTX_OP_MBARRIER_ARRIVE_NOCOMPLETE:
    case SG_PTX_OP_MBARRIER_ARRIVE_DROP:
    case SG_PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX:
    case SG_PTX_OP_MBARRIER_ARRIVE_DROP_NOCOMPLETE:
        return arrive;
    case SG_PTX_OP_MBARRIER_TEST_WAIT:
    case SG_PTX_OP_MBARRIER_TEST_WAIT_PARITY:
    case SG_PTX_OP_MBARRIER_TRY_WAIT:
    case SG_PTX_OP_MBARRIER_TRY_WAIT_PARITY:
        return test;
    case SG_PTX_OP_MBARRIER_PENDING_COUNT:
        return pending;
    case SG_PTX_OP_CP_ASYNC_MBARRIER_ARRIVE:
        return arrive_after_copies;
    case SG_PTX_OP_CP_ASYNC_BULK:
        return copy;
    case SG_PTX_OP_CP_ASYNC_BULK_TENSOR:
        return copy_tensor;
    case SG_PTX_OP_CP_ASYNC_BULK_COMMIT_GROUP:
    case SG_PTX_OP_CP_ASYNC_BULK_WAIT_GROUP:
    case SG_PTX_OP_CP_ASYNC_BULK_PREFETCH:
        return nothing;
    default:
        return NULL;
    }
}
