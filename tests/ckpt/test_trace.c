/* Traces: what is written is read again, what is damaged is refused, and what is wrong in itself too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/trace/trace.h"

static uint32_t draw(uint32_t below)
{
    return (uint32_t)rand() % below;
}

/* Births and deaths, and others by chance, in order. */
static void add_syncs(ebb_trace_t *t)
{
    for (uint32_t i = 0; i <= t->operation_count; i++) {
        for (uint32_t b = 0; b < t->buffer_count; b++) {
            if (t->buffer[b].born == i)
                *ebb_trace_add_sync(t) = (ebb_trace_sync_t){EBB_SYNC_ALLOC, i, draw(3), draw(4), b};
            if (t->buffer[b].dies == i)
                *ebb_trace_add_sync(t) = (ebb_trace_sync_t){EBB_SYNC_FREE, i, draw(3), draw(4), b};
        }
        if (!draw(3))
            *ebb_trace_add_sync(t) = (ebb_trace_sync_t){(ebb_sync_kind_t)(EBB_SYNC_RECORD + draw(5)), i,
                                                        draw(3), draw(4), draw(9)};
    }
}

/* A valid trace: buffers with random lifetimes, operations that touch what is alive. */
static ebb_trace_t *make_trace(uint32_t operations, uint32_t buffers)
{
    ebb_trace_t *t = ebb_trace_new(2 << 20);
    assert_non_null(t);
    for (uint32_t i = 0; i < buffers; i++) {
        ebb_trace_buffer_t *b = ebb_trace_add_buffer(t);
        assert_non_null(b);
        b->bytes = 1 + draw(1 << 24);
        b->born = draw(3) ? draw(operations) : EBB_NONE;
        if (draw(3))
            b->dies = b->born == EBB_NONE ? draw(operations + 1) : b->born + draw(operations + 1 - b->born);
    }
    for (uint32_t i = 0; i < operations; i++) {
        ebb_trace_operation_t *o = ebb_trace_add_operation(t);
        assert_non_null(o);
        o->kind = (ebb_trace_kind_t)draw(3);
        o->stream = draw(3);
        snprintf(o->name, sizeof o->name, "_Z%ukernel\\\"%u", draw(1000), i);
        for (int k = 0; k < 3; k++) {
            o->grid[k] = 1 + draw(1000);
            o->block[k] = 1 + draw(1024);
        }
        o->shared_bytes = draw(100000);
        o->duration_ns = draw(1 << 30);
        o->proofs = draw(5);
        o->resident = draw(2);
        o->verdict = (ebb_verdict_t)draw(EBB_VERDICTS);
        o->thread = draw(4);
        o->at_ns = draw(1 << 30);
        o->proof_ns = draw(1 << 30);
        o->proof_bytes = draw(1 << 30);
        assert_true(ebb_trace_set_nvtx(t, o, draw(2) ? "step/forward/\"layer\\ 3" : ""));
        unsigned char args[64];
        o->param_bytes = draw(sizeof args);
        for (unsigned k = 0; k < o->param_bytes; k++)
            args[k] = (unsigned char)draw(256);
        if (draw(2))
            assert_true(ebb_trace_add_args(t, args, o->param_bytes));
        for (uint32_t b = 0; b < buffers; b++) {
            const ebb_trace_buffer_t *buffer = &t->buffer[b];
            bool alive = (buffer->born == EBB_NONE || buffer->born <= i) &&
                         (buffer->dies == EBB_NONE || buffer->dies > i);
            if (!alive || draw(4))
                continue;
            ebb_trace_access_t *a = ebb_trace_add_access(t);
            assert_non_null(a);
            a->buffer = b;
            a->offset_bytes = draw((uint32_t)buffer->bytes);
            a->param_offset = 8 * draw(20);
            a->mode = (ebb_mode_t)(1 + draw(3));
            uint32_t tiles = (uint32_t)((buffer->bytes - 1) / t->tile_bytes + 1);
            a->first_tile = a->mode == EBB_READS ? 0 : draw(tiles);
            a->tile_count = a->mode == EBB_READS ? 0 : draw(tiles - a->first_tile + 1);
        }
    }
    add_syncs(t);
    assert_null(ebb_trace_check(t));
    return t;
}

