/* test_flow.c: blocks, successors and joins, of graphs by hand and at random (the seed is printed) against a naive search: a block
 * post-dominates another if there is no way to the exit around it. */
#include "ptx_test.h"

static sg_ptx_module_t *read_body(const char *body)
{
    char text[65536];
    snprintf(text, sizeof text,
             PTX_HEAD ".func fail() .noreturn;\n.entry k()\n{\n.reg .pred p; .reg .b32 r;\n%s}\n", body);
    return ptx_read(text);
}

static void check_block(const sg_ptx_function_t *k, uint32_t block, const char *successors, uint32_t join)
{
    char found[256] = "";
    for (uint32_t i = 0; i < k->blocks[block].successor_count; i++) {
        uint32_t to = k->blocks[block].successors[i];
        snprintf(found + strlen(found), sizeof found - strlen(found), to == SG_PTX_EXIT ? "%sX" : "%s%u",
                 i ? " " : "", to);
    }
    if (strcmp(found, successors) != 0 || k->blocks[block].join != join)
        fail_msg("block %u: to \"%s\", join %d", block, found, (int)k->blocks[block].join);
}

static void blocks_of_branches_and_loops(void **state)
{
    (void)state;
    sg_ptx_module_t *module = read_body("@p bra THEN;\nmov.u32 r, 1;\nbra.uni JOIN;\nTHEN: mov.u32 r, "
                                        "2;\nJOIN:\nLOOP: add.u32 r, r, 1;\n@!p bra LOOP;\nret;\n");
    const sg_ptx_function_t *k = ptx_function(module, "k");
    assert_int_equal(k->block_count, 5);
    check_block(k, 0, "2 1", 3);
    check_block(k, 1, "3", 3);
    check_block(k, 2, "3", 3);
    check_block(k, 3, "3 4", 4);
    check_block(k, 4, "X", SG_PTX_EXIT);
    assert_int_equal(k->blocks[3].first, 4);
    assert_int_equal(k->blocks[3].count, 2);
    sg_ptx_free(module);
}

static void blocks_that_leave_join_at_the_exit(void **state)
{
    (void)state;
    sg_ptx_module_t *module =
        read_body("@p ret;\n@p bra A;\n@p call fail;\nmov.u32 r, 1;\nA: @p exit;\ncall fail;\ntrap;\n");
    const sg_ptx_function_t *k = ptx_function(module, "k");
    check_block(k, 0, "X 1", SG_PTX_EXIT);
    check_block(k, 1, "4 2", SG_PTX_EXIT);
    check_block(k, 2, "X 3", SG_PTX_EXIT);
    check_block(k, 3, "4", 4);
    check_block(k, 4, "X 5", SG_PTX_EXIT);
    check_block(k, 5, "X", SG_PTX_EXIT);
    assert_int_equal(k->block_count, 7);
    sg_ptx_free(module);
}

static void bodies_that_end_anywhere_return(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "mov.u32 r, 1;\n", "@p bra END;\nmov.u32 r, 1;\nret;\nEND:\n",
                                         "@p ret;\n", "bra END;\nEND:\n"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        sg_ptx_module_t *module = read_body(bodies[i]);
        const sg_ptx_function_t *k = ptx_function(module, "k");
        const sg_ptx_insn_t *last = &k->insns[k->insn_count - 1];
        assert_true(last->opcode == SG_PTX_OP_RET && !last->guarded);
        check_block(k, k->block_count - 1, "X", SG_PTX_EXIT);
        sg_ptx_free(module);
    }
    sg_ptx_module_t *module = read_body("mov.u32 r, 1;\nret;\nUNUSED:\n");
    assert_int_equal(ptx_function(module, "k")->insn_count, 2);
    sg_ptx_free(module);
}

static void blocks_of_jump_tables(void **state)
{
    (void)state;
    sg_ptx_module_t *module = read_body("T: .branchtargets A, B, A, END;\nbrx.idx r, T;\nA: mov.u32 r, "
                                        "1;\nB: mov.u32 r, 2;\n@p brx.idx r, T;\nEND: ret;\n");
    const sg_ptx_function_t *k = ptx_function(module, "k");
    check_block(k, 0, "1 2 1 3", 3);
    check_block(k, 1, "2", 2);
    check_block(k, 2, "1 2 1 3 3", 3);
    assert_int_equal(k->insns[0].operands[1].count, 4);
    assert_int_equal(k->insns[0].operands[1].elements[3].number, 3);
    sg_ptx_free(module);
}

static void irreducible_loops_have_joins(void **state)
{
    (void)state;
    /* Two blocks that jump to one another, entered at both. */
    sg_ptx_module_t *module = read_body("@p bra B;\nA: add.u32 r, r, 1;\n@p bra OUT;\nB: add.u32 r, r, "
                                        "2;\n@p bra A;\nadd.u32 r, r, 3;\nOUT: ret;\n");
    const sg_ptx_function_t *k = ptx_function(module, "k");
    check_block(k, 0, "2 1", 4);
    check_block(k, 1, "4 2", 4);
    check_block(k, 2, "1 3", 4);
    check_block(k, 3, "4", 4);
    sg_ptx_free(module);
}

