/* left.h: what a plan leaves behind when the program departs from it in the middle of a step (drive.h), for whoever goes on
 * from there (follow.h, recipe.h).
 *
 * A plan's contents are in three places: on the device, on the host, or nowhere, because they were given up and would have
 * been replayed. The first two are residence's at once (ebb_residence_put). What was given up becomes DROPPED, with a recipe,
 * and is made like everything else that is dropped: when it is touched, if it ever is; before what its recipe reads changes or
 * is freed; at the end of the step. Whatever the options say of dropping: it has happened.
 *
 * Such a recipe may be longer than those of recipe.h: what its operations read may have been freed since, or overwritten.
 * That is made as well, by the operations that made it, in memory of ebb's own, for as long as they need it. So a recipe is
 * the list, in order, of all operations of this step that are needed to get from what is there to the content. That there
 * is one for everything, at every point, the plan's checker has proven (ckpt/checker/recovery.c), as long as all operations keep
 * their proofs.
 *
 * Memory. The checker has also proven that everything alive fits into device and host together. Making a content later needs
 * no more than making it at once, as long as that is so for what is alive then. An allocation that might end it
 * comes behind the making of everything that is still dropped (ebb_recipe_allocating).
 *
 * Checking: a content that was hashed when it was given up is hashed again when it is made, and the host waits for it. Other
 * bits are replaced by the copy, if there is one.
 *
 * With ebb_lock() held.
 */
#ifndef EBB_LEFT_H
#define EBB_LEFT_H

#include "ckpt/run/profile/hash.h"
#include "ckpt/run/profile/record.h"
#include "ckpt/run/replay/relaunch.h"

typedef struct ebb_given_up {
    uint32_t id; /* its buffer; alive, not mapped */
    void *copy;  /* a pinned block with the content; NULL: there is none */
    ebb_hashes_t
        *hashes; /* NULL: it is not compared. Slot `slot` is its hash; borrowed until the step has ended */
    unsigned slot;
    ebb_hash_part_t part;
} ebb_given_up_t;

/* A buffer that an operation has written which is not in the recording, before the operation `before` of it. */
typedef struct ebb_stray {
    uint32_t before, id;
} ebb_stray_t;

typedef struct ebb_left {
    ebb_recording_t *learned; /* of the step; borrowed as by ebb_follow_boundary */
    /* The next operation; all before it were the recorded ones, on the recorded buffers, but for kernels that were not kept in
     * `issued`. */
    uint32_t cursor;
    const ebb_stray_t
        *stray; /* [stray_count] in order; what a recipe of `given_up` needs is not among them */
    uint32_t stray_count;
    ebb_buffer_t **buffer;    /* [buffers] those that are alive; else NULL */
    ebb_issued_t *issued;     /* [operations] as issued in this step, those before the cursor; taken */
    ebb_given_up_t *given_up; /* [given_up_count] the copies are taken */
    uint32_t given_up_count;
} ebb_left_t;

/* For follow.c, when it follows the step with these buffers: from here on recipes are kept as if it had all along. What
 * has no recipe is taken from its copy, or is lost (mismatch.h). */
void ebb_recipe_resume(ebb_device_t *dev, ebb_left_t *left);
/* It cannot be followed: copies are all that counts. */
void ebb_recipe_abandon(ebb_left_t *left);

/* The program is about to allocate: what was left behind is made before that would take the memory that it needs. */
void ebb_recipe_allocating(ebb_device_t *dev, size_t bytes);

#endif
