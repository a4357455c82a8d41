/* safetensors: conversions bit by bit, files written and read again, faults by name, files above 4 GiB, and the format's
 * own library in Python where it is installed. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "model/base/rng.h"
#include "model/files/element.h"
#include "model/files/safetensors.h"

/* ---- elements ---- */

/* sign, exponent and fraction as the IEEE 754 formats define them. */
static double value_of(uint32_t bits, int exponent_bits, int fraction_bits)
{
    int exponent = (int)(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    double fraction = ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double size = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
    if (exponent == (1 << exponent_bits) - 1)
        size = fraction == 0 ? INFINITY : NAN;
    return bits >> (exponent_bits + fraction_bits) ? -size : size;
}

static void short_elements_have_their_values(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double half = value_of(bits, 5, 10), brain = value_of(bits, 8, 7);
        float f = float_of_f16((uint16_t)bits), b = float_of_bf16((uint16_t)bits);
        assert_true(isnan(half) ? isnan(f) : f == half && !signbit(f) == !signbit(half));
        assert_true(isnan(brain) ? isnan(b) : b == brain && !signbit(b) == !signbit(brain));
        if (isnan(b))
            assert_true(isnan(float_of_bf16(bf16_of_float(b))));
        else
            assert_int_equal(bf16_of_float(b), bits);
    }
}

/* The nearest of both neighbours, of two as near the one with an even fraction. */
static void rounding_takes_the_nearest(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 300000; i++) {
        uint32_t bits = (uint32_t)rng_at(2, i);
        if (i % 3 == 0)
            bits = (bits & 0xffff0000u) | 0x8000u; /* half-way */
        float value = float_of_bits(bits);
        if (!(fabsf(value) < 3e38f))
            continue;
        uint16_t below = (uint16_t)(bits >> 16), rounded = bf16_of_float(value);
        double down = fabs((double)value - (double)float_of_bf16(below));
        double up = fabs((double)value - (double)float_of_bf16((uint16_t)(below + 1)));
        uint16_t expected = down < up || (down == up && below % 2 == 0) ? below : (uint16_t)(below + 1);
        assert_int_equal(rounded, expected);
    }
    assert_int_equal(bf16_of_float(INFINITY), 0x7f80);
    assert_int_equal(bf16_of_float(float_of_bits(0x7f7fffff)), 0x7f80); /* rounds to infinity */
    assert_int_equal(bf16_of_float(float_of_bits(0x7f800001)) & 0x7fc0, 0x7fc0);
}

/* ---- round trip ---- */

#define TENSORS 5

static void describe(stored_t tensors[TENSORS])
{
    static const stored_t made[TENSORS] = {
        {.name = "wte.weight", .element = ELEMENT_F32, .dimensions = 2, .shape = {300, 17}},
        {.name = "h.0.attn.bias", .element = ELEMENT_BF16, .dimensions = 1, .shape = {1001}},
        {.name = "empty", .element = ELEMENT_F32, .dimensions = 2, .shape = {3, 0}},
        {.name = "a \"quoted\\ name", .element = ELEMENT_BF16, .dimensions = 3, .shape = {2, 3, 4}},
        {.name = "large", .element = ELEMENT_F32, .dimensions = 1, .shape = {400000}},
    };
    memcpy(tensors, made, sizeof made);
}

static float value_at(uint64_t tensor, uint64_t i)
{
    return (float)(rng_unit(rng_at(tensor, i)) - 0.5);
}

static void write_file(const char *path, stored_t tensors[TENSORS])
{
    static const char *const metadata[] = {"format", "pt", "step", "100", NULL};
    safetensors_writer_t writer;
    fault_t fault;
    describe(tensors);
    assert_true(safetensors_create(&writer, path, tensors, TENSORS, metadata, &fault));
    for (uint64_t t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < tensors[t].count;) {
            float values[999];
            size_t part = 0;
            while (part < 999 && i < tensors[t].count)
                values[part++] = value_at(t, i++);
            assert_true(safetensors_append(&writer, values, part, &fault));
        }
    assert_true(safetensors_finish(&writer, &fault));
}