static void loops_without_an_end_have_joins_inside(void **state)
{
    (void)state;
    sg_ptx_module_t *module = read_body(
        "LOOP: @p bra A;\nadd.u32 r, r, 1;\nbra B;\nA: add.u32 r, r, 2;\nB: add.u32 r, r, 3;\nbra LOOP;\n");
    const sg_ptx_function_t *k = ptx_function(module, "k");
    check_block(k, 0, "2 1", 3);
    check_block(k, 3, "0", SG_PTX_EXIT);
    sg_ptx_free(module);
}

/* ---- at random ---- */
#define NODES_MOST 14

typedef struct graph {
    uint32_t count;
    bool edge[NODES_MOST][NODES_MOST + 1]; /* the last is the exit */
} graph_t;

/* Can the exit be reached without going through `without`? */
static bool gets_out(const graph_t *graph, uint32_t from, uint32_t without)
{
    bool seen[NODES_MOST + 1] = {false};
    uint32_t stack[NODES_MOST + 1], depth = 0;
    if (from == without)
        return false;
    stack[depth++] = from;
    seen[from] = true;
    while (depth) {
        uint32_t node = stack[--depth];
        if (node == graph->count)
            return true;
        for (uint32_t to = 0; to <= graph->count; to++)
            if (graph->edge[node][to] && !seen[to] && to != without) {
                seen[to] = true;
                stack[depth++] = to;
            }
    }
    return false;
}

/* Of all that post-dominate the block, the one that all others of them post-dominate. */
static uint32_t naive_join(const graph_t *graph, uint32_t block)
{
    for (uint32_t d = 0; d < graph->count; d++) {
        if (d == block || gets_out(graph, block, d))
            continue;
        bool nearest = true;
        for (uint32_t other = 0; other < graph->count; other++)
            if (other != block && other != d && !gets_out(graph, block, other))
                nearest &= !gets_out(graph, d, other);
        if (nearest)
            return d;
    }
    return SG_PTX_EXIT;
}

/* A loop without an end counts as one that its last block leaves. */
static void open_endless_loops(graph_t *graph)
{
    for (uint32_t b = graph->count; b-- > 0;)
        if (!gets_out(graph, b, UINT32_MAX))
            graph->edge[b][graph->count] = true;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* A body whose blocks are b0 to bN, each of one add and a jump. */
static void random_body(uint64_t *random, graph_t *graph, char *body, size_t bytes)
{
    memset(graph, 0, sizeof *graph);
    graph->count = 2 + next_random(random) % (NODES_MOST - 1);
    size_t length = 0;
    for (uint32_t b = 0; b < graph->count; b++) {
        uint32_t to = next_random(random) % graph->count, kind = next_random(random) % 8;
        bool last = b + 1 == graph->count;
        const char *jump = kind == 0 || last ? "ret;"
                           : kind == 1       ? "@p ret;"
                           : kind < 4        ? "bra b%u;"
                                             : "@p bra b%u;";
        length += (size_t)snprintf(body + length, bytes - length, "b%u: add.u32 r, r, 1;\n", b);
        length += (size_t)snprintf(body + length, bytes - length, jump, to);
        body[length++] = '\n';
        if (kind <= 1 || last)
            graph->edge[b][graph->count] = true;
        else
            graph->edge[b][to] = true;
        if (!last && (kind == 1 || kind >= 4))
            graph->edge[b][b + 1] = true;
    }
    body[length] = '\0';
}

static void joins_at_random_agree_with_a_search(void **state)
{
    (void)state;
    uint32_t compared = 0;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        char body[4096];
        graph_t graph;
        uint64_t random = seed;
        random_body(&random, &graph, body, sizeof body);
        open_endless_loops(&graph);
        sg_ptx_module_t *module = read_body(body);
        const sg_ptx_function_t *k = ptx_function(module, "k");
        assert_int_equal(k->block_count, graph.count);
        for (uint32_t b = 0; b < graph.count; b++) {
            uint32_t join = naive_join(&graph, b);
            if (k->blocks[b].join != join)
                fail_msg("seed %llu: block %u joins at %d, not %d\n%s", (unsigned long long)seed, b,
                         (int)k->blocks[b].join, (int)join, body);
            compared++;
        }
        sg_ptx_free(module);
    }
    print_message("seeds 1 to 20000: %u joins\n", compared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_branches_and_loops),
        cmocka_unit_test(blocks_that_leave_join_at_the_exit),
        cmocka_unit_test(bodies_that_end_anywhere_return),
        cmocka_unit_test(blocks_of_jump_tables),
        cmocka_unit_test(irreducible_loops_have_joins),
        cmocka_unit_test(loops_without_an_end_have_joins_inside),
        cmocka_unit_test(joins_at_random_agree_with_a_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
