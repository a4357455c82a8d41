/* translate_flow.c: a function's body: pieces in the order of warp_flow.h, jumps, calls.
 *
 * The order: strongly connected components, topologically; inside one, its header first, then without the edges to the header
 * the same again. So every loop is in one piece, and what follows it behind it. An irreducible loop gets the block
 * at which it was first reached as its header. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/translator.h"

/* ---- where lanes may wait ---- */
/* In a loop, for what others do. */
static bool may_wait(const sg_ptx_insn_t *insn)
{
    const uint8_t semantics = insn->modifier[SG_PTX_KIND_SEMANTICS];
    switch (insn->opcode) {
    case SG_PTX_OP_ATOM:
    case SG_PTX_OP_NANOSLEEP:
        return true;
    case SG_PTX_OP_LD:
        return semantics != SG_PTX_ABSENT && semantics != SG_PTX_SEM_WEAK;
    default:
        return insn->opcode >= SG_PTX_OP_MBARRIER_INIT && insn->opcode <= SG_PTX_OP_MBARRIER_PENDING_COUNT;
    }
}

static bool call_waits(sg_ptx_translator_t *t, const sg_ptx_insn_t *insn)
{
    if (insn->call == NULL)
        return false;
    const sg_ptx_function_t *callee = insn->call->callee;
    return callee == NULL || (callee->defined && t->waits[sg_ptx_function_number(t, callee)]);
}

static bool waits(sg_ptx_translator_t *t, const sg_ptx_function_t *f)
{
    for (uint32_t i = 0; i < f->insn_count; i++)
        if (sg_ptx_meets(&f->insns[i]) || may_wait(&f->insns[i]) || call_waits(t, &f->insns[i]))
            return true;
    return false;
}

void sg_ptx_find_waits(sg_ptx_translator_t *t)
{
    const sg_ptx_module_t *m = t->module;
    t->waits = sg_ptx_room(t, m->function_count + 1, sizeof *t->waits);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t f = 0; f < m->function_count; f++)
            if (!t->waits[f] && waits(t, m->functions[f]))
                more = t->waits[f] = true;
    }
}

static bool this_waits(sg_ptx_translator_t *t)
{
    return t->waits[sg_ptx_function_number(t, t->function)];
}

/* ---- pieces ---- */
static void make_pieces(sg_ptx_translator_t *t)
{
    const sg_ptx_function_t *f = t->function;
    t->pieces = sg_ptx_room(t, 2 * (size_t)f->insn_count + 1, sizeof *t->pieces);
    t->piece_of = sg_ptx_room(t, f->block_count + 1, sizeof *t->piece_of);
    t->piece_count = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        const sg_ptx_block_t *block = &f->blocks[b];
        t->piece_of[b] = t->piece_count;
        bool fresh = true;
        for (uint32_t i = block->first; i < block->first + block->count; i++) {
            const bool meets = sg_ptx_meets(&f->insns[i]);
            if (fresh || meets)
                t->pieces[t->piece_count++] = (sg_ptx_piece_t){.first = i, .meets = meets};
            t->pieces[t->piece_count - 1].count++;
            fresh = meets && f->insns[i].guarded;
            if (call_waits(t, &f->insns[i])) {
                t->pieces[t->piece_count - 1].calls = true;
                t->pieces[t->piece_count++] = (sg_ptx_piece_t){.first = i + 1, .returns = true};
                fresh = f->insns[i].guarded;
            }
        }
    }
    for (uint32_t b = 0; b < f->block_count; b++) {
        const uint32_t end = b + 1 < f->block_count ? t->piece_of[b + 1] : t->piece_count;
        const sg_ptx_block_t *block = &f->blocks[b];
        for (uint32_t p = t->piece_of[b]; p < end; p++) {
            sg_ptx_piece_t *piece = &t->pieces[p];
            piece->successors = sg_ptx_room(t, block->successor_count + 1, sizeof *piece->successors);
            if (p + 1 < end)
                piece->successors[piece->successor_count++] = p + 1;
            for (uint32_t s = 0; p + 1 == end && s < block->successor_count; s++)
                if (block->successors[s] != SG_PTX_EXIT && block->successors[s] < f->block_count)
                    piece->successors[piece->successor_count++] = t->piece_of[block->successors[s]];
        }
    }
}