static char *to_text(const ebb_trace_t *t, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    assert_true(ebb_trace_write(t, f));
    fclose(f);
    return text;
}

static ebb_trace_t *from_text(const char *text, size_t size, char error[256])
{
    FILE *f = size ? fmemopen((void *)(uintptr_t)text, size, "r") : fopen("/dev/null", "r");
    ebb_trace_t *t = ebb_trace_read(f, error, 256);
    fclose(f);
    return t;
}

static void written_trace_is_read_again_unchanged(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        char error[256] = "";
        size_t size, again_size;
        srand(seed);
        ebb_trace_t *t = make_trace(1 + draw(60), draw(30));
        char *text = to_text(t, &size);
        ebb_trace_t *u = from_text(text, size, error);
        if (!u)
            fail_msg("seed %u: %s", seed, error);
        char *again = to_text(u, &again_size);
        assert_int_equal(size, again_size);
        assert_memory_equal(text, again, size);
        assert_int_equal(t->access_count, u->access_count);
        assert_int_equal(t->sync_count, u->sync_count);
        for (uint32_t i = 0; i < t->operation_count; i++) {
            const ebb_trace_operation_t *o = &t->operation[i], *p = &u->operation[i];
            assert_string_equal(ebb_trace_nvtx(t, o), ebb_trace_nvtx(u, p));
            assert_int_equal(o->arg_bytes, p->arg_bytes);
            assert_int_equal(o->verdict, p->verdict);
            assert_int_equal(o->resident, p->resident);
            assert_string_equal(o->name, p->name);
        }
        free(text);
        free(again);
        ebb_trace_delete(t);
        ebb_trace_delete(u);
    }
}

/* A buffer that outlives the step is another one in the next; one that says nothing of it stays what it is. */
/* Nothing of it is shared with the other. */
static void copy_is_the_same_trace_when_the_other_is_gone(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        size_t size, copied_size;
        srand(seed);
        ebb_trace_t *t = make_trace(1 + draw(60), draw(30));
        char *text = to_text(t, &size);
        ebb_trace_t *copy = ebb_trace_copy(t);
        assert_non_null(copy);
        t->operation[0].proofs++;
        ebb_trace_delete(t);
        char *copied = to_text(copy, &copied_size);
        assert_int_equal(size, copied_size);
        assert_memory_equal(text, copied, size);
        assert_non_null(ebb_trace_add_operation(copy));
        assert_non_null(ebb_trace_add_buffer(copy));
        free(text);
        free(copied);
        ebb_trace_delete(copy);
    }
}

static void what_outlives_the_step_is_read_again(void **state)
{
    (void)state;
    char error[256] = "";
    size_t size;
    ebb_trace_t *t = make_trace(4, 0);
    const uint32_t first = t->buffer_count;
    for (int i = 0; i < 3; i++)
        ebb_trace_add_buffer(t)->bytes = 1000;
    t->buffer[first].born = 1;
    t->buffer[first].next = first + 1;
    t->buffer[first + 1].next = first + 2;
    t->buffer[first + 2].dies = 3;
    assert_null(ebb_trace_check(t));
    char *text = to_text(t, &size);
    ebb_trace_t *u = from_text(text, size, error);
    assert_non_null(u);
    for (uint32_t i = first; i < first + 3; i++)
        assert_int_equal(t->buffer[i].next, u->buffer[i].next);
    ebb_trace_delete(u);
    t->buffer[first].next = first + 2;
    t->buffer[first + 2].next = first + 1; /* which dies */
    assert_non_null(ebb_trace_check(t));
    ebb_trace_delete(t);
    free(text);
    const char without[] =
        "{\"ebb_trace\": 3, \"chunk_bytes\": 2097152, \"tile_bytes\": 65536, \"operations\": 0, "
        "\"buffers\": 1, \"moments\": 0}\n"
        "{\"buffer\": 0, \"bytes\": 5, \"born\": null, \"dies\": null}\n";
    u = from_text(without, sizeof without - 1, error);
    assert_non_null(u);
    assert_int_equal(u->buffer[0].next, 0);
    ebb_trace_delete(u);
}

/* ---- where it was recorded ---- */

