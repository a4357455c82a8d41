/* test_corpus.c: ptx_corpus FILE...: every file is PTX of LLVM's: it is read, all invariants hold, and it is the same after writing
 * and reading again. Without files: skipped, there was no compiler to make any. */
#include "ptx_test.h"

#include "check.h"

static char **files;
static uint32_t file_count;

static char *contents(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        fail_msg("%s cannot be read", path);
    long bytes = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return text;
}

static void corpus_is_read_and_written(void **state)
{
    (void)state;
    static bool seen[UINT16_MAX];
    uint32_t insns = 0, functions = 0, forms = 0;
    for (uint32_t i = 0; i < file_count; i++) {
        char *text = contents(files[i]);
        sg_ptx_module_t *module;
        sg_ptx_error_t error;
        assert_false(sg_ptx_is_of_nvidia(text, strlen(text), NULL));
        if (!sg_ptx_read(text, strlen(text), &module, &error))
            fail_msg("%s: %s", files[i], error.text);
        const char *wrong = ptx_check_module(module);
        if (wrong == NULL)
            wrong = ptx_check_written(module);
        if (wrong != NULL)
            fail_msg("%s: %s", files[i], wrong);
        for (uint32_t f = 0; f < module->function_count; f++) {
            functions += module->functions[f]->defined;
            for (uint32_t n = 0; n < module->functions[f]->insn_count; n++, insns++) {
                uint16_t form = module->functions[f]->insns[n].form;
                forms += !seen[form];
                seen[form] = true;
            }
        }
        sg_ptx_free(module);
        free(text);
    }
    print_message("%u files, %u functions, %u instructions of %u forms\n", file_count, functions, insns,
                  forms);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(corpus_is_read_and_written)};
    files = arguments + 1;
    file_count = (uint32_t)count - 1;
    if (file_count == 0) {
        puts("skipped: no compiler for PTX (Clang with the target nvptx64)");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
