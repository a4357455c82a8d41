/* args.c: see args.h. Types are not known at this boundary, only offsets and sizes; so every aligned word
 * that could be a pointer is looked up. A number that happens to lie in a buffer makes an access too many,
 * never one too few. A word that lies in the arena but in no live buffer is none: whatever is there is a
 * freed buffer, which the program may not touch, and most often it is not a pointer at all but what an
 * earlier one has left in the padding of a struct. */
#include "args.h"

#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "driver.h"
#include "tensor_map.h"

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

typedef CUresult (*param_info_fn)(const void *function, size_t index, size_t *offset, size_t *size);

static CUresult function_param(const void *f, size_t index, size_t *offset, size_t *size)
{
    return ebb_driver.cuFuncGetParamInfo((CUfunction)(uintptr_t)f, index, offset, size);
}

static CUresult kernel_param(const void *f, size_t index, size_t *offset, size_t *size)
{
    return ebb_driver.cuKernelGetParamInfo
               ? ebb_driver.cuKernelGetParamInfo((CUkernel)(uintptr_t)f, index, offset, size)
               : CUDA_ERROR_NOT_SUPPORTED;
}

/* False: the driver does not know the function in this form. */
static bool list_params(param_info_fn info, CUfunction f, struct ebb_param *params, size_t room,
                        size_t *count)
{
    CUresult result = CUDA_SUCCESS;
    size_t n = 0, offset, size;
    while (n < room && !(result = info(f, n, &offset, &size)))
        params[n++] = (struct ebb_param){(uint32_t)offset, (uint32_t)size};
    *count = n;
    /* The driver ends the list with INVALID_VALUE. */
    return n < room && result == CUDA_ERROR_INVALID_VALUE;
}

static bool ask_driver(CUfunction f, ebb_signature_t *out)
{
    struct ebb_param params[1024], *copy;
    size_t n = 0, kernel_n;
    bool known = list_params(function_param, f, params, 1024, &n);
    /* What is launched may also be a CUkernel, whose parameters have a question of their own. */
    if ((!known || !n) && list_params(kernel_param, f, params, 1024, &kernel_n)) {
        known = true;
        n = kernel_n;
    }
    if (!known)
        return false;
    copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, params, n * sizeof *copy);
    size_t end = n ? params[n - 1].offset_bytes + (size_t)params[n - 1].size_bytes : 0, filled = 0;
    bool is_plain = true, has_structures = false;
    for (size_t i = 0; i < n; i++) {
        has_structures |= params[i].size_bytes > 8;
        filled += params[i].size_bytes;
        is_plain &= params[i].size_bytes == 8 && params[i].offset_bytes == 8 * i;
    }
    *out = (ebb_signature_t){.function = f,
                             .param_count = (uint32_t)n,
                             .param_bytes = (uint32_t)end,
                             .has_gaps = filled < end,
                             .is_plain = is_plain,
                             .has_structures = has_structures,
                             .params = copy};
    return true;
}

const ebb_signature_t *ebb_signature_of(CUfunction f)
{
    if (2 * table.count >= table.capacity && !grow())
        return NULL;
    ebb_signature_t *s = &table.slot[place_of(table.slot, table.capacity, f)];
    if (!s->function) {
        if (!f || !ask_driver(f, s))
            return NULL;
        table.count++;
        table.grew = true;
    }
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

const char *ebb_function_name(CUfunction f)
{
    const char *name = NULL;
    if (!ebb_driver.cuFuncGetName(&name, f) && name)
        return name;
    return ebb_driver.cuKernelGetName && !ebb_driver.cuKernelGetName(&name, (CUkernel)f) ? name : NULL;
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
    if (params || (s->param_bytes && (!buffer || bytes < s->param_bytes)))
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

static void scan_tensor_maps(ebb_operation_t *op, const unsigned char *block, size_t bytes)
{
    for (size_t at = 0; at + EBB_TENSOR_MAP_BYTES <= bytes; at += EBB_TENSOR_MAP_ALIGN) {
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

void ebb_args_scan(ebb_operation_t *op, const unsigned char *block, size_t bytes, ebb_access_t *access)
{
    const CUdeviceptr base = ebb_arena.base, end = ebb_arena.slots * EBB_CHUNK_BYTES;
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
    if (ebb_tensor_map_count)
        scan_tensor_maps(op, block, bytes);
}