static void file_written_is_read_again(void **state)
{
    (void)state;
    char path[256];
    stored_t tensors[TENSORS];
    safetensors_t file;
    fault_t fault;
    write_file(files_path(path, "model.safetensors"), tensors);
    if (!safetensors_open(&file, "--init", path, &fault))
        fail_msg("%s", fault.text);
    assert_int_equal(file.data % 8, 0);
    assert_int_equal(file.count, TENSORS);
    assert_null(safetensors_find(&file, "none"));
    for (uint64_t t = 0; t < TENSORS; t++) {
        const stored_t *found = safetensors_find(&file, tensors[t].name);
        assert_non_null(found);
        assert_int_equal(found->element, tensors[t].element);
        assert_int_equal(found->dimensions, tensors[t].dimensions);
        assert_memory_equal(found->shape, tensors[t].shape, sizeof found->shape);
        float *values = malloc((size_t)found->count * sizeof *values + 1);
        assert_true(safetensors_read(&file, found, 0, (size_t)found->count, values, &fault));
        for (uint64_t i = 0; i < found->count; i++) {
            float expected = value_at(t, i);
            if (found->element == ELEMENT_BF16)
                expected = float_of_bf16(bf16_of_float(expected));
            assert_true(values[i] == expected);
        }
        float some[10];
        if (found->count > 1000) { /* a part, across the reader's pieces too */
            uint64_t first = found->count - 10 - 17;
            assert_true(safetensors_read(&file, found, first, 10, some, &fault));
            assert_memory_equal(some, values + first, sizeof some);
        }
        free(values);
    }
    safetensors_close(&file);
}

static void wrong_number_of_elements_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    char path[256];
    safetensors_writer_t writer;
    fault_t fault;
    stored_t tensor = {.name = "w", .element = ELEMENT_F32, .dimensions = 1, .shape = {3}};
    float values[4] = {1, 2, 3, 4};
    files_path(path, "model.safetensors");
    assert_true(safetensors_create(&writer, path, &tensor, 1, none, &fault));
    assert_true(safetensors_append(&writer, values, 2, &fault));
    assert_false(safetensors_finish(&writer, &fault));
    assert_non_null(strstr(fault.text, "w has fewer elements"));
    assert_true(safetensors_create(&writer, path, &tensor, 1, none, &fault));
    assert_false(safetensors_append(&writer, values, 4, &fault));
    assert_non_null(strstr(fault.text, "more elements"));
    (void)safetensors_finish(&writer, &fault); /* frees it */
    assert_false(safetensors_create(&writer, "/nowhere/at/all", &tensor, 1, none, &fault));
    assert_non_null(strstr(fault.text, "/nowhere/at/all: cannot be written: No such file"));
}

/* ---- faults ---- */

/* A file of this header and `data` bytes of data. */
static void write_raw(const char *path, const char *header, size_t data)
{
    unsigned char bytes[4096] = {0};
    uint64_t length = strlen(header);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, header, (size_t)length);
    files_write(path, bytes, 8 + (size_t)length + data);
}