/* ---- their order ---- */
typedef struct sg_ptx_order {
    const sg_ptx_piece_t *pieces;
    uint32_t *set; /* [piece]: of the set that is looked at */
    uint32_t *index, *low;
    bool *on_stack;
    uint32_t *stack, depth, next_index, next_set;
    uint32_t *out, out_count;
    uint32_t *parts, *part_end, part_count, part_used; /* of one set: components, the last one first */
    uint32_t header;
} sg_ptx_order_t;

static void connect(sg_ptx_order_t *o, uint32_t node, uint32_t set)
{
    o->index[node] = o->low[node] = ++o->next_index;
    o->stack[o->depth++] = node;
    o->on_stack[node] = true;
    for (uint32_t s = 0; s < o->pieces[node].successor_count; s++) {
        const uint32_t to = o->pieces[node].successors[s];
        if (o->set[to] != set || to == o->header)
            continue;
        if (!o->index[to]) {
            connect(o, to, set);
            if (o->low[to] < o->low[node])
                o->low[node] = o->low[to];
        } else if (o->on_stack[to] && o->index[to] < o->low[node]) {
            o->low[node] = o->index[to];
        }
    }
    if (o->low[node] != o->index[node])
        return;
    uint32_t begin = o->depth;
    do {
        o->on_stack[o->stack[--begin]] = false;
    } while (o->stack[begin] != node);
    /* Its root, where it was reached first, comes first. */
    for (uint32_t i = begin; i < o->depth; i++)
        o->parts[o->part_used++] = o->stack[i];
    o->depth = begin;
    o->part_end[o->part_count++] = o->part_used;
}

static void order_set(sg_ptx_translator_t *t, sg_ptx_order_t *o, const uint32_t *nodes, uint32_t count,
                      bool looped)
{
    const uint32_t set = ++o->next_set;
    for (uint32_t i = 0; i < count; i++) {
        o->set[nodes[i]] = set;
        o->index[nodes[i]] = 0;
    }
    uint32_t *parts = sg_ptx_room(t, count + 1, sizeof *parts),
             *ends = sg_ptx_room(t, count + 1, sizeof *ends);
    o->parts = parts;
    o->part_end = ends;
    o->part_count = o->part_used = 0;
    o->header = looped ? nodes[0] : UINT32_MAX;
    for (uint32_t i = 0; i < count; i++)
        if (!o->index[nodes[i]])
            connect(o, nodes[i], set);
    for (uint32_t p = o->part_count; p-- > 0;) {
        const uint32_t begin = p ? ends[p - 1] : 0, size = ends[p] - begin;
        if (size == 1)
            o->out[o->out_count++] = parts[begin];
        else
            order_set(t, o, parts + begin, size, true);
    }
}

static void find_order(sg_ptx_translator_t *t, uint32_t *out)
{
    const uint32_t n = t->piece_count;
    uint32_t *room = sg_ptx_room(t, 5 * (size_t)n + 5, sizeof *room);
    bool *on_stack = sg_ptx_room(t, n + 1, sizeof *on_stack);
    sg_ptx_order_t o = {.pieces = t->pieces,
                        .set = room,
                        .index = room + n,
                        .low = room + 2 * n,
                        .stack = room + 3 * n,
                        .on_stack = on_stack,
                        .out = out};
    uint32_t *all = room + 4 * n;
    for (uint32_t i = 0; i < n; i++)
        all[i] = i;
    order_set(t, &o, all, n, false);
    for (uint32_t i = 0; i < n; i++)
        t->pieces[out[i]].order = i;
}

