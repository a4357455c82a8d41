/* test_computed.c: ptx_computed FOLDER: a test per opcode and form. In FOLDER are the instructions of all modules that the tests of the
 * translator have built (run_library.c), which run them against references. Of each form of isa.def, with each choice for each group of its
 * modifiers, either one of these was such an instruction, or the translator refuses it, by name. */
#include "ptx_test.h"

#include <dirent.h>

#include "run_library.h"
#include "spell.h"

enum { NUMBERS = 64 };
static bool (*computed)[SG_PTX_GROUPS_MOST][NUMBERS];
static uint32_t form_count;

static void read_file(const char *path)
{
    unsigned form, group, number;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%u %u %u", &form, &group, &number) == 3) {
        assert_true(form < form_count && group < SG_PTX_GROUPS_MOST && number < NUMBERS);
        computed[form][group][number] = true;
    }
    fclose(file);
}

/* With that choice for the group, and some for the others: whether the translator takes it. */
static bool is_translated(const sg_ptx_form_t *form, uint32_t group, uint32_t number, char *line,
                          size_t bytes)
{
    choice_t c;
    uint32_t tries = 0;
    spell_first(&c, form);
    do {
        if (form->group_count && c.number[group] != number)
            continue;
        const char *why = ptx_refusal(&c, line, bytes);
        if (why == NULL)
            return true;
        if (*why && !strstr(why, sg_ptx_opcode_text(form->opcode)))
            fail_msg("%s: \"%s\" does not name it", line, why);
    } while (spell_next(&c) && ++tries < 3000);
    return false;
}

static void every_form_is_computed_or_refused(void **state)
{
    (void)state;
    const sg_ptx_form_t *forms = sg_ptx_forms(NULL);
    char line[8192], name[256];
    uint32_t seen = 0, refused = 0, missing = 0;
    for (uint32_t f = 0; f < form_count; f++)
        for (uint32_t g = 0; g < forms[f].group_count || g == 0; g++) {
            const sg_ptx_group_t *group = forms[f].group_count ? &forms[f].groups[g] : NULL;
            if (group && spell_is_hint(group->kind))
                continue;
            for (uint32_t n = group && !group->optional; n <= (group ? spell_values(group) : 0); n++) {
                if (computed[f][g][n]) {
                    seen++;
                } else if (is_translated(&forms[f], g, n, line, sizeof line)) {
                    missing++;
                    print_message("not computed: %s   (%s)\n", line, sg_ptx_form_text(f, name, sizeof name));
                } else {
                    refused++;
                }
            }
        }
    print_message("of %u forms: %u choices computed, %u refused, %u neither\n", form_count, seen, refused,
                  missing);
    assert_int_equal(missing, 0);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form_is_computed_or_refused)};
    char path[4096];
    DIR *folder = count == 2 ? opendir(arguments[1]) : NULL;
    sg_ptx_forms(&form_count);
    computed = calloc(form_count, sizeof *computed);
    if (folder == NULL || computed == NULL)
        return 1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", arguments[1], entry->d_name);
        if (entry->d_name[0] != '.')
            read_file(path);
    }
    closedir(folder);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
