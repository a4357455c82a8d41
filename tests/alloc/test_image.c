/* What images of device code say of variables: every form that nvcc makes of modules with variables and without,
 * whole and damaged; and what is remembered of them once they are loaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fatbinary_section.h>

#include "alloc/kernel/code.h"

/* With a zero behind it; the caller's to free. */
static unsigned char *read_image(const char *module, const char *form, size_t *bytes)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", IMAGES, module, form);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    unsigned char *image = calloc(1, 1 << 20);
    assert_non_null(image);
    *bytes = fread(image, 1, (1 << 20) - 1, f);
    assert_true(*bytes > 64 && feof(f));
    fclose(f);
    return image;
}

static ebb_image_variables_t look(const char *module, const char *form, bool unpack)
{
    size_t bytes;
    unsigned char *image = read_image(module, form, &bytes);
    ebb_image_variables_t found = ebb_image_variables(image, unpack);
    free(image);
    return found;
}

static void every_form_tells_of_variables(void **state)
{
    (void)state;
    static const char *const form[] = {"fatbin", "packed.fatbin", "cubin", "ptx"};
    for (unsigned i = 0; i < sizeof form / sizeof *form; i++) {
        assert_int_equal(look("variables", form[i], true), EBB_IMAGE_SOME);
        assert_int_equal(look("flag", form[i], true), EBB_IMAGE_SOME);
        assert_int_equal(look("literals", form[i], true), EBB_IMAGE_NONE);
        assert_int_equal(look("headers", form[i], true), EBB_IMAGE_NONE);
    }
}

/* cuBLAS writes cubins into its own buffers while it runs (nvjet). */
static void cubin_lies_anywhere(void **state)
{
    (void)state;
    static const char *const module[] = {"literals", "variables"};
    for (unsigned m = 0; m < 2; m++) {
        size_t bytes;
        unsigned char *image = read_image(module[m], "cubin", &bytes), *moved = malloc(bytes + 8);
        assert_non_null(moved);
        for (unsigned by = 0; by < 8; by++) {
            memcpy(moved + by, image, bytes);
            assert_int_equal(ebb_image_variables(moved + by, false), m ? EBB_IMAGE_SOME : EBB_IMAGE_NONE);
        }
        free(moved);
        free(image);
    }
}

static void constants_are_told_by_name_and_size(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
        bool constant;
    } cases[] = {
        {"$str$16", 92, true},
        {"__unnamed_1", 15, true},
        {"__cudart_i2opi_f", 24, true},
        {"precalc_xorwow_matrix", 102400, true},
        {"_$_str4", 3, true},
        {"__const_$__Z1kPi_$_t", 16, true},
        {"__PRETTY_FUNCTION___$__Z1kPi", 14, true},
        {"printfFormat_0", 34, true},
        {"printfFormat_now", 34, false},
        {"blockIdx", 1, true},
        {"blockIdx", 4, false},
        {"_ZN6thrust6deviceE", 1, true},
        {"_ZN34_INTERNAL_b36080e7_4_t_cu_66a49c834cuda3std3__45__cpo5beginE", 1, true},
        {"_ZN53_INTERNAL_e135e859_22_cutlass_shader_base_cu_b371cb214cute1_E", 1, true},
        {"_ZN34_INTERNAL_b36080e7_4_t_cu_66a49c834cuda3std3__45__cpo5beginE", 4, false},
        {"_ZN34_INTERNAL_b36080e7_4_t_cu_66a49c834cuda5otherE", 1, false},
        {"_ZN34_INTERNAL_b36080e7_4_t_cu_66a49c835stateE", 1, false},
        {"_ZN9thrusters5stateE", 1, false},
        {"_ZN99thrust", 1, false},
        {"_ZN", 1, false},
        {"thrust", 1, false},
        {"counter", 4, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ebb_image_is_constant(cases[i].name, cases[i].bytes), cases[i].constant);
}