/* ---- which registers are local ---- */
typedef struct sg_ptx_seen {
    uint32_t *piece; /* [register]: of its first place, plus 1 */
    uint32_t now;    /* piece + 1 */
} sg_ptx_seen_t;

static void note_register(sg_ptx_translator_t *t, sg_ptx_seen_t *seen, uint32_t number, bool written,
                          bool guarded)
{
    if (!seen->piece[number]) {
        seen->piece[number] = seen->now;
        t->local[number] = written && !guarded;
    } else if (seen->piece[number] != seen->now) {
        t->local[number] = false;
    }
}

static void note_operand(sg_ptx_translator_t *t, sg_ptx_seen_t *seen, const sg_ptx_operand_t *operand,
                         bool written, bool guarded)
{
    if (operand->kind == SG_PTX_REGISTER || (operand->kind == SG_PTX_ADDRESS && operand->based))
        note_register(t, seen, operand->number, written && operand->kind == SG_PTX_REGISTER, guarded);
    for (uint32_t i = 0; operand->kind == SG_PTX_VECTOR && i < operand->count; i++)
        note_operand(t, seen, &operand->elements[i], written, guarded);
}

static void note_insn(sg_ptx_translator_t *t, sg_ptx_seen_t *seen, const sg_ptx_insn_t *insn)
{
    const sg_ptx_form_t *form = &sg_ptx_forms(NULL)[insn->form];
    if (insn->guarded)
        note_register(t, seen, insn->guard, false, false);
    for (int written = 0; written < 2; written++)
        for (uint32_t i = 0; i < insn->operand_count && insn->call == NULL; i++)
            if (form->slots[i].written == written)
                note_operand(t, seen, &insn->operands[i], written, insn->guarded);
    if (insn->call == NULL)
        return;
    if (insn->call->callee == NULL)
        note_operand(t, seen, &insn->call->pointer, false, false);
    for (uint32_t i = 0; i < insn->call->argument_count; i++)
        note_operand(t, seen, &insn->call->arguments[i], false, false);
    for (uint32_t i = 0; i < insn->call->return_count && !call_waits(t, insn); i++)
        note_operand(t, seen, &insn->call->returns[i], true, insn->guarded);
}

static void find_locals(sg_ptx_translator_t *t)
{
    const sg_ptx_function_t *f = t->function;
    sg_ptx_seen_t seen = {.piece = sg_ptx_room(t, f->register_count + 1, sizeof *seen.piece)};
    t->local = sg_ptx_room(t, f->register_count + 1, sizeof *t->local);
    for (uint32_t p = 0; p < t->piece_count; p++) {
        const sg_ptx_piece_t *piece = &t->pieces[p];
        seen.now = p + 1;
        const sg_ptx_call_t *call = piece->returns ? f->insns[piece->first - 1].call : NULL;
        for (uint32_t i = 0; call != NULL && i < call->return_count; i++)
            note_operand(t, &seen, &call->returns[i], true, true);
        for (uint32_t i = piece->first; i < piece->first + piece->count; i++)
            note_insn(t, &seen, &f->insns[i]);
    }
}

/* ---- jumps ---- */
/* Lanes that run go to a piece. */
static void write_go(sg_ptx_translator_t *t, uint32_t piece)
{
    const uint32_t to = t->pieces[piece].order, from = t->pieces[t->piece].order;
    sg_ptx_line(t, "%s(%u);", this_waits(t) && to <= from ? "SG_GO_BACK" : "SG_GO", to);
}

static const char *guard(sg_ptx_translator_t *t)
{
    return sg_ptx_text(t, "%sr%u", t->insn->guard_negated ? "~" : "", t->insn->guard);
}

static uint32_t piece_at(const sg_ptx_translator_t *t, const sg_ptx_operand_t *label)
{
    return t->piece_of[label->number];
}

static bool is_block(const sg_ptx_translator_t *t, const sg_ptx_operand_t *label)
{
    return label->number < t->function->block_count;
}

