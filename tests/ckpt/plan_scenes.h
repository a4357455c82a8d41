/* plan_scenes.h: small traces with correct plans, made by hand, one for each thing that a plan can do; what
 * they are is said in plan_scenes.c. For CMocka programs: what fails, fails the test. */
#ifndef PLAN_SCENES_H
#define PLAN_SCENES_H

#include "ckpt/checker/checker.h"

enum { SCENE_CHUNK = 4096, SCENE_NEVER = -1 };

typedef struct scene {
    ebb_trace_t *trace; /* owned, as the plan */
    ebb_plan_t *plan;
    ebb_check_limits_t limits; /* ample */
} scene_t;

scene_t scene_keep(void);
scene_t scene_offload(void);
scene_t scene_offload_apart(void);
scene_t scene_wrap(void);
scene_t scene_wrap_apart(void);
scene_t scene_drop(void);
scene_t scene_drop_small_input(void);
scene_t scene_drop_freed_input(void);
scene_t scene_drop_rebuilt_input(void);
scene_t scene_drop_late_input(void);
scene_t scene_untouched(void);
scene_t scene_in_parts(void);
scene_t scene_rotate(void);
scene_t scene_rotate_on_host(void);
scene_t scene_change_places(void);
scene_t scene_streams_offload(void);
scene_t scene_streams_share(void);
scene_t scene_streams_halves(void);
scene_t scene_streams_drop(void);
scene_t scene_streams_counter(void);
scene_t scene_resident(void);
scene_t scene_streams_resident(void);

void scene_end(scene_t *scene);

/* Chunks first .. first + count - 1 for a place. */
void scene_put(scene_t *scene, uint32_t place, uint32_t first, uint32_t count);
/* An evict, fetch or discard at the end of the list, with one wait or none. */
void scene_add_copy(scene_t *scene, ebb_action_kind_t kind, uint32_t point, uint32_t place, int join,
                    int wait);
ebb_action_t *scene_add_replay(scene_t *scene, uint32_t point, uint32_t operation);
/* Waits keep meaning the same actions. */
void scene_remove_action(scene_t *scene, uint32_t index);
void scene_swap_actions(scene_t *scene, uint32_t a, uint32_t b);

#endif
