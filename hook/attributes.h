/* attributes.h: launches with attributes that can be issued again. For this folder. */
#ifndef EBB_ATTRIBUTES_H
#define EBB_ATTRIBUTES_H

#include "alloc/ebb_alloc.h"

/* Notes a launch's attributes in the operation: whether it is cooperative, and plain. It is that if all of them only say how its
 * blocks are placed and served, and name nothing else: no event, no other launch, no memory. */
void ebb_attributes_note(ebb_operation_t *operation, const CUlaunchAttribute *attributes, unsigned count);

#endif