static void write_branch(sg_ptx_translator_t *t, uint32_t after)
{
    const sg_ptx_operand_t *label = &t->insn->operands[0];
    if (!is_block(t, label))
        sg_ptx_refuse(t, "a jump behind the function's end");
    const uint32_t target = piece_at(t, label);
    if (!t->insn->guarded) {
        write_go(t, target);
        return;
    }
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "const uint32_t taken = mask & %s;", guard(t));
    sg_ptx_line(t, "if (taken && taken != mask) { sg_park(&flow, %u, taken); mask &= ~taken; }",
                t->pieces[target].order);
    sg_ptx_line(t, "else if (taken)");
    write_go(t, target);
    sg_ptx_line(t, "}");
    write_go(t, after);
}

static void write_indexed_branch(sg_ptx_translator_t *t, uint32_t after)
{
    const sg_ptx_operand_t *table = &t->insn->operands[1];
    sg_ptx_line(t, "{");
    sg_ptx_line(t, "static const uint32_t targets[] = {");
    for (uint32_t i = 0; i < table->count; i++) {
        if (!is_block(t, &table->elements[i]))
            sg_ptx_refuse(t, "a jump behind the function's end");
        sg_ptx_line(t, "%u,", t->pieces[piece_at(t, &table->elements[i])].order);
    }
    sg_ptx_line(t, "};");
    sg_ptx_line(t, "const uint32_t m = mask & %s;", t->insn->guarded ? guard(t) : "mask");
    sg_ptx_line(t, "const sg_l32 index = {%s};", sg_ptx_value(t, 0, 32));
    sg_ptx_line(t, "SG_FOR_LANES (i, m) sg_park(&flow, targets[index.u[i] < %u ? index.u[i] : 0], 1u << i);",
                table->count);
    if (t->insn->guarded)
        sg_ptx_line(t, "sg_park(&flow, %u, mask & ~m);", t->pieces[after].order);
    sg_ptx_line(t, "goto dispatch;");
    sg_ptx_line(t, "}");
}

/* ret, exit, trap: lanes go. */
static void write_end(sg_ptx_translator_t *t, uint32_t after)
{
    const char *lanes = t->insn->guarded ? sg_ptx_text(t, "(mask & %s)", guard(t)) : "mask";
    if (t->insn->opcode == SG_PTX_OP_EXIT || (t->insn->opcode == SG_PTX_OP_RET && t->function->entry))
        sg_ptx_line(t, "sg_exit(&flow, %s);", lanes);
    else if (t->insn->opcode == SG_PTX_OP_TRAP)
        sg_ptx_line(t, "if (%s) sg_fail_at(w, sg_first(%s), SG_ERROR_LAUNCH, \"trap\", %s);", lanes, lanes,
                    sg_ptx_place_text(t));
    else if (this_waits(t))
        sg_ptx_line(t, "sg_return(&flow, %s);", lanes);
    if (!t->insn->guarded) {
        sg_ptx_line(t, "goto dispatch;");
        return;
    }
    sg_ptx_line(t, "mask &= ~%s;", guard(t));
    sg_ptx_line(t, "if (!mask) goto dispatch;");
    write_go(t, after);
}

/* ---- calls ---- */
/* What is given in registers: of lanes that call, at places of the function's, since the call may outlive others of it. */
static const sg_ptx_variable_t *in_register(const sg_ptx_call_t *call, uint32_t i)
{
    const uint32_t returns = call->return_count;
    const sg_ptx_operand_t *operand = i < returns ? &call->returns[i] : &call->arguments[i - returns];
    if (call->prototype == NULL || (operand->kind == SG_PTX_SYMBOL && operand->variable != NULL &&
                                    operand->variable->space == SG_PTX_SPACE_PARAM))
        return NULL;
    return i < returns ? call->prototype->returns[i] : call->prototype->parameters[i - returns];
}

