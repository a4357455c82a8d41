#include "ckpt/run/profile/profile.h"

#include <stdlib.h>

#include "alloc/base/table.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

/* Steps in which a word has to stay unchanged. */
enum { LEAST_STEPS = 2, NAMES = ~0u };

/* Of a word; with param_offset NAMES, of the function. */
typedef struct fact {
    uint64_t key; /* of function and param_offset */
    bool writes;
    uint32_t steps, last_step;
    const char *name;
} fact_t;

struct ebb_knowledge {
    ebb_table_t facts;
    uint64_t unloaded; /* modules, when it was filled */
};
const size_t ebb_part_knowledge = sizeof(struct ebb_knowledge);

/* NULL: no memory; what is not known counts as a writer. */
static fact_t *fact_of(ebb_device_t *dev, CUfunction function, uint32_t offset)
{
    struct ebb_knowledge *know = dev->run->knowledge;
    if (know->unloaded != ebb_modules_unloaded(dev->ebb)) {
        free(know->facts.at);
        *know = (struct ebb_knowledge){.unloaded = ebb_modules_unloaded(dev->ebb)};
    }
    const uint64_t key = ebb_mix(ebb_mix(0, (uintptr_t)function), offset) | 1;
    bool added;
    return ebb_table_add(&know->facts, sizeof(fact_t), key, &added);
}

void ebb_know_write(ebb_device_t *dev, CUfunction function, uint32_t offset)
{
    fact_t *f = fact_of(dev, function, offset);
    if (f)
        f->writes = true;
}

void ebb_know_unchanged(ebb_device_t *dev, CUfunction function, uint32_t offset, uint32_t step)
{
    fact_t *f = fact_of(dev, function, offset);
    if (!f)
        return;
    f->steps += f->last_step != step;
    f->last_step = step;
}

ebb_word_t ebb_know_word(ebb_device_t *dev, CUfunction function, uint32_t offset)
{
    const fact_t *f = fact_of(dev, function, offset);
    return !f                        ? EBB_WORD_UNKNOWN
           : f->writes               ? EBB_WORD_WRITES
           : f->steps >= LEAST_STEPS ? EBB_WORD_READS
                                     : EBB_WORD_UNKNOWN;
}

const char *ebb_know_name(ebb_device_t *dev, CUfunction function)
{
    fact_t *f = fact_of(dev, function, NAMES);
    const char *name = f ? f->name : NULL;
    if (!name && !(name = ebb_function_name(dev->ebb, function)))
        name = "?";
    if (f)
        f->name = name;
    return name;
}
