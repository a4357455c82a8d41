/* word.h: what else a word of a launch's arguments may be that leads into no buffer of ebb's. With ebb_lock() held.
 */
#ifndef EBB_WORD_H
#define EBB_WORD_H

#include "alloc/ebb_alloc.h"

/* A pointer to memory of CUDA's that ebb does not serve. */
bool ebb_word_is_foreign(ebb_device_t *dev, CUdeviceptr word);

/* Nothing that a kernel could follow: not NULL, which says something, but no address either; who reads there faults. Also where a
 * buffer was that the program has freed: it may not touch it. `asking`: where only the driver knows, it is asked; else that is not called junk. */
bool ebb_word_is_junk(ebb_device_t *dev, CUdeviceptr word, bool asking);

/* What the driver has said of words is asked anew. */
void ebb_words_forget(ebb_t *ebb);

#endif