#define HEAD                                                                                                 \
    "{\"ebb_trace\": 3, \"chunk_bytes\": 2097152, \"tile_bytes\": 65536, \"operations\": 0, \"buffers\": "   \
    "0, "                                                                                                    \
    "\"moments\": 0"

static ebb_trace_t *read_head(const char *more)
{
    char text[1024], error[256] = "";
    const int size = snprintf(text, sizeof text, HEAD "%s}\n", more);
    ebb_trace_t *t = from_text(text, (size_t)size, error);
    if (!t)
        fail_msg("%s: %s", more, error);
    return t;
}

static bool is_known(const ebb_hardware_t *h)
{
    static const ebb_hardware_t none = {.out_bytes_per_ns = 0};
    return memcmp(h, &none, sizeof none);
}

static void device_and_prices_are_read_again(void **state)
{
    (void)state;
    char error[256] = "";
    size_t size;
    for (unsigned seed = 1; seed <= 20; seed++) {
        srand(seed);
        ebb_trace_t *t = make_trace(2, 1);
        snprintf(t->device, sizeof t->device, "GPU \"%u\" of\\ %s", draw(1000), seed == 20 ? "\xc3\xa4" : "");
#define DRAW(name) t->hardware.name = draw(4) ? 1e-6 * draw(1000000) + draw(5000) : 0;
        EBB_HARDWARE(DRAW)
#undef DRAW
        t->hardware.out_bytes_per_ns = 26.25;
        t->hardware.in_bytes_per_ns = 0.000125;
        t->hardware.out_both = 0.875;
        t->hardware.in_both = 0.375;
        t->hardware.checked = seed % 2 ? 1 : 1.0 / 16;
        char *text = to_text(t, &size);
        ebb_trace_t *u = from_text(text, size, error);
        if (!u)
            fail_msg("seed %u: %s", seed, error);
        assert_string_equal(t->device, u->device);
#define COMPARE(name)                                                                                        \
    assert_true(u->hardware.name - t->hardware.name < 1e-6 && t->hardware.name - u->hardware.name < 1e-6);
        EBB_HARDWARE(COMPARE)
#undef COMPARE
        free(text);
        ebb_trace_delete(t);
        ebb_trace_delete(u);
    }
}

/* As files were before they told; or with less than is told today. */
static void what_a_head_leaves_out_is_not_known(void **state)
{
    (void)state;
    ebb_trace_t *t = read_head("");
    assert_string_equal(t->device, "");
    assert_false(is_known(&t->hardware));
    ebb_trace_delete(t);
    t = read_head(
        ", \"device\": \"one\", \"hardware\": {\"out_bytes_per_ns\": 20, \"in_bytes_per_ns\": 2.5e1, "
        "\"of_tomorrow\": [1]}, \"of_tomorrow\": {}");
    assert_string_equal(t->device, "one");
    const ebb_hardware_t link = {.out_bytes_per_ns = 20, .in_bytes_per_ns = 25};
    assert_memory_equal(&t->hardware, &link, sizeof link);
    size_t size;
    char *text = to_text(t, &size);
    assert_non_null(strstr(text, "\"hardware\": {\"out_bytes_per_ns\": 20.000000, "));
    free(text);
    t->hardware.out_bytes_per_ns = 0;
    *t->device = 0;
    text = to_text(t, &size);
    assert_null(strstr(text, "hardware"));
    assert_null(strstr(text, "device"));
    free(text);
    ebb_trace_delete(t);
}

#define LINK "\"out_bytes_per_ns\": 20, \"in_bytes_per_ns\": 25"

