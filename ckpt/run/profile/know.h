/* know.h: what is known of kernels whatever the step: through which words of their arguments they write.
 *
 * One observed write makes a word a writer for ever. A word counts as read-only once the memory that it points to has
 * stayed unchanged in several launches over two steps; equality in fewer proves nothing. Kept across lessons and
 * kinds of step; forgotten when modules are unloaded, because functions may then be others.
 *
 * With ebb_lock() held.
 */
#ifndef EBB_KNOW_H
#define EBB_KNOW_H

#include "alloc/ebb_alloc.h"

typedef enum ebb_word { EBB_WORD_UNKNOWN, EBB_WORD_READS, EBB_WORD_WRITES } ebb_word_t;

void ebb_know_write(ebb_device_t *dev, CUfunction function, uint32_t param_offset);
/* It stayed as it was in a launch, in a step with this number (of all steps that were watched). */
void ebb_know_unchanged(ebb_device_t *dev, CUfunction function, uint32_t param_offset, uint32_t step);
ebb_word_t ebb_know_word(ebb_device_t *dev, CUfunction function, uint32_t param_offset);

/* A kernel's name, asked of the driver once. Never NULL. */
const char *ebb_know_name(ebb_device_t *dev, CUfunction function);

#endif