static void write_argument_places(sg_ptx_translator_t *t)
{
    const sg_ptx_function_t *f = t->function;
    for (uint32_t k = 0; k < f->insn_count; k++) {
        const sg_ptx_call_t *call = f->insns[k].call;
        if (call == NULL)
            continue;
        const uint32_t count = call->return_count + call->argument_count;
        sg_ptx_line(t, "uint8_t *given%u[%u];", k, count + 1);
        for (uint32_t i = 0; i < count; i++)
            if (in_register(call, i) != NULL)
                sg_ptx_line(t, "uint8_t a%u_%u[%" PRIu64 "] __attribute__((aligned(64)));", k, i,
                            32 * in_register(call, i)->bytes);
    }
}

static void write_results(sg_ptx_translator_t *t)
{
    const sg_ptx_call_t *call = t->insn->call;
    const uint32_t k = (uint32_t)(t->insn - t->function->insns);
    for (uint32_t i = 0; i < call->return_count; i++)
        if (call->returns[i].kind == SG_PTX_REGISTER) {
            const sg_ptx_variable_t *as = call->prototype->returns[i];
            sg_ptx_result(t, &call->returns[i], sg_ptx_width(as->type), sg_ptx_is_signed(as->type),
                          sg_ptx_text(t, "sg_own_load%u(a%u_%u, %" PRIu64 ")", sg_ptx_type_bits(as->type), k,
                                      i, as->bytes));
        }
}

/* `after`: where lanes go on, of a call that waits. */
static void write_call(sg_ptx_translator_t *t, uint32_t after)
{
    const sg_ptx_call_t *call = t->insn->call;
    const uint32_t returns = call->return_count, count = returns + call->argument_count,
                   k = (uint32_t)(t->insn - t->function->insns);
    for (uint32_t i = 0; i < count; i++) {
        const sg_ptx_operand_t *operand = i < returns ? &call->returns[i] : &call->arguments[i - returns];
        const sg_ptx_variable_t *as = in_register(call, i);
        if (as == NULL && operand->kind != SG_PTX_SYMBOL)
            sg_ptx_refuse(t, "an argument in a register where the function has no prototype");
        if (as == NULL) {
            sg_ptx_line(t, "given%u[%u] = %s;", k, i, sg_ptx_own(t, operand->variable));
            continue;
        }
        sg_ptx_line(t, "given%u[%u] = a%u_%u;", k, i, k, i);
        if (i >= returns)
            sg_ptx_line(t, "sg_own_store%u(%s, a%u_%u, %" PRIu64 ", %s);", sg_ptx_type_bits(as->type),
                        t->mask, k, i, as->bytes, sg_ptx_value_of(t, operand, sg_ptx_width(as->type)));
    }
    const uint32_t order = t->pieces[after].order;
    if (call->callee == NULL) {
        sg_ptx_line(t, "const sg_v64 to = %s;", sg_ptx_value_of(t, &call->pointer, 64));
        sg_ptx_line(t, "for (uint32_t todo = %s; todo;) {", t->mask);
        sg_ptx_line(t, "const uint64_t one = sg_lane64(to, sg_first(todo));");
        sg_ptx_line(t, "const uint32_t group = todo & sg_eq_u64(to, sg_all64(one));");
        sg_ptx_line(t, "sg_call(&flow, (sg_function_t)(uintptr_t)one, group, given%u, %u);", k, order);
        sg_ptx_line(t, "todo &= ~group;");
        sg_ptx_line(t, "}");
    } else if (call_waits(t, t->insn)) {
        sg_ptx_line(t, "sg_call(&flow, %s, %s, given%u, %u);", sg_ptx_function_name(t, call->callee), t->mask,
                    k, order);
    } else {
        sg_ptx_line(t, "if (%s) %s(w, %s, given%u);", t->mask, sg_ptx_function_name(t, call->callee), t->mask,
                    k);
        write_results(t);
        sg_ptx_line(t, "mask &= w->alive;");
        sg_ptx_line(t, "if (!mask) goto dispatch;");
    }
}

