/* args.c: see args.h. Types are not known at this boundary, only offsets and sizes; so every aligned word
 * that could be a pointer is looked up. A number that happens to lie in a buffer makes an access too many,
 * never one too few. A word that lies in the arena but in no live buffer is none: whatever is there is a
 * freed buffer, which the program may not touch, and most often it is not a pointer at all but what an
 * earlier one has left in the padding of a struct. */
#include "hook/args.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/arena.h"
#include "alloc/base/driver.h"
#include "alloc/kernel/function.h"
#include "alloc/kernel/tensor_map.h"

enum { MOST_PARAMS = 1023 }; /* of a kernel with more nothing is known */

/* Open addressing by the function's address; grows, and is emptied when a module goes. */
static struct {
    ebb_signature_t *slot;
    size_t count, capacity; /* capacity: 0 or a power of two */
    bool grew;
} table;

static size_t place_of(const ebb_signature_t *slots, size_t capacity, CUfunction f)
{
    size_t i = (size_t)((uintptr_t)f * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
    while (slots[i].function && slots[i].function != f)
        i = (i + 1) & (capacity - 1);
    return i;
}

static bool grow(void)
{
    size_t capacity = table.capacity ? 2 * table.capacity : 256;
    ebb_signature_t *slots = calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < table.capacity; i++)
        if (table.slot[i].function)
            slots[place_of(slots, capacity, table.slot[i].function)] = table.slot[i];
    free(table.slot);
    table.slot = slots;
    table.capacity = capacity;
    return true;
}

/* False: the driver does not tell. */
static bool list_params(CUfunction f, struct ebb_param *params, size_t room, size_t *count)
{
    CUresult result = CUDA_SUCCESS;
    size_t n = 0, offset, size;
    while (n < room && !(result = ebb_function_ask_param(f, n, &offset, &size)))
        params[n++] = (struct ebb_param){(uint32_t)offset, (uint32_t)size};
    *count = n;
    /* The driver ends the list with INVALID_VALUE. */
    return n < room && result == CUDA_ERROR_INVALID_VALUE;
}

/* Where a kernel's constant bank has its parameters (compiled with nvcc 13.0, EIATTR_PARAM_CBANK in .nv.info). 0: not known. */
static size_t bank_begin(void)
{
    CUdevice device;
    int major = 0;
    if (ebb_driver.cuCtxGetDevice(&device) ||
        ebb_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        return 0;
    return major == 7 || major == 8 ? 0x160 : major == 9 ? 0x210 : major >= 10 && major <= 12 ? 0x380 : 0;
}

/* Its address is aligned, and not its offset, if its type has an alignment that goes with both. */
static bool is_shifted(const struct ebb_param *p, size_t begin)
{
    for (size_t align = 32; align <= 128; align *= 2)
        if (p->size_bytes && p->size_bytes % align == 0 &&
            (!begin || ((begin + p->offset_bytes) % align == 0 && p->offset_bytes % align)))
            return true;
    return false;
}

static bool ask_driver(CUfunction f, ebb_signature_t *out)
{
    struct ebb_param params[MOST_PARAMS + 1], *copy;
    size_t n = 0;
    if (!list_params(f, params, MOST_PARAMS + 1, &n))
        return false;
    copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, params, n * sizeof *copy);
    size_t end = n ? params[n - 1].offset_bytes + (size_t)params[n - 1].size_bytes : 0, filled = 0;
    const size_t begin = bank_begin();
    bool is_plain = true, has_structures = false, shifted = false;
    for (size_t i = 0; i < n; i++) {
        has_structures |= params[i].size_bytes > 8;
        shifted |= is_shifted(&params[i], begin);
        filled += params[i].size_bytes;
        is_plain &= params[i].size_bytes == 8 && params[i].offset_bytes == 8 * i;
    }
    *out = (ebb_signature_t){.function = f,
                             .param_count = (uint32_t)n,
                             .param_bytes = (uint32_t)end,
                             .has_gaps = filled < end,
                             .is_plain = is_plain,
                             .has_structures = has_structures,
                             .is_shifted = shifted,
                             .params = copy};
    return true;
}

ebb_signature_t *ebb_signature_of(CUfunction f)
{
    ebb_signature_t *s = table.capacity ? &table.slot[place_of(table.slot, table.capacity, f)] : NULL;
    if (s && s->function)
        return s;
    if (2 * table.count >= table.capacity && !grow())
        return NULL;
    s = &table.slot[place_of(table.slot, table.capacity, f)];
    if (!f || !ask_driver(f, s))
        return NULL;
    table.count++;
    table.grew = true;
    return s;
}

bool ebb_signatures_grew(void)
{
    const bool grew = table.grew;
    table.grew = false;
    return grew;
}

void ebb_signatures_forget(void)
{
    for (size_t i = 0; i < table.capacity; i++)
        free((void *)table.slot[i].params);
    free(table.slot);
    memset(&table, 0, sizeof table);
}