#define ENTRY(name, dtype, shape, offsets)                                                                   \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void headers_are_refused_by_field(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        const char *words;
    } cases[] = {
        {"[1,2]   ", 0, "does not begin with '{'"},
        {"{\"a\":   ", 0, "the header is no JSON"},
        {"{}{}", 0, "more than a JSON object and spaces"},
        {"{}\n", 0, "more than a JSON object and spaces"},
        {"{\"__metadata__\":3}", 0, "\"__metadata__\" is no object"},
        {"{\"__metadata__\":{\"a\":3}}", 0, "\"__metadata__\": \"a\" is no text"},
        {"{\"a\":3}", 0, "a: is no object"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: \"dtype\" is missing"},
        {"{" ENTRY("a", "F99", "[1]", "[0,4]") "}", 4, "a: \"dtype\" F99 is none"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "a: \"shape\" is no list"},
        {"{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4,
         "a: \"shape\" is no list of at most 8"},
        {"{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", 4, "a: \"shape\" has something else than whole numbers"},
        {"{" ENTRY("a", "F32", "[1.5]", "[0,4]") "}", 4,
         "a: \"shape\" has something else than whole numbers"},
        {"{" ENTRY("a", "F32", "[1e300]", "[0,4]") "}", 4, "a: \"shape\" has something else"},
        {"{" ENTRY("a", "F32", "[4503599627370496,4503599627370496]", "[0,4]") "}", 4,
         "more than 2^64 elements"},
        {"{" ENTRY("a", "F32", "[4503599627370496,2048]", "[0,0]") "}", 0, "are not the size"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: \"data_offsets\" is not two whole numbers"},
        {"{" ENTRY("a", "F32", "[1]", "[0]") "}", 4, "a: \"data_offsets\" is not two whole numbers"},
        {"{" ENTRY("a", "F32", "[1]", "[4,0]") "}", 4, "a: \"data_offsets\" [4, 0] are outside"},
        {"{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 4,
         "a: \"data_offsets\" [0, 8] are outside of the file's 4"},
        {"{" ENTRY("a", "F32", "[2]", "[0,4]") "}", 4, "are not the size that \"dtype\" and \"shape\" say"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[2,6]") "}", 6,
         "before the end"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[6,10]") "}", 10,
         "leaving a hole"},
        {"{" ENTRY("a", "F32", "[1]", "[2,6]") "}", 6, "leaving a hole"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "}", 5, "end at 4, but 5 bytes of data are there"},
        {"{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}", 8,
         "a: is there twice"},
        {"{" ENTRY("a", "F32", "[0]", "[0,0]") "," ENTRY("a", "F32", "[0]", "[0,0]") "}", 0,
         "a: is there twice"},
    };
    char path[256];
    fault_t fault;
    safetensors_t file;
    files_path(path, "bad.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_raw(path, cases[i].header, cases[i].data);
        if (safetensors_open(&file, "--init", path, &fault))
            fail_msg("%s was read", cases[i].header);
        if (strstr(fault.text, cases[i].words) == NULL || strstr(fault.text, path) == NULL)
            fail_msg("'%s' lacks '%s'", fault.text, cases[i].words);
    }
    write_raw(path, "{}     ", 0); /* nothing in it, spaces after: a file */
    assert_true(safetensors_open(&file, "--init", path, &fault));
    assert_int_equal(file.count, 0);
    assert_null(safetensors_find(&file, "a"));
    safetensors_close(&file);
}

static void other_types_are_listed_and_not_read(void **state)
{
    (void)state;
    char path[256];
    fault_t fault;
    safetensors_t file;
    float value;
    write_raw(files_path(path, "old.safetensors"),
              "{" ENTRY("mask", "U8", "[1,1,3]", "[0,3]") "," ENTRY("w", "F16", "[1]", "[3,5]") "}", 5);
    assert_true(safetensors_open(&file, "--init", path, &fault));
    assert_false(safetensors_read(&file, safetensors_find(&file, "mask"), 0, 1, &value, &fault));
    assert_non_null(strstr(fault.text, "mask: \"dtype\" is none of F32, BF16 and F16"));
    assert_true(safetensors_read(&file, safetensors_find(&file, "w"), 0, 1, &value, &fault));
    assert_true(value == 0);
    safetensors_close(&file);
}

