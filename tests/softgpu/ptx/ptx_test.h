/* ptx_test.h: modules for tests. */
#ifndef PTX_TEST_H
#define PTX_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/ptx/ptx.h"

#define PTX_HEAD ".version 8.4\n.target sm_90a\n.address_size 64\n"

/* What instructions under test refer to: each register's name is its type's with a number, %b32_0 to %b32_299. The first
 * instruction of the kernel is in line PTX_FIRST_LINE. */
#define PTX_FIRST_LINE 22
#define PTX_KERNEL                                                                                           \
    PTX_HEAD ".extern .func (.param .b32 r) callee(.param .b64 a);\n"                                        \
             ".global .align 16 .b8 in_global[64];\n"                                                        \
             ".const .align 16 .b8 in_const[64];\n"                                                          \
             ".shared .align 16 .b8 in_shared[64];\n"                                                        \
             ".visible .entry kernel(.param .u64 in_param)\n"                                                \
             "{\n"                                                                                           \
             ".reg .pred %pred_<300>;\n"                                                                     \
             ".reg .b16 %b16_<300>;\n"                                                                       \
             ".reg .b32 %b32_<300>; .reg .s32 %s32_<300>; .reg .u32 %u32_<300>;\n"                           \
             ".reg .b64 %b64_<300>; .reg .s64 %s64_<300>; .reg .u64 %u64_<300>;\n"                           \
             ".reg .b128 %b128_<300>; .reg .b8 %b8_<300>; .reg .u16 %u16_<300>; .reg .s16 %s16_<300>;\n"     \
             ".reg .f32 %f32_<300>; .reg .f64 %f64_<300>; .reg .f16 %f16_<300>; .reg .f16x2 %f16x2_<300>;\n" \
             ".param .b64 out_param; .param .b32 back_param;\n"                                              \
             ".local .align 16 .b8 in_local[64];\n"                                                          \
             "prototype: .callprototype (.param .b32 _) _ (.param .b64 _);\n"                                \
             "table: .branchtargets here, there;\n"                                                          \
             "here:\n"                                                                                       \
             "there:\n"

/* Reads PTX_KERNEL and one more line. */
static inline bool ptx_read_line(const char *line, sg_ptx_module_t **module, sg_ptx_error_t *error)
{
    static char text[16384];
    int bytes = snprintf(text, sizeof text, "%s%s\n}\n", PTX_KERNEL, line);
    assert_in_range(bytes, 1, sizeof text - 1);
    return sg_ptx_read(text, (size_t)bytes, module, error);
}

static inline const sg_ptx_function_t *ptx_function(const sg_ptx_module_t *module, const char *name)
{
    for (uint32_t i = 0; i < module->function_count; i++)
        if (strcmp(module->functions[i]->name, name) == 0)
            return module->functions[i];
    fail_msg("no function %s", name);
    return NULL;
}

static inline sg_ptx_module_t *ptx_read(const char *text)
{
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    if (!sg_ptx_read(text, strlen(text), &module, &error))
        fail_msg("%s", error.text);
    return module;
}

/* The text is refused, and why. */
static inline void ptx_refused(const char *text, const char *why)
{
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    if (sg_ptx_read(text, strlen(text), &module, &error))
        fail_msg("read, though wrong: %s", text);
    assert_null(module);
    if (strstr(error.text, why) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", error.text, why);
}

#endif