/* ---- instructions ---- */
static sg_ptx_emit_t find_emit(const sg_ptx_insn_t *insn)
{
    sg_ptx_emit_t emit = sg_ptx_emit_int(insn);
    if (emit == NULL)
        emit = sg_ptx_emit_float(insn);
    if (emit == NULL)
        emit = sg_ptx_emit_convert(insn);
    if (emit == NULL)
        emit = sg_ptx_emit_memory(insn);
    if (emit == NULL)
        emit = sg_ptx_emit_warp(insn);
    if (emit == NULL)
        emit = sg_ptx_emit_mbarrier(insn);
    return emit;
}

static void write_plain(sg_ptx_translator_t *t, uint32_t after)
{
    const bool call = t->insn->opcode == SG_PTX_OP_CALL;
    sg_ptx_emit_t emit = call ? NULL : find_emit(t->insn);
    if (!call && emit == NULL)
        sg_ptx_refuse(t, "it is not translated");
    t->mask = "mask";
    if (!call && (emit == sg_ptx_emit_memory(t->insn) || emit == sg_ptx_emit_warp(t->insn) ||
                  emit == sg_ptx_emit_mbarrier(t->insn)))
        sg_ptx_line(t, "SG_PLACE(w, %s);", sg_ptx_place_text(t));
    /* What meets has taken its guard away already. */
    if (t->insn->guarded && !sg_ptx_meets(t->insn)) {
        sg_ptx_line(t, "{");
        sg_ptx_line(t, "const uint32_t m = mask & %s;", guard(t));
        t->mask = "m";
    }
    if (call) {
        sg_ptx_line(t, "{");
        write_call(t, after);
        sg_ptx_line(t, "}");
    } else {
        emit(t);
    }
    if (t->insn->guarded && !sg_ptx_meets(t->insn))
        sg_ptx_line(t, "}");
}

/* Where lanes meet: those whose guard is false go on. */
static void write_meeting(sg_ptx_translator_t *t, uint32_t after)
{
    const uint32_t order = t->pieces[t->piece].order;
    if (t->insn->guarded) {
        sg_ptx_line(t, "sg_park(&flow, %u, mask & ~%s);", t->pieces[after].order, guard(t));
        sg_ptx_line(t, "mask &= %s;", guard(t));
        sg_ptx_line(t, "if (!mask) goto dispatch;");
    }
    sg_ptx_write_meeting(t, order);
}

/* What the last piece's instruction leads to. */
static void write_piece_end(sg_ptx_translator_t *t, const sg_ptx_piece_t *piece, uint32_t after)
{
    if (piece->calls && t->insn->guarded)
        sg_ptx_line(t, "sg_park(&flow, %u, mask & ~%s);", t->pieces[after + 1].order, guard(t));
    if (!piece->calls && piece->successor_count) {
        write_go(t, piece->successors[piece->successor_count - 1]);
        return;
    }
    if (!piece->calls && this_waits(t))
        sg_ptx_line(t, t->function->entry ? "sg_exit(&flow, mask);" : "sg_return(&flow, mask);");
    sg_ptx_line(t, "goto dispatch;");
}

static void write_piece(sg_ptx_translator_t *t, uint32_t number)
{
    const sg_ptx_piece_t *piece = &t->pieces[number];
    const uint32_t after = number + 1;
    t->piece = number;
    sg_ptx_line(t, "b%u: {", piece->order);
    if (piece->returns) {
        t->insn = &t->function->insns[piece->first - 1];
        t->mask = "mask";
        t->pool_used = 0;
        write_results(t);
        if (piece->count == 0)
            write_piece_end(t, piece, after);
    }
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
        t->insn = &t->function->insns[i];
        t->form = &sg_ptx_forms(NULL)[t->insn->form];
        t->pool_used = 0;
        if (i == piece->first && piece->meets)
            write_meeting(t, after);
        switch (t->insn->opcode) {
        case SG_PTX_OP_BRA:
            write_branch(t, after);
            break;
        case SG_PTX_OP_BRX_IDX:
            write_indexed_branch(t, after);
            break;
        case SG_PTX_OP_RET:
        case SG_PTX_OP_EXIT:
        case SG_PTX_OP_TRAP:
            write_end(t, after);
            break;
        default:
            write_plain(t, after);
            if (i + 1 == piece->first + piece->count)
                write_piece_end(t, piece, after);
        }
    }
    sg_ptx_line(t, "}");
}

