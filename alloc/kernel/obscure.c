#include "alloc/kernel/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "alloc/device.h"

/* ---- by name ---- */

const ebb_obscure_t *ebb_obscure_kernels(ebb_t *ebb)
{
    return ebb->obscure;
}

/* Whether one of the user's words, separated by commas, is in the name. */
static bool is_vouched_for(const char *name)
{
    char words[sizeof ebb_options.harmless], *save;
    memcpy(words, ebb_options.harmless, sizeof words);
    for (char *word = strtok_r(words, ",", &save); word; word = strtok_r(NULL, ",", &save))
        if (strstr(name, word))
            return true;
    return false;
}

static void count(ebb_t *ebb, const char *name, const char *why)
{
    ebb_obscure_t *o = ebb->obscure;
    while (o && strcmp(o->name, name))
        o = o->next;
    if (!o && (o = calloc(1, sizeof *o + strlen(name) + 1))) {
        memcpy(o->name, name, strlen(name) + 1);
        o->why = why;
        o->next = ebb->obscure;
        ebb->obscure = o;
        ebb_log(EBB_WARN,
                "kernel %s: %s, and no argument leads to memory that ebb knows, so it counts as touching "
                "everything: all buffers must be on the device, and no step with it is learned (if it "
                "touches none of them, EBB_HARMLESS=NAME says so)",
                name, why);
    }
    if (o)
        o->launches++;
}

/* ---- what is known of it ---- */

typedef enum view {
    NEW,     /* not asked yet */
    CLEAR,   /* takes addresses as they are, or is vouched for */
    FILE_OK, /* its code is from a file, and can be read */
    DARK
} view_t;

static view_t view_of(ebb_t *ebb, CUfunction f)
{
    const char *name = *ebb_options.harmless ? ebb_function_name(ebb, f) : NULL;
    if (name && is_vouched_for(name))
        return CLEAR;
    return ebb_module_is_readable(ebb, ebb_function_owner(ebb, f)) ? FILE_OK : DARK;
}

/* ---- its arguments ---- */

typedef enum word { NUMBER, ELSEWHERE, UNEXPLAINED } word_t;

/* Memory that the driver knows and ebb need not: the host's or managed. Of other memory on the device ebb knows what is in it only if it
 * has seen it made. */
static bool is_reachable_by_host(CUdeviceptr address)
{
    unsigned type = 0, managed = 0;
    CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *out[] = {&type, &managed};
    return !ebb_driver.cuPointerGetAttributes(2, attribute, out, address) &&
           (type == CU_MEMORYTYPE_HOST || managed);
}

static word_t word_at(ebb_t *ebb, const unsigned char *at)
{
    CUdeviceptr word;
    memcpy(&word, at, sizeof word);
    if (word + ((CUdeviceptr)1 << 31) < (CUdeviceptr)3 << 31) /* from -2^31 to 2^32 */
        return NUMBER;
    if (ebb_arena_contains(ebb, word)) /* freed */
        return NUMBER;
    return ebb_foreign_at(ebb, word) || is_reachable_by_host(word) ? ELSEWHERE : UNEXPLAINED;
}

/* NULL: they are explained. */
static const char *what_is_hidden(ebb_t *ebb, const ebb_signature_t *s, const unsigned char *block)
{
    unsigned unexplained = 0, elsewhere = 0;
    bool large = false;
    for (uint32_t i = 0; i < s->param_count; i++) {
        const uint32_t begin = s->params[i].offset_bytes, end = begin + s->params[i].size_bytes;
        large |= s->params[i].size_bytes >= EBB_TENSOR_MAP_BYTES;
        for (uint32_t at = (begin + 7) & ~7u; at + 8 <= end; at += 8) {
            const word_t word = word_at(ebb, block + at);
            unexplained += word == UNEXPLAINED;
            elsewhere += word == ELSEWHERE;
        }
    }
    return !unexplained || (elsewhere && !large) ? NULL : "its arguments are no plain numbers";
}

bool ebb_name_communicates(const char *name)
{
    if (!strncmp(name, "_Z", 2))
        name += 2 + strspn(name + 2, "N0123456789");
    return !strncmp(name, "nccl", 4) || !strncmp(name, "nvshmem", 7);
}

bool ebb_function_communicates(ebb_t *ebb, ebb_signature_t *s)
{
    enum { NOT_ASKED, NO, YES };
    if (s->talks == NOT_ASKED) {
        const char *name = ebb_function_name(ebb, s->function);
        s->talks = name && ebb_name_communicates(name) ? YES : NO;
    }
    return s->talks == YES;
}

bool ebb_is_obscure(ebb_t *ebb, ebb_signature_t *s, const ebb_operation_t *op, const unsigned char *block)
{
    if (!ebb->arena.slots) /* ebb serves no device: there is nothing to touch */
        return false;
    if (op->told == EBB_UNTOLD && ebb_function_communicates(ebb, s)) {
        count(ebb, ebb_function_name(ebb, s->function),
              "it was launched by no call of NCCL's that ebb has heard");
        return true;
    }
    if (op->access_count)
        s->view = CLEAR;
    else if (s->view == NEW && s->param_count)
        s->view = (uint8_t)view_of(ebb, s->function);
    if (s->view == CLEAR || !s->param_count)
        return false;
    const char *why = s->view == DARK
                          ? "its code was made at run time, or cannot be read, or ebb has not seen it loading"
                          : what_is_hidden(ebb, s, block);
    const char *name = why ? ebb_function_name(ebb, s->function) : NULL;
    if (why)
        count(ebb, name ? name : "(no name)", why);
    return why != NULL;
}
