/* args.c: what operations touch: a launch by its arguments and attributes, others by the addresses that they name.
 *
 * Types are not known at this boundary, only offsets and sizes; so every aligned word
 * that could be a pointer is looked up. A number that happens to lie in a buffer makes an access too many,
 * never one too few. A word that lies in the arena but in no live buffer is none: whatever is there is a
 * freed buffer, which the program may not touch, and most often it is not a pointer at all but what an
 * earlier one has left in the padding of a struct. */
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "alloc/kernel/kernel.h"
#include "hook/internal.h"

/* ---- arguments ---- */

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
    const unsigned char *buffer = NULL;
    size_t bytes = 0;
    for (void **at = extra; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
        if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = at[1];
        else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)at[1];
        else
            return false;
    }
    /* It may end early: NCCL passes what it has filled in of 4096 bytes (kernelArgsSize in its enqueue.cc; H200, driver 580.159.04). */
    if (params || bytes > s->param_bytes || (bytes && !buffer))
        return false;
    if (s->has_gaps || bytes < s->param_bytes)
        memset(block, 0, s->param_bytes);
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct ebb_param *p = &s->params[i];
        const size_t left = bytes > p->offset_bytes ? bytes - p->offset_bytes : 0;
        if (left)
            memcpy(block + p->offset_bytes, buffer + p->offset_bytes,
                   left < p->size_bytes ? left : p->size_bytes);
    }
    return true;
}

static bool add_access(ebb_t *ebb, ebb_operation_t *op, CUdeviceptr address, uint32_t param_offset)
{
    if (!ebb_arena_contains(ebb, address))
        return true;
    ebb_buffer_t *b = ebb_buffer_at(ebb, address);
    if (b)
        op->access[op->access_count++] =
            (ebb_access_t){.buffer = b, .offset_bytes = address - b->address, .param_offset = param_offset};
    return b != NULL;
}

