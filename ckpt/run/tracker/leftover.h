/* leftover.h: words of a launch's arguments that the host has not filled in.
 *
 * A structure that goes to a kernel by value is often filled in part: so many shapes, strides, pointers, and the kernel goes by no
 * more. What is left over is what the host's stack remembers: also pointers into buffers, others in each step. Whoever only sees
 * words (hook/args.c) takes each of these for an operand, and no two steps for the same. PyTorch does so (OffsetCalculator,
 * CatArrayBatchedCopy, multi_tensor_apply).
 *
 * Some structures say themselves what is meant (layout.h). Of all others, junk proves. If a word held what nobody can follow
 * (word.h), and the launch came off, that launch did not go by it: it would have faulted. So evidence is gathered of each place of a
 * step, which is a launch of this kernel with this geometry and this many bytes of arguments, behind the same launches. A word that
 * held junk at least twice there is left over, in whatever other launch of the place, from the fourth on, it leads into a buffer; but
 * not in one that says something else for the first time: where a small number (a count, a kind, a flag) that had been the same in all
 * launches is another one, the word may be meant by it. From then on it is left over in launches with that number only once it held
 * junk in one. (More than a few such numbers at once are what another call has left on the stack; what was known of words there is
 * forgotten.)
 *
 * What cannot be told: a kernel that goes by memory (a count on the device) to know which words it goes by, or by a number that has
 * varied all along. So nothing rests on it in silence. Where a plan or a replay does not provide for what the word leads to, the
 * word that is issued leads nowhere (ebb_nowhere): a kernel that goes by it all the same faults and the program is told, instead of
 * going on with other bits. While no plan is driven, and the program's own launches are not planned ones, every word that leads into a
 * buffer has it in place, whatever is known of it.
 *
 * EBB_LEFTOVERS=0: every word counts. One device at a time; with ebb_lock() held.
 */
#ifndef EBB_LEFTOVER_H
#define EBB_LEFTOVER_H

#include "alloc/ebb_alloc.h"

/* A step begins. What a place is counts from here. */
void ebb_leftover_begin_step(ebb_t *ebb);

/* Every operation of a step of which any is viewed, before it is issued: those of a place come behind the same ones. */
void ebb_leftover_pass(ebb_t *ebb, const ebb_operation_t *operation);
/* The operation passed last was not issued. */
void ebb_leftover_take_back(ebb_t *ebb);

/* The operation passed last, without the accesses of words that are left over, and with arguments in which these lead nowhere; all
 * others as they are. The operation itself if there are none. Valid until the next pass. Adds to the evidence. */
const ebb_operation_t *ebb_leftover_view(ebb_device_t *dev, const ebb_operation_t *operation);

/* Whether a word of the operation viewed last is left over, wherever it leads, or holds junk in it: this launch does not go by it. */
bool ebb_leftover_is(ebb_device_t *dev, uint32_t param_offset);

/* What is known of a word of the operation viewed last, for the log. */
void ebb_leftover_describe(ebb_t *ebb, uint32_t param_offset, char *out, size_t size);

/* Tells the program's user, where the device has faulted, that a word may have been left out that was meant. */
void ebb_leftover_hint(ebb_t *ebb, CUresult result);

/* Accesses that were left out, in all. */
uint64_t ebb_leftover_count(ebb_t *ebb);

/* Everything: functions may be others. */
void ebb_leftover_forget(ebb_t *ebb);

#endif