static void damaged_head_counts_as_not_known(void **state)
{
    (void)state;
    static const char *const without_link[] = {
        ", \"hardware\": null",
        ", \"hardware\": 7",
        ", \"hardware\": [20, 25]",
        ", \"hardware\": \"fast\"",
        ", \"hardware\": {}",
        ", \"hardware\": {\"out_bytes_per_ns\": 20}",
        ", \"hardware\": {\"out_bytes_per_ns\": 20, \"in_bytes_per_ns\": 0}",
        ", \"hardware\": {\"out_bytes_per_ns\": -20, \"in_bytes_per_ns\": 25}",
        ", \"hardware\": {\"out_bytes_per_ns\": \"20\", \"in_bytes_per_ns\": 25}",
        ", \"hardware\": {\"out_bytes_per_ns\": 1e300, \"in_bytes_per_ns\": 25}",
        ", \"hardware\": {\"out_bytes_per_ns\": 1e999, \"in_bytes_per_ns\": 25}"};
    for (size_t i = 0; i < sizeof without_link / sizeof *without_link; i++) {
        ebb_trace_t *t = read_head(without_link[i]);
        if (is_known(&t->hardware))
            fail_msg("%s: taken for known", without_link[i]);
        ebb_trace_delete(t);
    }
    static const char *const without_rest[] = {
        ", \"hardware\": {" LINK ", \"call_ns\": -1, \"zero_ns\": \"x\"}",
        ", \"hardware\": {" LINK ", \"checked\": 2, \"in_both\": 0.5}",
        ", \"hardware\": {" LINK ", \"out_both\": 1.5, \"in_both\": 0.5, \"out_slowdown\": null}",
        ", \"hardware\": {" LINK ", \"hash_ns\": 1e12, \"in_ns\": {}}"};
    const ebb_hardware_t link = {.out_bytes_per_ns = 20, .in_bytes_per_ns = 25};
    for (size_t i = 0; i < sizeof without_rest / sizeof *without_rest; i++) {
        ebb_trace_t *t = read_head(without_rest[i]);
        if (memcmp(&t->hardware, &link, sizeof link))
            fail_msg("%s: more than the link is known", without_rest[i]);
        ebb_trace_delete(t);
    }
    char more[EBB_TRACE_DEVICE + 64] = ", \"device\": \"";
    const size_t begin = strlen(more);
    memset(more + begin, 'x', EBB_TRACE_DEVICE + 20);
    strcpy(more + begin + EBB_TRACE_DEVICE + 20, "\"");
    ebb_trace_t *t = read_head(more);
    assert_int_equal(strlen(t->device), EBB_TRACE_DEVICE - 1);
    ebb_trace_delete(t);
    t = read_head(", \"device\": 5");
    assert_string_equal(t->device, "");
    ebb_trace_delete(t);
}

/* Cut anywhere, or with any byte changed: an error with its line, or another valid trace; never a crash. */
static void damaged_file_is_refused_or_still_a_trace(void **state)
{
    (void)state;
    const unsigned seed = 7;
    print_message("seed %u\n", seed);
    srand(seed);
    size_t size;
    ebb_trace_t *t = make_trace(12, 6);
    t->hardware = (ebb_hardware_t){.out_bytes_per_ns = 20, .in_bytes_per_ns = 25, .call_ns = 1500};
    char *text = to_text(t, &size);
    unsigned refused = 0;
    for (size_t cut = 0; cut + 1 < size; cut += 7) {
        char error[256] = "";
        ebb_trace_t *u = from_text(text, cut, error);
        assert_null(u);
        assert_int_equal(strncmp(error, "line ", 5), 0);
    }
    for (unsigned i = 0; i < 3000; i++) {
        char error[256] = "";
        size_t at = draw((uint32_t)size);
        char old = text[at];
        text[at] = (char)(32 + draw(95));
        ebb_trace_t *u = from_text(text, size, error);
        if (u)
            assert_null(ebb_trace_check(u));
        else
            assert_int_equal(strncmp(error, "line ", 5), 0);
        refused += !u;
        ebb_trace_delete(u);
        text[at] = old;
    }
    print_message("%u of 3000 changes refused\n", refused);
    assert_true(refused > 1000);
    free(text);
    ebb_trace_delete(t);
}

/* What a damaged disk, an editor or a cut transfer leaves: lines gone, doubled, exchanged, numbers grown, parts of the
 * file in other places. Run under AddressSanitizer: whatever is read stays inside. */
