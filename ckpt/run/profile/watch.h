/* watch.h: how watching works; the functions are in learn_state.h.
 *
 * Behind each operation, on its stream, one launch hashes what it has touched, tile by tile, and compares with the
 * hashes of before, which are in a table on the device: those that the operation in front of it has left, or where
 * there are none, those of another launch just before the operation. From a pointer on, tiles up to the next pointer
 * into the same buffer are its own, so that large shared buffers cost what is touched.
 *
 * What nobody has written since it was allocated holds nothing to compare: the first operation that touches it counts
 * as writing it.
 *
 * In a buffer with several pointers an operation may write beyond its own tiles. So tiles of such buffers are also
 * compared just before an operation, if another one has touched the buffer since they were hashed, and all of them when
 * the step has used it last: a change that no operation accounts for makes all of them writers of the whole buffer.
 *
 * Of a buffer that several streams use, hashes are taken before and behind every operation, and kept apart, so that no
 * stream relies on what another one has left, and none waits for another.
 *
 * Small buffers are searched for words that look like pointers while they are hashed.
 */
#ifndef EBB_WATCH_H
#define EBB_WATCH_H

#include "ckpt/run/profile/learn_state.h"

#endif
