#include "ckpt/run/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

/* Launches in which a word has to stay unchanged, over two steps. */
enum { LEAST_LAUNCHES = 2, NAMES = ~0u };

/* Of a word; with param_offset NAMES, of the function. Open addressing. */
typedef struct fact {
    CUfunction function; /* NULL: free */
    uint32_t param_offset;
    bool writes;
    uint32_t launches, steps, last_step;
    const char *name;
} fact_t;

struct ebb_knowledge {
    fact_t *fact;
    size_t room, count;
    uint64_t unloaded; /* modules, when it was filled */
};
const size_t ebb_part_knowledge = sizeof(struct ebb_knowledge);

static fact_t *slot_of(fact_t *table, size_t room, CUfunction function, uint32_t offset)
{
    size_t i = (size_t)(((uintptr_t)function + offset) * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (table[i].function && (table[i].function != function || table[i].param_offset != offset))
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool grow(struct ebb_knowledge *know)
{
    size_t room = know->room ? 2 * know->room : 1024;
    fact_t *table = calloc(room, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < know->room; i++)
        if (know->fact[i].function)
            *slot_of(table, room, know->fact[i].function, know->fact[i].param_offset) = know->fact[i];
    free(know->fact);
    know->fact = table;
    know->room = room;
    return true;
}

/* NULL: no memory; what is not known counts as a writer. */
static fact_t *fact_of(ebb_device_t *dev, CUfunction function, uint32_t offset)
{
    struct ebb_knowledge *know = dev->run->knowledge;
    if (know->unloaded != ebb_modules_unloaded(dev->ebb)) {
        free(know->fact);
        memset(know, 0, sizeof *know);
        know->unloaded = ebb_modules_unloaded(dev->ebb);
    }
    if (2 * know->count >= know->room && !grow(know))
        return NULL;
    fact_t *f = slot_of(know->fact, know->room, function, offset);
    if (!f->function) {
        *f = (fact_t){.function = function, .param_offset = offset};
        know->count++;
    }
    return f;
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
    f->launches++;
    f->steps += f->last_step != step;
    f->last_step = step;
}

ebb_word_t ebb_know_word(ebb_device_t *dev, CUfunction function, uint32_t offset)
{
    const fact_t *f = fact_of(dev, function, offset);
    return !f                                               ? EBB_WORD_UNKNOWN
           : f->writes                                      ? EBB_WORD_WRITES
           : f->steps >= 2 && f->launches >= LEAST_LAUNCHES ? EBB_WORD_READS
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