bool ebb_access_add_span(ebb_t *ebb, ebb_operation_t *op, CUdeviceptr address, size_t bytes,
                         uint32_t param_offset)
{
    uint32_t before = op->access_count;
    if (!add_access(ebb, op, address, param_offset))
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
static void scan_tensor_maps(ebb_t *ebb, ebb_operation_t *op, const unsigned char *block,
                             const struct ebb_param *param)
{
    const size_t end = (size_t)param->offset_bytes + param->size_bytes;
    for (size_t at = param->offset_bytes; at + EBB_TENSOR_MAP_BYTES <= end; at += EBB_TENSOR_MAP_ALIGN) {
        CUdeviceptr address = ebb_tensor_map_address(ebb, block + at);
        if (!address)
            continue;
        forget_words(op, at, at + EBB_TENSOR_MAP_BYTES);
        add_access(ebb, op, address, (uint32_t)at);
        if (op->map_count < EBB_TENSOR_MAPS && ebb_driver.cuTensorMapReplaceAddress)
            op->map_at[op->map_count++] = (uint16_t)at;
        else
            op->plain = false;
    }
}

void ebb_args_scan(ebb_t *ebb, ebb_operation_t *op, const ebb_signature_t *s, const unsigned char *block,
                   ebb_access_t *access)
{
    const CUdeviceptr base = ebb->arena.base, end = ebb->arena.slots * EBB_CHUNK_BYTES;
    const size_t bytes = s->param_bytes;
    op->access = access;
    for (size_t at = 0; at + sizeof(CUdeviceptr) <= bytes; at += sizeof(CUdeviceptr)) {
        CUdeviceptr word;
        memcpy(&word, block + at, sizeof word);
        if (word - base >= end)
            continue;
        const ebb_range_t *r = ebb_arena_range(ebb, word);
        ebb_buffer_t *b = r && !r->slab ? r->buffer : ebb_buffer_at(ebb, word);
        if (b)
            access[op->access_count++] =
                (ebb_access_t){.buffer = b, .offset_bytes = word - b->address, .param_offset = (uint32_t)at};
    }
    for (uint32_t i = 0; ebb->tensor_maps.count && i < s->param_count; i++)
        scan_tensor_maps(ebb, op, block, &s->params[i]);
}

/* ---- all that a launch reaches ---- */

/* What is there stays. */
static bool make_room(ebb_args_t *args, size_t bytes, uint32_t accesses)
{
    if (bytes <= args->room)
        return true;
    unsigned char *block = malloc(bytes);
    ebb_access_t *access = malloc(EBB_ARGS_ROOM(bytes) * sizeof *access);
    if (!block || !access) {
        free(block);
        free(access);
        return false;
    }
    memcpy(block, args->block, args->room);
    memcpy(access, args->access, accesses * sizeof *access);
    ebb_args_end(args);
    args->block = block;
    args->access = access;
    args->room = bytes;
    return true;
}

bool ebb_args_begin(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op, const ebb_signature_t *s,
                    void **params, void **extra)
{
    args->block = args->usual_block;
    args->access = args->usual_access;
    args->room = sizeof args->usual_block;
    if (!s || !make_room(args, s->param_bytes, 0) || !ebb_args_pack(s, args->block, params, extra))
        return false;
    op->params = args->block;
    op->param_bytes = s->param_bytes;
    op->structures = s->has_structures;
    ebb_args_scan(ebb, op, s, args->block, args->access);
    return true;
}

void ebb_args_name(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op, const CUdeviceptr *pointer,
                   uint32_t count)
{
    const size_t own = op->param_bytes, behind = (own + 7) / 8 * 8, bytes = behind + count * sizeof *pointer;
    if (!make_room(args, bytes, op->access_count)) {
        op->opaque = true;
        return;
    }
    memset(args->block + own, 0, behind - own);
    memcpy(args->block + behind, pointer, count * sizeof *pointer);
    op->named_at = op->named_at ? op->named_at : (uint32_t)behind;
    op->params = args->block;
    op->param_bytes = bytes;
    op->access = args->access;
    for (uint32_t i = 0; i < count; i++)
        add_access(ebb, op, pointer[i], (uint32_t)(behind + i * sizeof *pointer));
}

void ebb_args_follow(ebb_t *ebb, ebb_args_t *args, ebb_operation_t *op)
{
    const CUdeviceptr *found = NULL;
    const uint32_t count = ebb_tables_follow(ebb, op, &found);
    op->plain &= !count;
    if (count)
        ebb_args_name(ebb, args, op, found, count);
}

void ebb_args_end(ebb_args_t *args)
{
    if (args->block == args->usual_block)
        return;
    free(args->block);
    free(args->access);
}

/* ---- attributes ---- */

enum { MOST = 16 };

/* The bytes of its value that count, the rest of the union is anything; -1: not to be issued again. */
static int value_bytes(const CUlaunchAttribute *a)
{
    const CUlaunchAttributeValue *v = &a->value;
    switch ((int)a->id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
        return 0;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        return sizeof v->clusterDim;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return sizeof v->priority;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return sizeof v->memSyncDomainMap;
    default:
        return -1;
    }
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
    return hash;
}

void ebb_attributes_note(ebb_operation_t *op, const CUlaunchAttribute *attributes, unsigned count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (unsigned i = 0; attributes && i < count; i++)
        op->cooperative |=
            attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attributes[i].value.cooperative;
    op->plain = count <= MOST && (!count || attributes);
    for (unsigned i = 0; op->plain && i < count; i++) {
        const int bytes = value_bytes(&attributes[i]);
        op->plain = bytes >= 0;
        hash = mix(hash, &attributes[i].id, sizeof attributes[i].id);
        hash = mix(hash, &attributes[i].value, bytes > 0 ? (size_t)bytes : 0);
    }
    if (!op->plain || !count)
        return;
    op->attribute = attributes;
    op->attribute_count = count;
    op->attributes = hash | 1;
}

/* ---- operations that are neither launches nor linear copies and memsets ---- */

bool ebb_touches(const CUdeviceptr *address, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (ebb_arena_contains(&ebb_global, address[i]))
            return true;
    return false;
}

/* What neither ebb nor the driver knows is the host's. */
bool ebb_is_device_memory(CUdeviceptr address)
{
    unsigned type = 0, managed = 1;
    CUpointer_attribute attribute[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *out[] = {&type, &managed};
    return ebb_arena_contains(&ebb_global, address) ||
           (ebb_driver.cuPointerGetAttributes &&
            !ebb_driver.cuPointerGetAttributes(2, attribute, out, address) && type == CU_MEMORYTYPE_DEVICE &&
            !managed);
}

bool ebb_host_waits(const CUdeviceptr *address, size_t count)
{
    bool waits = !ebb_have_driver() || ebb_sync_memops(&ebb_global);
    for (size_t i = 0; i < count && !waits; i++)
        waits = !ebb_is_device_memory(address[i]);
    return waits;
}

CUresult ebb_issue_other(const ebb_other_t *o, CUresult (*issue)(const void *context), const void *context)
{
    enum { ON_STACK = 16 };
    ebb_device_t *dev = ebb_enter_work();
    if (!dev)
        return issue(context);
    ebb_access_t room[ON_STACK], *access = room;
    if (o->count > ON_STACK)
        access = malloc(o->count * sizeof *access);
    ebb_operation_t op = {.kind = EBB_OTHER,
                          .stream = ebb_stream_of(dev, o->stream),
                          .name = o->name,
                          .bytes = o->bytes,
                          .access = access,
                          .opaque = !access};
    bool known = true;
    for (size_t i = 0; access && i < o->count; i++)
        known =
            ebb_access_add_span(dev->ebb, &op, o->address[i], o->span ? o->span[i] : 0, (uint32_t)i) && known;
    CUresult result = known || !o->bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; o->copies && i < o->count && !result; i += 2)
        result = (CUresult)ebb_table_written(dev->ebb, o->address[i], o->address[i + 1], o->span[i], false);
    if (!result)
        result = ebb_issue(&op, issue, context);
    ebb_unlock();
    if (access != room)
        free(access);
    return result;
}
