/* rules.c: which rules are enforced, and how a breach is told. */
#include "softgpu/driver/rules.h"
#include "softgpu/driver/sg.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORTED, UNDEFINED };

static const struct {
    const char *name;
    int hardware;
    const char *text;
} rules[SG_RULE_COUNT] = {
#define RULE(id, name, hardware, text) {name, hardware, text},
    SG_RULES(RULE)
#undef RULE
};

static bool off[SG_RULE_COUNT]; /* constant after sg_rules_init */

static void print_table(void)
{
    for (int i = 0; i < SG_RULE_COUNT; i++)
        fprintf(stderr, "softgpu: rule %-20s %s%s\n", rules[i].name, rules[i].text,
                rules[i].hardware == UNDEFINED ? " (a GPU does not report this)" : "");
}

static void read_word(const char *word, size_t length)
{
    bool disable = *word == '-';
    const char *name = word + disable;
    length -= disable;
    if (!disable && length == 4 && !strncmp(name, "help", 4)) {
        print_table();
        return;
    }
    for (int i = 0; i < SG_RULE_COUNT; i++) {
        if (strlen(rules[i].name) != length || strncmp(rules[i].name, name, length))
            continue;
        if (disable && rules[i].hardware == REPORTED)
            sg_log(1, "SOFTGPU_CHECK: %s is part of the API and cannot be switched off", rules[i].name);
        else
            off[i] = disable;
        return;
    }
    sg_log(1, "SOFTGPU_CHECK: there is no rule '%.*s'; SOFTGPU_CHECK=help lists them", (int)length, name);
}

void sg_rules_init(void)
{
    const char *text = getenv("SOFTGPU_CHECK");
    for (const char *at = text; at && *at;) {
        size_t length = strcspn(at, ",");
        if (length)
            read_word(at, length);
        at += length + (at[length] == ',');
    }
}

bool sg_rule_on(sg_rule_t rule)
{
    return !off[rule];
}

const char *sg_rule_name(sg_rule_t rule)
{
    return rules[rule].name;
}

CUresult sg_broken(sg_rule_t rule, CUresult error, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sg_log(rules[rule].hardware == UNDEFINED ? 1 : 2, "rule %s: %s", rules[rule].name, text);
    return error;
}