/* Two tensors of 3 GiB each, of which next to nothing is there. */
static void file_above_4_gib_is_read(void **state)
{
    (void)state;
    static const char header[] = "{" ENTRY("a", "F32", "[65536,12288]", "[0,3221225472]") "," ENTRY(
        "b", "BF16", "[1610612736]", "[3221225472,6442450944]") "}";
    char path[256];
    uint64_t length = sizeof header - 1, bytes = 6442450944;
    int file = open(files_path(path, "large.safetensors"), O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    if (ftruncate(file, (off_t)(8 + length + bytes)) != 0) {
        close(file);
        skip();
    }
    float last_of_a = 1.25f;
    uint16_t last_of_b = bf16_of_float(-3.5f);
    assert_int_equal(pwrite(file, &length, 8, 0), 8);
    assert_int_equal(pwrite(file, header, length, 8), length);
    assert_int_equal(pwrite(file, &last_of_a, 4, (off_t)(8 + length + 3221225472 - 4)), 4);
    assert_int_equal(pwrite(file, &last_of_b, 2, (off_t)(8 + length + bytes - 2)), 2);
    close(file);
    safetensors_t opened;
    fault_t fault;
    float values[2];
    if (!safetensors_open(&opened, "--init", path, &fault))
        fail_msg("%s", fault.text);
    assert_true(safetensors_read(&opened, safetensors_find(&opened, "a"), 805306366, 2, values, &fault));
    assert_true(values[0] == 0 && values[1] == 1.25f);
    assert_true(safetensors_read(&opened, safetensors_find(&opened, "b"), 1610612734, 2, values, &fault));
    assert_true(values[0] == 0 && values[1] == -3.5f);
    safetensors_close(&opened);
    unlink(path);
}

/* Python's library reads ours, and we read its. */
static void python_agrees(void **state)
{
    (void)state;
    if (system("python3 -c 'import safetensors.numpy, numpy' 2>/dev/null") != 0) {
        print_message("Python's safetensors is not installed\n");
        skip();
    }
    char ours[256], theirs[256], command[1024];
    fault_t fault;
    safetensors_t file;
    safetensors_writer_t writer;
    static const char *const metadata[] = {"format", "pt", NULL};
    stored_t tensors[] = {{.name = "x", .element = ELEMENT_F32, .dimensions = 2, .shape = {3, 5}},
                          {.name = "y", .element = ELEMENT_F32, .dimensions = 1, .shape = {4}}};
    float values[19];
    for (int i = 0; i < 19; i++)
        values[i] = (float)i * 0.25f;
    files_path(ours, "ours.safetensors");
    files_path(theirs, "theirs.safetensors");
    assert_true(safetensors_create(&writer, ours, tensors, 2, metadata, &fault));
    assert_true(safetensors_append(&writer, values, 19, &fault));
    assert_true(safetensors_finish(&writer, &fault));
    snprintf(
        command, sizeof command,
        "python3 -c \"import numpy as n, safetensors.numpy as s; t = s.load_file('%s'); "
        "assert (t['x'] == n.arange(15).reshape(3, 5) / 4).all() and (t['y'] == n.arange(15, 19) / 4).all(); "
        "s.save_file({'h': n.arange(6, dtype=n.float16).reshape(2, 3), 'w': n.arange(7, dtype=n.float32)}, "
        "'%s')\"",
        ours, theirs);
    assert_int_equal(system(command), 0);
    assert_true(safetensors_open(&file, "--init", theirs, &fault));
    for (int i = 0; i < 2; i++) {
        const stored_t *tensor = safetensors_find(&file, i == 0 ? "h" : "w");
        assert_true(safetensors_read(&file, tensor, 0, (size_t)tensor->count, values, &fault));
        for (uint64_t k = 0; k < tensor->count; k++)
            assert_true(values[k] == (float)k);
    }
    safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_elements_have_their_values),
        cmocka_unit_test(rounding_takes_the_nearest),
        cmocka_unit_test(file_written_is_read_again),
        cmocka_unit_test(wrong_number_of_elements_is_refused),
        cmocka_unit_test(headers_are_refused_by_field),
        cmocka_unit_test(other_types_are_listed_and_not_read),
        cmocka_unit_test(file_above_4_gib_is_read),
        cmocka_unit_test(python_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, files_teardown);
}
