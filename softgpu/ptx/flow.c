/* flow.c: basic blocks, their successors, and where lanes that have parted meet again. */
#include "softgpu/ptx/internal.h"

/* Post-dominators as in Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001), on the reversed graph: it takes
 * irreducible ones, too. Node block_count is the exit. A loop without a way out has none; its last block gets an edge to
 * the exit, so that what parts inside still meets there. */
typedef struct sg_ptx_graph {
    const sg_ptx_block_t *blocks;
    uint32_t count;       /* without the exit */
    uint32_t *pred_begin; /* [count + 2]: of each node, in `preds` */
    uint32_t *preds;
    uint32_t *order, ordered; /* nodes in post-order of the reversed graph */
    uint32_t *number;         /* of each node in `order` */
    uint32_t *idom;
    bool *endless; /* got an edge to the exit */
} sg_ptx_graph_t;

static uint32_t node_of(const sg_ptx_graph_t *graph, uint32_t successor)
{
    return successor == SG_PTX_EXIT ? graph->count : successor;
}

static void find_predecessors(sg_ptx_reader_t *reader, sg_ptx_graph_t *graph)
{
    uint32_t edges = 0;
    graph->pred_begin = sg_ptx_alloc(reader, (graph->count + 2) * sizeof *graph->pred_begin);
    for (uint32_t b = 0; b < graph->count; b++)
        for (uint32_t s = 0; s < graph->blocks[b].successor_count; s++, edges++)
            graph->pred_begin[node_of(graph, graph->blocks[b].successors[s]) + 1]++;
    for (uint32_t n = 0; n <= graph->count; n++)
        graph->pred_begin[n + 1] += graph->pred_begin[n];
    graph->preds = sg_ptx_alloc(reader, (edges + 1) * sizeof *graph->preds);
    uint32_t *filled = sg_ptx_alloc(reader, (graph->count + 1) * sizeof *filled);
    for (uint32_t b = 0; b < graph->count; b++)
        for (uint32_t s = 0; s < graph->blocks[b].successor_count; s++) {
            uint32_t node = node_of(graph, graph->blocks[b].successors[s]);
            graph->preds[graph->pred_begin[node] + filled[node]++] = b;
        }
}

/* Depth first from a node, against the edges. `next` is where each node's predecessors go on; number != 0: was seen. */
static void walk(sg_ptx_graph_t *graph, uint32_t from, uint32_t *stack, uint32_t *next)
{
    uint32_t depth = 0;
    stack[depth++] = from;
    graph->number[from] = 1;
    while (depth) {
        uint32_t node = stack[depth - 1];
        if (graph->pred_begin[node] + next[node] < graph->pred_begin[node + 1]) {
            uint32_t pred = graph->preds[graph->pred_begin[node] + next[node]++];
            if (graph->number[pred] == 0) {
                graph->number[pred] = 1;
                stack[depth++] = pred;
            }
        } else {
            graph->order[graph->ordered++] = node;
            depth--;
        }
    }
}

static void find_order(sg_ptx_reader_t *reader, sg_ptx_graph_t *graph)
{
    uint32_t nodes = graph->count + 1;
    uint32_t *stack = sg_ptx_alloc(reader, nodes * sizeof *stack),
             *next = sg_ptx_alloc(reader, nodes * sizeof *next);
    graph->order = sg_ptx_alloc(reader, nodes * sizeof *graph->order);
    graph->number = sg_ptx_alloc(reader, nodes * sizeof *graph->number);
    graph->endless = sg_ptx_alloc(reader, nodes * sizeof *graph->endless);
    graph->number[graph->count] = 1;
    for (uint32_t p = graph->pred_begin[graph->count]; p < graph->pred_begin[graph->count + 1]; p++)
        if (graph->number[graph->preds[p]] == 0)
            walk(graph, graph->preds[p], stack, next);
    for (uint32_t b = graph->count; b-- > 0;)
        if (graph->number[b] == 0) {
            graph->endless[b] = true;
            walk(graph, b, stack, next);
        }
    graph->order[graph->ordered++] = graph->count;
    for (uint32_t i = 0; i < graph->ordered; i++)
        graph->number[graph->order[i]] = i;
}

static uint32_t common(const sg_ptx_graph_t *graph, uint32_t a, uint32_t b)
{
    while (a != b)
        if (graph->number[a] < graph->number[b])
            a = graph->idom[a];
        else
            b = graph->idom[b];
    return a;
}

static void find_joins(sg_ptx_reader_t *reader, sg_ptx_block_t *blocks, uint32_t count)
{
    enum { NONE = UINT32_MAX };
    sg_ptx_graph_t graph = {.blocks = blocks, .count = count};
    find_predecessors(reader, &graph);
    find_order(reader, &graph);
    graph.idom = sg_ptx_alloc(reader, (count + 1) * sizeof *graph.idom);
    for (uint32_t n = 0; n < count; n++)
        graph.idom[n] = NONE;
    graph.idom[count] = count;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = count; i-- > 0;) { /* the exit is the last */
            uint32_t node = graph.order[i], found = graph.endless[node] ? count : NONE;
            for (uint32_t s = 0; s < blocks[node].successor_count; s++) {
                uint32_t to = node_of(&graph, blocks[node].successors[s]);
                if (graph.idom[to] != NONE)
                    found = found == NONE ? to : common(&graph, found, to);
            }
            changed |= graph.idom[node] != found;
            graph.idom[node] = found;
        }
    }
    for (uint32_t b = 0; b < count; b++)
        blocks[b].join = graph.idom[b] == count ? SG_PTX_EXIT : graph.idom[b];
}

