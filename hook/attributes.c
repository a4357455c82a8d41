#include "hook/attributes.h"

#include <string.h>

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