bool ebb_function_parameter(CUfunction f, uint32_t index, uint32_t *offset, uint32_t *size)
{
    const ebb_signature_t *s = ebb_signature_of(f);
    if (!s || index >= s->param_count)
        return false;
    *offset = s->params[index].offset_bytes;
    *size = s->params[index].size_bytes;
    return true;
}

CUresult ebb_launch_block(const CUlaunchConfig *config, CUfunction f, const unsigned char *block)
{
    void *params[MOST_PARAMS];
    const ebb_signature_t *s = ebb_signature_of(f);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY; /* it was known when the block was made */
    for (uint32_t i = 0; i < s->param_count; i++)
        params[i] = (unsigned char *)(uintptr_t)block + s->params[i].offset_bytes;
    return ebb_driver.cuLaunchKernelEx ? ebb_driver.cuLaunchKernelEx(config, f, params, NULL)
                                       : CUDA_ERROR_NOT_SUPPORTED;
}

bool ebb_args_pack(const ebb_signature_t *s, unsigned char *block, void **params, void **extra)
{
    if (params && !extra && s->is_plain) {
        for (uint32_t i = 0; i < s->param_count; i++)
            memcpy(block + 8 * i, params[i], 8);
        return true;
    }
    if (params && !extra) {
        if (s->has_gaps) /* what lies between arguments must not look like one */
            memset(block, 0, s->param_bytes);
        for (uint32_t i = 0; i < s->param_count; i++) {
            unsigned char *to = block + s->params[i].offset_bytes;
            if (s->params[i].size_bytes == 8)
                memcpy(to, params[i], 8);
            else if (s->params[i].size_bytes == 4)
                memcpy(to, params[i], 4);
            else
                memcpy(to, params[i], s->params[i].size_bytes);
        }
        return true;
    }
    const void *buffer = NULL;
    size_t bytes = 0;
    for (void **at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
        if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = at[1];
        else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)at[1];
        else
            return false;
    }
    if (params || s->is_shifted || (s->param_bytes && (!buffer || bytes < s->param_bytes)) ||
        (!s->param_bytes && bytes))
        return false;
    if (s->param_bytes)
        memcpy(block, buffer, s->param_bytes);
    return true;
}

bool ebb_access_add(ebb_operation_t *op, CUdeviceptr address, uint32_t param_offset)
{
    if (!ebb_arena_contains(address))
        return true;
    ebb_buffer_t *b = ebb_buffer_at(address);
    if (b)
        op->access[op->access_count++] =
            (ebb_access_t){.buffer = b, .offset_bytes = address - b->address, .param_offset = param_offset};
    return b != NULL;
}

bool ebb_access_add_span(ebb_operation_t *op, CUdeviceptr address, size_t bytes, uint32_t param_offset)
{
    uint32_t before = op->access_count;
    if (!ebb_access_add(op, address, param_offset))
        return false;
    const ebb_access_t *a = &op->access[before];
    return op->access_count == before ||
           (a->offset_bytes <= a->buffer->bytes && bytes <= a->buffer->bytes - a->offset_bytes);
}

/* Whatever its words look like, it has one address. */
static void forget_words(ebb_operation_t *op, size_t begin, size_t end)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < op->access_count; i++)
        if (op->access[i].param_offset < begin || op->access[i].param_offset >= end)
            op->access[kept++] = op->access[i];
    op->access_count = kept;
}

/* In one parameter, a map or a structure that contains some. Wherever the block has it, its own address is aligned as a map is. */
static void scan_tensor_maps(ebb_operation_t *op, const unsigned char *block, const struct ebb_param *param)
{
    const size_t end = (size_t)param->offset_bytes + param->size_bytes;
    for (size_t at = param->offset_bytes; at + EBB_TENSOR_MAP_BYTES <= end; at += EBB_TENSOR_MAP_ALIGN) {
        CUdeviceptr address = ebb_tensor_map_address(block + at);
        if (!address)
            continue;
        forget_words(op, at, at + EBB_TENSOR_MAP_BYTES);
        ebb_access_add(op, address, (uint32_t)at);
        if (op->map_count < EBB_TENSOR_MAPS && ebb_driver.cuTensorMapReplaceAddress)
            op->map_at[op->map_count++] = (uint16_t)at;
        else
            op->plain = false;
    }
}

void ebb_args_scan(ebb_operation_t *op, const ebb_signature_t *s, const unsigned char *block,
                   ebb_access_t *access)
{
    const CUdeviceptr base = ebb_arena.base, end = ebb_arena.slots * EBB_CHUNK_BYTES;
    const size_t bytes = s->param_bytes;
    op->access = access;
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr word;
        memcpy(&word, block + at, sizeof word);
        if (word - base >= end)
            continue;
        const ebb_range_t *r = ebb_arena_range(word);
        ebb_buffer_t *b = r && !r->slab ? r->buffer : ebb_buffer_at(word);
        if (b)
            access[op->access_count++] =
                (ebb_access_t){.buffer = b, .offset_bytes = word - b->address, .param_offset = (uint32_t)at};
    }
    for (uint32_t i = 0; ebb_tensor_map_count && i < s->param_count; i++)
        scan_tensor_maps(op, block, &s->params[i]);
}