/* ---- blocks ---- */
static bool ends_thread(const sg_ptx_insn_t *insn)
{
    switch (insn->opcode) {
    case SG_PTX_OP_RET:
    case SG_PTX_OP_EXIT:
    case SG_PTX_OP_TRAP:
        return true;
    case SG_PTX_OP_CALL:
        return insn->call->prototype != NULL && insn->call->prototype->noreturn;
    default:
        return false;
    }
}

static bool ends_block(const sg_ptx_insn_t *insn)
{
    return insn->opcode == SG_PTX_OP_BRA || insn->opcode == SG_PTX_OP_BRX_IDX || ends_thread(insn);
}

/* Where a jump can go, as operands. */
static const sg_ptx_operand_t *targets_of(const sg_ptx_insn_t *insn, uint32_t *count)
{
    *count = 0;
    if (insn->opcode == SG_PTX_OP_BRA) {
        *count = 1;
        return insn->operands;
    }
    if (insn->opcode == SG_PTX_OP_BRX_IDX) {
        *count = insn->operands[1].count;
        return insn->operands[1].elements;
    }
    return NULL;
}

/* The end of a body returns: an instruction for it, where one can get there. */
static void close_body(sg_ptx_reader_t *reader)
{
    const sg_ptx_insn_t *insns = reader->insns.items;
    uint32_t count = reader->insns.count, targets;
    bool reached = count == 0 || insns[count - 1].guarded || !ends_block(&insns[count - 1]);
    for (uint32_t i = 0; i < count && !reached; i++) {
        const sg_ptx_operand_t *operands = targets_of(&insns[i], &targets);
        for (uint32_t t = 0; t < targets; t++)
            reached |= operands[t].number == count;
    }
    if (!reached)
        return;
    sg_ptx_insn_t *insn = sg_ptx_add(reader, &reader->insns, sizeof *insn);
    insn->line = reader->token.line;
    insn->source_file = reader->source_file;
    insn->source_line = reader->source_line;
    insn->opcode = SG_PTX_OP_RET;
    uint32_t forms, form;
    sg_ptx_forms_of(SG_PTX_OP_RET, &form, &forms);
    insn->form = (uint16_t)form;
}

static void find_successors(sg_ptx_reader_t *reader, const sg_ptx_insn_t *last, sg_ptx_block_t *block,
                            uint32_t after)
{
    uint32_t targets, count = 0;
    const sg_ptx_operand_t *operands = targets_of(last, &targets);
    uint32_t *successors = sg_ptx_alloc(reader, (targets + 2) * sizeof *successors);
    for (uint32_t t = 0; t < targets; t++)
        successors[count++] = operands[t].number;
    if (ends_thread(last))
        successors[count++] = SG_PTX_EXIT;
    if (!ends_block(last) || last->guarded)
        successors[count++] = after;
    block->successors = successors;
    block->successor_count = count;
}

void sg_ptx_make_blocks(sg_ptx_reader_t *reader, sg_ptx_function_t *function)
{
    close_body(reader);
    sg_ptx_insn_t *insns = reader->insns.items;
    uint32_t count = reader->insns.count, targets, blocks = 0;
    uint32_t *block_of =
        sg_ptx_alloc(reader, (count + 1) * sizeof *block_of); /* first a mark, then the block's number */
    block_of[0] = 1;
    for (uint32_t i = 0; i < count; i++) {
        const sg_ptx_operand_t *operands = targets_of(&insns[i], &targets);
        for (uint32_t t = 0; t < targets; t++)
            block_of[operands[t].number] = 1;
        if (ends_block(&insns[i]))
            block_of[i + 1] = 1;
    }
    block_of[count] = 0;
    for (uint32_t i = 0; i < count; i++)
        blocks += block_of[i];
    sg_ptx_block_t *out = sg_ptx_alloc(reader, blocks * sizeof *out);
    uint32_t b = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (block_of[i])
            out[b++].first = i;
        out[b - 1].count++;
        block_of[i] = b - 1;
    }
    /* From here on, labels name blocks. Of a jump table that several jumps use, once. */
    for (uint32_t i = 0; i < reader->pending.count; i++) {
        sg_ptx_operand_t *operand = ((sg_ptx_pending_t *)reader->pending.items)[i].operand;
        operand->number = operand->number < count ? block_of[operand->number] : blocks;
    }
    for (b = 0; b < blocks; b++)
        find_successors(reader, &insns[out[b].first + out[b].count - 1], &out[b], b + 1);
    find_joins(reader, out, blocks);
    function->insns = insns;
    function->insn_count = count;
    function->blocks = out;
    function->block_count = blocks;
}
