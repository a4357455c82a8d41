/* learn.h: learns a step, over several of them, while the program goes on.
 *
 * Each step that the program takes while ebb learns is a lesson:
 *   record  what happens: operations, buffers, order. Nothing is issued; the step's own time is what others are
 *           measured by
 *   times   how long operations take: events around three of each kind, nothing else
 *   watch   what is written: everything that an operation touches is hashed behind it, by tiles, and compared with the
 *           hash of before (watch.h)
 *   look    what seemed to be read only is watched once more, in some launches of each kernel
 *   prove   launches that are worth it are replayed on copies (worth.h, prove.h); as many steps as it takes. The rest of
 *           what a plan could use only when none fits without (ebb_lessons_ask_more)
 * The first lesson is what the others are matched with (match.h). A step that turns out to be another one is a lesson
 * lost: it is given again. The host waits once, at the end of a lesson.
 *
 * What lessons have taught of one kind of step is a value; several may exist. One lesson at a time. What is known of
 * kernels is shared by all (know.h).
 *
 * With ebb_lock() held throughout.
 */
#ifndef EBB_LEARN_H
#define EBB_LEARN_H

#include "ckpt/run/profile/record.h"

typedef struct ebb_lessons ebb_lessons_t;

ebb_lessons_t *ebb_lessons_new(void); /* NULL: no memory */
void ebb_lessons_delete(ebb_device_t *dev, ebb_lessons_t *lessons);

typedef enum ebb_learned {
    EBB_LEARNED_NOT,  /* another lesson is needed */
    EBB_LEARNED,      /* all is known */
    EBB_LEARNED_NEVER /* the program's steps differ from one another, or cannot be recorded (logged) */
} ebb_learned_t;

/* A step begins here, and is a lesson. False: it cannot be (logged). */
bool ebb_learn_begin(ebb_device_t *dev, ebb_lessons_t *lessons);
/* The step under way turns out to be of the kind that these lessons are about. False: it has begun as one of another
 * kind and is no good for this one. */
bool ebb_learn_give(ebb_t *ebb, ebb_lessons_t *lessons);
/* It has ended. The host waits for the device. */
ebb_learned_t ebb_learn_end(ebb_device_t *dev);
/* Something came in between: this step teaches nothing. */
void ebb_learn_abandon(ebb_device_t *dev);
bool ebb_learn_running(ebb_t *ebb);
/* Memory is short: gives back what learning holds of it and does not use just now. False: nothing. */
bool ebb_learn_relieve(ebb_t *ebb);

/* What happens in it. `before`: its buffers are resident and held; after `after` they need not be. */
void ebb_learn_before(ebb_device_t *dev, const ebb_operation_t *operation);
void ebb_learn_after(ebb_device_t *dev, const ebb_operation_t *operation, CUresult result);
void ebb_learn_allocated(const ebb_buffer_t *buffer, ebb_stream_t *stream);
void ebb_learn_freed(ebb_buffer_t *buffer, ebb_stream_t *stream);

/* What was learned is not enough for a plan. True: further lessons may prove what was left out because it would hardly
 * be worth it; what was learned is no result any more until they have ended. */
bool ebb_lessons_ask_more(ebb_device_t *dev, ebb_lessons_t *lessons);

/* After EBB_LEARNED: the step. The lessons' own. */
ebb_recording_t *ebb_lessons_recording(ebb_lessons_t *lessons);

#endif