static void mutated_file_is_refused_or_still_a_trace(void **state)
{
    (void)state;
    static const char *const inserts[] = {"-1",
                                          "1e99",
                                          "99999999999999999999",
                                          "null",
                                          "\"x\"",
                                          "[",
                                          "]",
                                          "{}",
                                          "\n",
                                          ",",
                                          "4294967295",
                                          "\"args\": \"f\"",
                                          "\"args\": \"zz\"",
                                          "\xff"};
    unsigned refused = 0, read = 0;
    for (unsigned seed = 1; seed <= 600; seed++) {
        char error[256] = "";
        size_t size;
        srand(seed);
        ebb_trace_t *t = make_trace(1 + draw(12), draw(6));
        char *text = to_text(t, &size), *mutant = malloc(2 * size + 64);
        size_t from = draw((uint32_t)size), length = 1 + draw((uint32_t)(size - from)),
               to = draw((uint32_t)size);
        if (draw(2))
            length = length < 24 ? length : 24;
        memcpy(mutant, text, size);
        switch (draw(4)) {
        case 0: /* gone */
            memmove(mutant + from, text + from + length, size - from - length);
            size -= length;
            break;
        case 1: /* doubled elsewhere */
            memmove(mutant + to + length, text + to, size - to);
            memcpy(mutant + to, text + from, length);
            size += length;
            break;
        case 2: /* overwritten by another part */
            memmove(mutant + to, text + from, length < size - to ? length : size - to);
            break;
        default: {
            const char *word = inserts[draw(sizeof inserts / sizeof *inserts)];
            size_t n = strlen(word);
            memmove(mutant + to + n, text + to, size - to);
            memcpy(mutant + to, word, n);
            size += n;
        }
        }
        ebb_trace_t *u = from_text(mutant, size, error);
        if (u && ebb_trace_check(u))
            fail_msg("seed %u: read, and wrong: %s", seed, ebb_trace_check(u));
        if (!u && strncmp(error, "line ", 5))
            fail_msg("seed %u: no line: %s", seed, error);
        refused += !u;
        read += u != NULL;
        ebb_trace_delete(u);
        ebb_trace_delete(t);
        free(text);
        free(mutant);
    }
    print_message("seeds 1 to 600: %u refused, %u still traces\n", refused, read);
    assert_true(refused > 150);
}

static void older_version_is_refused_and_named(void **state)
{
    (void)state;
    char error[256] = "";
    const char old[] = "{\"ebb_trace\": 2, \"chunk_bytes\": 2097152, \"operations\": 0, \"buffers\": 0}\n";
    assert_null(from_text(old, sizeof old - 1, error));
    assert_string_equal(error, "line 1: version 2 of the format; this ebb reads version 3: record it again");
}

static void trace_that_contradicts_itself_is_found(void **state)
{
    (void)state;
    srand(3);
    ebb_trace_t *t = make_trace(20, 10);
    ebb_trace_access_t *a = &t->access[0], good_access = *a;
    ebb_trace_buffer_t *b = &t->buffer[a->buffer], good_buffer = *b;
    a->buffer = t->buffer_count;
    assert_non_null(ebb_trace_check(t));
    *a = good_access;
    a->offset_bytes = b->bytes + 1;
    assert_non_null(ebb_trace_check(t));
    *a = good_access;
    a->mode = (ebb_mode_t)4;
    assert_non_null(ebb_trace_check(t));
    *a = good_access;
    b->born = 20; /* after its use */
    b->dies = EBB_NONE;
    assert_non_null(ebb_trace_check(t));
    b->born = 5;
    b->dies = 4;
    assert_non_null(ebb_trace_check(t));
    *b = good_buffer;
    b->bytes = 0;
    assert_non_null(ebb_trace_check(t));
    *b = good_buffer;
    b->next = t->buffer_count;
    assert_non_null(ebb_trace_check(t));
    *b = good_buffer;
    t->chunk_bytes = 3;
    assert_non_null(ebb_trace_check(t));
    ebb_trace_delete(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_is_the_same_trace_when_the_other_is_gone),
        cmocka_unit_test(written_trace_is_read_again_unchanged),
        cmocka_unit_test(what_outlives_the_step_is_read_again),
        cmocka_unit_test(device_and_prices_are_read_again),
        cmocka_unit_test(what_a_head_leaves_out_is_not_known),
        cmocka_unit_test(damaged_head_counts_as_not_known),
        cmocka_unit_test(damaged_file_is_refused_or_still_a_trace),
        cmocka_unit_test(mutated_file_is_refused_or_still_a_trace),
        cmocka_unit_test(older_version_is_refused_and_named),
        cmocka_unit_test(trace_that_contradicts_itself_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