static void ptx_declares_variables_behind_no_ptr(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ebb_image_variables_t found;
    } cases[] = {
        {".version 9.0\n.visible .entry k(\n\t.param .u64 .ptr .global .align 1 k_param_0\n)",
         EBB_IMAGE_NONE},
        {".version 9.0\n.entry k(.param .u64 .ptr\n\t .global .align 1 k_param_0)", EBB_IMAGE_NONE},
        {".version 9.0\n.visible .global .align 4 .u32 count;", EBB_IMAGE_SOME},
        {".global .align 4 .u32 count;\n.version 9.0", EBB_IMAGE_SOME},
        {".version 9.0\n.global .align 1 .b8 assertFile_0[2] = {97};", EBB_IMAGE_NONE},
        {".version 9.0\n.global .align 1 .b8 threadIdx[1];", EBB_IMAGE_NONE},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ebb_image_variables(cases[i].text, true), cases[i].found);
}

static void packed_image_is_left_for_later(void **state)
{
    (void)state;
    assert_int_equal(look("variables", "packed.fatbin", false), EBB_IMAGE_PACKED);
    assert_int_equal(look("literals", "packed.fatbin", false), EBB_IMAGE_PACKED);
    assert_int_equal(look("literals", "fatbin", false), EBB_IMAGE_NONE);
}

/* What nvcc puts into a program's section .nvFatBinSegment. */
static void wrapper_leads_to_its_image(void **state)
{
    (void)state;
    size_t bytes;
    void *fat = read_image("variables", "fatbin", &bytes);
    const __fatBinC_Wrapper_t wrapper = {FATBINC_MAGIC, 1, fat, NULL};
    assert_int_equal(ebb_image_variables(&wrapper, true), EBB_IMAGE_SOME);
    free(fat);
}

/* Any answer will do but a crash and, of the module with a variable, "none" where the damage hides no part. */
/* Seen by the address sanitizer: nothing behind the end of a text is read. */
static void text_may_be_shorter_than_a_magic_number(void **state)
{
    (void)state;
    for (size_t length = 0; length < 4; length++) {
        char *text = calloc(length + 1, 1);
        assert_non_null(text);
        memset(text, 0x7f, length); /* as an ELF file begins */
        assert_int_equal(ebb_image_variables(text, true), EBB_IMAGE_UNKNOWN);
        free(text);
    }
}

static void damaged_image_is_survived(void **state)
{
    (void)state;
    unsigned answers[4] = {0};
    srand(7);
    for (int round = 0; round < 3000; round++) {
        size_t bytes;
        unsigned char *image = read_image("variables", round % 2 ? "fatbin" : "packed.fatbin", &bytes);
        for (int k = rand() % 4; k >= 0; k--)
            image[16 + (size_t)rand() % (round % 3 ? bytes - 16 : 100)] ^= (unsigned char)(1 << rand() % 8);
        answers[ebb_image_variables(image, true)]++;
        free(image);
    }
    print_message("seed 7: %u none, %u some, %u unknown\n", answers[EBB_IMAGE_NONE], answers[EBB_IMAGE_SOME],
                  answers[EBB_IMAGE_UNKNOWN]);
    assert_true(answers[EBB_IMAGE_SOME] > 0 && answers[EBB_IMAGE_UNKNOWN] > 0);
    assert_int_equal(answers[EBB_IMAGE_PACKED], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_tells_of_variables),
        cmocka_unit_test(cubin_lies_anywhere),
        cmocka_unit_test(constants_are_told_by_name_and_size),
        cmocka_unit_test(ptx_declares_variables_behind_no_ptr),
        cmocka_unit_test(packed_image_is_left_for_later),
        cmocka_unit_test(wrapper_leads_to_its_image),
        cmocka_unit_test(text_may_be_shorter_than_a_magic_number),
        cmocka_unit_test(damaged_image_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