/* ---- the body ---- */
static void write_registers(sg_ptx_translator_t *t)
{
    const sg_ptx_function_t *f = t->function;
    for (uint32_t r = 0; r < f->range_count; r++) {
        const uint32_t bits = sg_ptx_width(f->ranges[r].type);
        for (uint32_t i = f->ranges[r].first; i < f->ranges[r].first + f->ranges[r].count; i++)
            if (bits == 1)
                sg_ptx_line(t, "uint32_t r%u = 0;", i);
            else if (t->local[i])
                sg_ptx_line(t, "sg_v%u r%u;", bits, i);
            else
                sg_ptx_line(t, "sg_v%u r%u = sg_all%u(0);", bits, i, bits);
    }
}

static void write_variables(sg_ptx_translator_t *t)
{
    for (uint32_t i = 0; i < t->function->variable_count; i++) {
        const sg_ptx_variable_t *v = t->function->variables[i];
        if (v->space == SG_PTX_SPACE_LOCAL || v->space == SG_PTX_SPACE_PARAM)
            sg_ptx_line(t, "uint8_t v%u[%" PRIu64 "] __attribute__((aligned(64)));", i,
                        32 * (v->bytes ? v->bytes : 1));
    }
}

void sg_ptx_write_body(sg_ptx_translator_t *t)
{
    make_pieces(t);
    const uint32_t n = t->piece_count;
    if (n == 0) {
        sg_ptx_line(t, "{");
        if (t->function->entry)
            sg_ptx_line(t, "w->alive &= ~mask;");
        sg_ptx_line(t, "}");
        return;
    }
    uint32_t *order = sg_ptx_room(t, n, sizeof *order);
    find_order(t, order);
    find_locals(t);
    sg_ptx_line(t, "{");
    bool meets = false;
    for (uint32_t p = 0; p < n; p++)
        meets |= t->pieces[p].meets;
    if (meets) {
        sg_ptx_line(t, "static const char *const operations[%u] = {", n);
        for (uint32_t p = 0; p < n; p++)
            if (t->pieces[p].meets) {
                const sg_ptx_insn_t *insn = &t->function->insns[t->pieces[p].first];
                const char *file;
                const uint32_t line = sg_ptx_source_line(t, insn, &file);
                sg_ptx_line(t, "[%u] = \"%s at %s:%u\",", t->pieces[p].order,
                            sg_ptx_opcode_text(insn->opcode), file, line);
            }
        sg_ptx_line(t, "};");
    }
    sg_ptx_line(t, "SG_FLOW(%u, %s);", n, meets ? "operations" : "NULL");
    sg_ptx_line(t, "uint32_t cc = 0;");
    write_registers(t);
    write_variables(t);
    if (sg_ptx_has_stack(t->function))
        sg_ptx_line(t, "sg_stack_t stack = {0};");
    write_argument_places(t);
    if (t->pieces[0].order != 0)
        sg_ptx_line(t, "goto b%u;", t->pieces[0].order);
    for (uint32_t i = 0; i < n; i++)
        write_piece(t, order[i]);
    sg_ptx_line(t, "dispatch:");
    sg_ptx_line(t, "next = sg_dispatch(&flow);");
    if (this_waits(t))
        sg_ptx_line(t, "jump:");
    sg_ptx_line(t, "mask = flow.mask;");
    sg_ptx_line(t, "switch (next) {");
    for (uint32_t i = 0; i < n; i++)
        sg_ptx_line(t, "case %u: goto b%u;", i, i);
    sg_ptx_line(t, "default: return;");
    sg_ptx_line(t, "}");
    sg_ptx_line(t, "}");
}
