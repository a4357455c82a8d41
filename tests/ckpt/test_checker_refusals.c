/* The checker on plans made by hand: each way to break one is refused for its reason, and each fault is provoked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/checker/checker.h"
#include "plan_scenes.h"
#include "trace_streams.h"

enum { CHUNK = SCENE_CHUNK, NEVER = SCENE_NEVER };

#define EDIT(name) static void name(scene_t *s)

EDIT(two_streams)
{
    s->trace->operation[1].stream = 1;
}
EDIT(too_many_streams)
{
    s->trace->operation[1].stream = EBB_PLAN_STREAMS;
}
EDIT(order_of_one)
{
    assert_non_null(ebb_plan_add_action(s->plan, EBB_ORDER, 3));
}
EDIT(evict_after_nothing)
{
    s->plan->action[0].after = 0;
}
EDIT(evict_after_others)
{
    s->plan->action[0].after = 1 << 1;
}
EDIT(evict_joined_by_other)
{
    s->plan->action[0].joiners = 1 << 0;
}
EDIT(fetch_after_nothing)
{
    s->plan->action[1].after = 0;
}
EDIT(fetch_joined_by_other)
{
    s->plan->action[1].joiners = 1 << 1;
}
EDIT(joined_by_none_such)
{
    s->plan->action[1].joiners = 1 << 2;
}
EDIT(edge_forgotten)
{
    s->trace->sync_count = 0;
}
EDIT(no_order)
{
    scene_remove_action(s, 0);
}
/* The resident kernel begins while the fetch takes chunks, or is there already. */
EDIT(fetch_over_late)
{
    s->plan->action[1].join = 4;
}
EDIT(fetch_before_resident_ends)
{
    trace_set_streams(s->trace, "00010");
    trace_add_edge(s->trace, 0, 3, 1, 3);
    s->plan->action[0].after = s->plan->action[0].joiners = 1 << 0;
    s->plan->action[1].after = s->plan->action[1].joiners = 1 << 0;
    s->plan->action[1].point = s->plan->action[1].join = 4;
}
EDIT(resident_hasty)
{
    s->plan->action[0].after = 0;
}
EDIT(resident_forgotten)
{
    s->plan->action[1].after = 1 << 0;
}
EDIT(order_late)
{
    s->plan->action[0].point = 3;
}
EDIT(order_of_others)
{
    s->plan->action[0].after = 1 << 2;
}
EDIT(order_on_other)
{
    s->plan->action[0].stream = 2;
}
EDIT(order_on_none_such)
{
    s->plan->action[0].stream = 3;
}
EDIT(order_with_place)
{
    s->plan->action[0].place = 0;
}
EDIT(small_of_two_streams)
{
    s->plan->place[5].small_offset = 0;
}
EDIT(second_half_unordered)
{
    scene_remove_action(s, 1);
}
EDIT(evict_before_a_half)
{
    s->plan->action[2].after = 1 << 0;
}
EDIT(fetch_joined_by_two)
{
    s->plan->action[3].joiners = 1 << 0 | 1 << 2;
}
EDIT(replay_unordered_read)
{
    s->plan->action[1].after = s->plan->action[2].after = 0;
}
EDIT(replay_unordered_write)
{
    s->plan->action[2].stream = 0;
    s->plan->action[2].after = 0;
}
EDIT(replay_beside_another_count)
{
    s->plan->action[2].after = 1 << 0;
}
EDIT(evict_older)
{
    scene_add_copy(s, EBB_EVICT, 4, 1, NEVER, NEVER);
    scene_swap_actions(s, 2, 3);
}
EDIT(replay_not_waited_for)
{
    scene_remove_action(s, 3);
}
EDIT(replay_on_none_such)
{
    s->plan->action[2].stream = 2;
}
EDIT(discard_on_stream)
{
    s->plan->action[0].stream = 1;
}
/* The program wants what the first action moves on the device, */
EDIT(moved_kept)
{
    s->trace->buffer[s->plan->action[0].place].kept = true;
}
/* or what is on the host when the step begins. */
EDIT(start_kept)
{
    s->trace->buffer[0].kept = true;
}
EDIT(discard_older)
{
    ebb_action_t *a = ebb_plan_add_action(s->plan, EBB_DISCARD, 4);
    assert_non_null(a);
    a->place = 1;
    scene_swap_actions(s, 2, 3);
}
EDIT(never_dies)
{
    s->trace->buffer[1].dies = EBB_NONE;
}
EDIT(small_outlives)
{
    s->trace->buffer[2].dies = EBB_NONE;
}
EDIT(dies_unborn)
{
    s->trace->buffer[0].dies = 3;
}
EDIT(other_trace)
{
    s->plan->operation_count--;
}
EDIT(other_chunks)
{
    s->plan->chunk_bytes *= 2;
}
EDIT(small_overlap)
{
    s->trace->buffer[2].dies = 3;
}
EDIT(small_unaligned)
{
    s->plan->place[3].small_offset = 100;
}
EDIT(small_outside)
{
    s->plan->place[3].small_offset = CHUNK - 512;
}
EDIT(small_nowhere)
{
    s->plan->place[3].small_offset = EBB_NONE;
}
EDIT(small_region_odd)
{
    s->plan->small_bytes++;
}
EDIT(over_budget)
{
    s->limits.device_bytes = 4 * CHUNK - 1;
}
EDIT(share_at_start)
{
    s->plan->chunk[1] = 0;
}
EDIT(chunk_twice)
{
    s->plan->chunk[1] = 2;
}
EDIT(chunk_unknown)
{
    s->plan->chunk[1] = 3;
}
EDIT(chunk_missing)
{
    s->plan->place[1].chunk_count = 1;
}
EDIT(no_chunks)
{
    s->plan->place[1].chunk_count = 0;
}
EDIT(starts_unborn)
{
    s->plan->place[1].at_start = EBB_ON_DEVICE;
}
EDIT(starts_nowhere)
{
    s->plan->place[0].at_start = EBB_NOT_THERE;
}
EDIT(starts_on_host)
{
    s->plan->place[0].at_start = EBB_ON_HOST;
}
EDIT(starts_on_device)
{
    s->plan->place[0].at_start = EBB_ON_DEVICE;
}
EDIT(replay_unproven)
{
    s->trace->operation[1].proofs = 0;
    scene_add_replay(s, 2, 1);
}
EDIT(replay_early)
{
    scene_add_replay(s, 2, 2);
}
EDIT(replay_side_effect)
{
    scene_add_replay(s, 3, 2);
}

EDIT(no_join_evict)
{
    s->plan->action[0].join = EBB_NONE;
}
EDIT(no_join_fetch)
{
    s->plan->action[1].join = EBB_NONE;
}
EDIT(late_join_evict)
{
    s->plan->action[0].join = 2;
}
EDIT(early_fetch)
{
    s->plan->action[1].point = 2;
}
EDIT(late_fetch)
{
    s->plan->action[1].point = 4;
}
EDIT(no_evict)
{
    scene_remove_action(s, 0);
    s->plan->action[0].wait_count = 0;
}
EDIT(late_evict)
{
    s->plan->action[0].point = 2;
}
EDIT(early_evict)
{
    s->plan->action[0].point = 0;
}
EDIT(no_wait)
{
    s->plan->action[1].wait_count = 0;
}
EDIT(wait_itself)
{
    s->plan->wait[0] = 1;
}
EDIT(join_end)
{
    s->plan->action[0].join = 4;
}
EDIT(out_of_order)
{
    s->plan->action[0].point = 4;
}
EDIT(small_host)
{
    s->limits.host_bytes = CHUNK - 1001;
}
EDIT(small_world)
{
    s->limits = (ebb_check_limits_t){2 * CHUNK, CHUNK - 1000, 0};
}
EDIT(small_behind)
{
    s->limits = (ebb_check_limits_t){2 * CHUNK, CHUNK - 1000, 999};
}
EDIT(share_live)
{
    s->plan->chunk[1] = 0;
}
EDIT(evict_small)
{
    s->plan->action[0].place = 3;
}

EDIT(wrap_no_join)
{
    s->plan->action[1].join = EBB_NONE;
}
EDIT(wrap_no_wait)
{
    s->plan->action[0].wait_count = 0;
}
EDIT(wrap_no_evict)
{
    scene_remove_action(s, 1);
    s->plan->action[0].wait_count = 0;
}
EDIT(wrap_early_fetch)
{
    s->plan->action[0].point = 1;
}
EDIT(wrap_early_evict)
{
    s->plan->action[1].point = 2;
}

EDIT(drop_unproven)
{
    s->trace->operation[1].proofs = 0;
}
EDIT(drop_input_gone)
{
    s->trace->access[6].mode = EBB_UPDATES;
}
EDIT(drop_unredirected)
{
    s->plan->action[1].redirect_count = 0;
}
EDIT(drop_half)
{
    scene_remove_action(s, 2);
}
EDIT(drop_none)
{
    scene_remove_action(s, 1);
    scene_remove_action(s, 1);
}
EDIT(drop_silently)
{
    scene_remove_action(s, 0);
}
EDIT(drop_exchanged)
{
    scene_swap_actions(s, 1, 2);
}
EDIT(drop_early)
{
    s->plan->action[1].point = s->plan->action[2].point = 3;
}
EDIT(drop_late)
{
    s->plan->action[1].point = s->plan->action[2].point = 5;
}
EDIT(drop_in_two)
{
    s->plan->action[1].point = 4;
    s->plan->action[2].point = 5;
}
EDIT(drop_scratch_live)
{
    s->plan->chunk[3] = 0;
}
EDIT(drop_scratch_small)
{
    s->plan->place[4].bytes = 99;
}
EDIT(drop_redirect_other)
{
    s->plan->redirect[0].buffer = 2;
}
EDIT(drop_redirect_home)
{
    s->plan->redirect[0].place = 3;
}
EDIT(drop_wait_replay)
{
    scene_add_copy(s, EBB_EVICT, 6, 1, NEVER, 1);
}
EDIT(drop_twice)
{
    scene_add_copy(s, EBB_DISCARD, 6, 2, NEVER, NEVER);
    scene_add_copy(s, EBB_DISCARD, 6, 2, NEVER, NEVER);
}

EDIT(input_dead)
{
    s->trace->buffer[0].dies = 3;
}
EDIT(input_dead_unproven)
{
    s->trace->buffer[0].dies = 3;
    s->trace->operation[0].proofs = 0;
}
EDIT(input_updated)
{
    s->trace->access[4].buffer = 0;
    s->trace->access[4].mode = EBB_UPDATES;
}
EDIT(freed_input_taken)
{
    s->plan->chunk[2] = 0;
}
EDIT(freed_input_unproven)
{
    s->trace->operation[0].proofs = 0;
}
EDIT(late_not)
{
    s->plan->place[0].until = EBB_NONE;
}
EDIT(late_too_short)
{
    s->plan->place[0].until = 4;
}
EDIT(late_before_it_dies)
{
    s->plan->place[0].until = 1;
}
EDIT(late_beyond_the_step)
{
    s->plan->place[0].until = 7;
}
EDIT(late_lost)
{
    scene_remove_action(s, 0);
    s->plan->wait_count = s->plan->action[1].wait_count = 0;
}
EDIT(parts_dropped)
{
    scene_add_copy(s, EBB_DISCARD, 1, 0, NEVER, NEVER);
    scene_add_replay(s, 1, 0);
}
EDIT(parts_replayed)
{
    scene_add_replay(s, 1, 0);
}
EDIT(untouched_device)
{
    s->plan->place[0].at_start = EBB_ON_DEVICE;
}
EDIT(untouched_used)
{
    s->trace->access[0].buffer = 0;
}
EDIT(narrow)
{
    s->limits.device_bytes = CHUNK;
    s->plan->chunk_count = 1;
    s->plan->small_bytes = 0;
    s->trace->access[0].buffer = 0;
    scene_put(s, 0, 0, 1);
    s->trace->buffer[0].bytes = s->plan->place[0].bytes = CHUNK;
    s->trace->access[0].mode = EBB_UPDATES;
    ebb_trace_add_access(s->trace)->buffer = 1;
    s->trace->access[1].mode = EBB_REPLACES;
}

typedef struct mutation {
    const char *name;
    scene_t (*scene)(void);
    void (*edit)(scene_t *);
    const char *why;
} mutation_t;

#define M(scene, edit, why)                                                                                  \
    {                                                                                                        \
#edit, scene, edit, why                                                                              \
    }

EDIT(ring_torn)
{
    s->trace->buffer[0].dies = 3;
    s->trace->buffer[0].next = EBB_NONE;
}
EDIT(ring_of_two_sizes)
{
    s->trace->buffer[0].bytes--;
}
EDIT(ring_with_two_heads)
{
    s->trace->buffer[2].dies = EBB_NONE;
    s->trace->buffer[2].next = 1;
}
EDIT(ring_on_one_chunk)
{
    s->plan->chunk[1] = 0;
}
EDIT(ring_shares) /* free in this step from here on, but not in the next */
{
    s->plan->chunk[2] = 1;
}
EDIT(ring_small_placed)
{
    s->plan->place[4].small_offset = 0;
}
EDIT(ring_small_freed)
{
    scene_add_replay(s, 2, 1);
}
EDIT(ring_without_chunks)
{
    s->plan->place[1].chunk_count = 0;
}
EDIT(ring_unordered)
{
    s->plan->action[1].wait_count = 0;
}
EDIT(ring_not_brought)
{
    scene_remove_action(s, 1);
}
EDIT(ring_on_device)
{
    s->plan->place[1].at_start = EBB_ON_DEVICE;
}
EDIT(ring_used_twice)
{
    s->trace->buffer[4].next = 2;
    s->trace->buffer[3].next = 2;
}

static const mutation_t mutations[] = {
    M(scene_keep, two_streams, "small buffer 3 takes the place of 2, and they are used on several streams"),
    M(scene_keep, too_many_streams, "the trace is of 33 streams"),
    M(scene_keep, order_of_one, "is of several streams: there is one"),
    M(scene_keep, never_dies, "buffer 1 outlives the step, and nothing in the next one is it"),
    M(scene_keep, small_outlives, "small buffer 2 outlives the step and lies in the small region"),
    M(scene_keep, dies_unborn, "buffer 0 is older than the step, and nothing in the one before was it"),
    M(scene_keep, other_trace, "not of this trace"),
    M(scene_keep, other_chunks, "not of this trace"),
    M(scene_keep, small_overlap, "small buffers 2 and 3 overlap"),
    M(scene_keep, small_unaligned, "not in the small region"),
    M(scene_keep, small_outside, "not in the small region"),
    M(scene_keep, small_nowhere, "lies nowhere"),
    M(scene_keep, small_region_odd, "not a number of chunks"),
    M(scene_keep, over_budget, "bytes on the device"),
    M(scene_keep, share_at_start, "step 1, operation 0: place 0 shares chunks"),
    M(scene_keep, chunk_twice, "has chunk 2 twice"),
    M(scene_keep, chunk_unknown, "chunk 3 of 3"),
    M(scene_keep, chunk_missing, "has 1 chunks"),
    M(scene_keep, no_chunks, "has 0 chunks"),
    M(scene_keep, starts_unborn, "which nothing outlives"),
    M(scene_keep, starts_nowhere, "nowhere when the step begins"),
    M(scene_keep, starts_on_host, "place 0 does not hold buffer 0 in version 0"),
    M(scene_keep, replay_unproven, "operation 1 has no proofs"),
    M(scene_keep, replay_early, "operation 2 has not run yet"),
    M(scene_keep, replay_side_effect, "writes small buffer 3 and is not redirected"),
    M(scene_offload, no_join_evict,
      "step 1, operation 1: the write of place 2 is not ordered after the read of chunk 1 on out"),
    M(scene_offload, late_join_evict, "operation 1: the write of place 2 is not ordered after the read"),
    M(scene_offload, no_join_fetch,
      "operation 3: the read of place 1 is not ordered after the write of chunk 1 on in"),
    M(scene_offload, early_fetch, "buffer 2 in version 1 is lost and was not given up"),
    M(scene_offload, late_fetch, "operation 3: place 1 does not hold buffer 1"),
    M(scene_offload, no_evict, "operation 1: buffer 1 in version 1 is lost and was not given up"),
    M(scene_offload, late_evict, "buffer 1 in version 1 is lost"),
    M(scene_offload, early_evict, "an evict of a place that holds nothing"),
    M(scene_offload, join_end, "joined at 4, which is no operation"),
    M(scene_offload, out_of_order, "not in its place in the list"),
    M(scene_offload, small_host, "host blocks of"),
    M(scene_offload, small_world, "more than device and host may hold"),
    M(scene_offload, small_behind, "more than device and host may hold"),
    M(scene_offload, share_live, "operation 0: place 0 shares chunks"),
    M(scene_offload_apart, no_wait, "the fetch is not ordered after its evict"),
    M(scene_offload_apart, wait_itself, "the fetch is not ordered after its evict"),
    M(scene_wrap, wrap_no_join, "step 2, operation 0: the write of place 1 is not ordered after the read"),
    M(scene_wrap, wrap_no_evict, "ends without buffer 0 on the host"),
    M(scene_wrap, wrap_early_fetch, "buffer 1 in version 1 is lost"),
    M(scene_wrap, wrap_early_evict, "the read of place 0 is not ordered after the write of chunk 0 on in"),
    M(scene_wrap, starts_on_device, "operation 0: buffer 0 in version 0 is lost"),
    M(scene_wrap_apart, wrap_no_wait,
      "step 2, point 2, action 0 (fetch): the fetch is not ordered after its evict"),
    M(scene_drop, drop_unproven,
      "point 2, action 0 (discard): buffer 1 in version 2, which is given up, cannot be rebuilt"),
    M(scene_drop, drop_input_gone,
      "operation 2: buffer 1 in version 2, which is given up, cannot be rebuilt any more"),
    M(scene_drop, drop_unredirected, "writes small buffer 3 and is not redirected"),
    M(scene_drop, drop_half, "place of live buffer 1 is left with something else"),
    M(scene_drop, drop_none, "operation 4: place 1 does not hold buffer 1 in version 2"),
    M(scene_drop, drop_silently, "operation 2: buffer 1 in version 2 is lost and was not given up"),
    M(scene_drop, drop_exchanged, "place 1 does not hold buffer 1 in version 1"),
    M(scene_drop, drop_early, "buffer 2 in version 1 is lost and was not given up"),
    M(scene_drop, drop_late, "operation 4: place 1 does not hold buffer 1 in version 2"),
    M(scene_drop, drop_in_two, "place of live buffer 1 is left with something else"),
    M(scene_drop, drop_scratch_live, "shares chunks with another one of the same launch"),
    M(scene_drop, drop_scratch_small, "too small"),
    M(scene_drop, drop_redirect_other, "which is too small"),
    M(scene_drop, drop_redirect_home, "which is too small"),
    M(scene_drop, drop_wait_replay, "which is no copy"),
    M(scene_drop, drop_twice, "a discard of a place that holds nothing"),
    M(scene_drop, evict_small, "has no chunks"),
    M(scene_drop_small_input, input_dead, "small buffer 0 is not alive"),
    M(scene_drop_small_input, input_dead_unproven,
      "buffer 1 in version 1, which is given up, cannot be rebuilt"),
    M(scene_drop_small_input, input_updated, "small buffer 0 is not what operation 1 read"),
    M(scene_drop_freed_input, freed_input_taken, "place 0 does not hold buffer 0 in version 1"),
    M(scene_drop_freed_input, freed_input_unproven,
      "buffer 1 in version 1, which is given up, cannot be rebuilt"),
    M(scene_drop_late_input, late_not,
      "action 1 (discard): buffer 1 in version 1, which is given up, cannot be rebuilt"),
    M(scene_drop_late_input, late_too_short, "buffer 1 in version 1, which is given up, cannot be rebuilt"),
    M(scene_drop_late_input, late_before_it_dies, "buffer 0 cannot be put off until operation 1"),
    M(scene_drop_late_input, late_beyond_the_step, "buffer 0 cannot be put off until operation 7"),
    M(scene_drop_late_input, late_lost, "buffer 0 in version 1 is lost and was not given up"),
    M(scene_keep, late_too_short, "buffer 0 cannot be put off until operation 4"),
    M(scene_in_parts, parts_dropped, "cannot be rebuilt"),
    M(scene_in_parts, parts_replayed, "read buffer 0 before it was written"),
    M(scene_untouched, untouched_device, "has 0 chunks"),
    M(scene_untouched, untouched_used, "is used and has no chunks"),
    M(scene_rotate, ring_torn, "buffer 1 is older than the step, and nothing in the one before was it"),
    M(scene_rotate, ring_of_two_sizes, "buffer 1 in the next step, which is not as large"),
    M(scene_rotate, ring_with_two_heads, "two buffers are buffer 1 in the next step"),
    M(scene_rotate, ring_on_one_chunk, "step 1, operation 0: buffer 1 in version 0 is lost"),
    M(scene_rotate, ring_shares, "step 2, operation 2: place 1 shares chunks"),
    M(scene_rotate, ring_small_placed, "small buffer 4 outlives the step and lies in the small region"),
    M(scene_rotate, ring_small_freed, "small buffer 4 is not alive"),
    M(scene_rotate, ring_without_chunks, "has 0 chunks"),
    M(scene_rotate_on_host, ring_unordered, "is not ordered after"),
    M(scene_rotate_on_host, ring_not_brought, "does not hold buffer 1 in version 0"),
    M(scene_rotate_on_host, ring_on_device, "step 1, operation 0: buffer 1 in version 0 is lost"),
    M(scene_change_places, ring_used_twice, "two buffers are buffer 2 in the next step"),
    M(scene_streams_offload, evict_after_nothing,
      "action 0 (evict): the read of place 1 is not ordered after the write of chunk 1 on stream 0"),
    M(scene_streams_offload, evict_after_others, "action 0 (evict): the read of place 1 is not ordered"),
    M(scene_streams_offload, evict_joined_by_other,
      "operation 1: the write of place 2 is not ordered after the write of chunk 1 on stream 0"),
    M(scene_streams_offload, fetch_after_nothing,
      "action 1 (fetch): the write of place 1 is not ordered after the write of chunk 1 on stream 1"),
    M(scene_streams_offload, fetch_joined_by_other,
      "operation 3: the read of place 1 is not ordered after the write of chunk 1 on in"),
    M(scene_streams_offload, joined_by_none_such, "streams wait that cannot"),
    M(scene_streams_share, no_order,
      "operation 2: the write of place 1 is not ordered after the write of chunk 0 on stream 0"),
    M(scene_streams_share, order_late, "operation 2: the write of place 1 is not ordered"),
    M(scene_streams_share, order_of_others, "operation 2: the write of place 1 is not ordered"),
    M(scene_streams_share, order_on_other, "operation 2: the write of place 1 is not ordered"),
    M(scene_streams_share, order_on_none_such, "action 0 is on stream 3 of 3"),
    M(scene_streams_share, order_with_place, "an order that does something"),
    M(scene_streams_share, small_of_two_streams, "small buffer 5 takes the place of 4"),
    M(scene_streams_halves, second_half_unordered,
      "operation 2: the write of place 0 is not ordered after the write of chunk 0 on stream 2"),
    M(scene_streams_halves, edge_forgotten,
      "action 2 (evict): the read of place 0 is not ordered after the write of chunk 0 on stream 0"),
    M(scene_streams_halves, evict_before_a_half, "action 2 (evict): the read of place 0 is not ordered"),
    M(scene_streams_halves, fetch_joined_by_two,
      "operation 5: the write of place 0 is not ordered after the write of chunk 0 on in"),
    M(scene_streams_drop, replay_unordered_read, "is not ordered after the write of chunk"),
    M(scene_streams_drop, replay_unordered_write,
      "point 4, action 2 (replay): the write of place 1 is not ordered after the write of chunk 1 on stream "
      "1"),
    M(scene_streams_counter, replay_beside_another_count,
      "action 2 (replay): the write of small buffer 3 is not ordered after the read of it on stream 2"),
    M(scene_streams_drop, replay_not_waited_for,
      "operation 4: the read of place 1 is not ordered after the write of chunk 1 on stream 1"),
    M(scene_streams_drop, replay_on_none_such, "action 2 is on stream 2 of 2"),
    M(scene_streams_drop, discard_on_stream, "action 0 is on stream 1 of 2"),
    M(scene_resident, fetch_over_late,
      "operation 3: a resident kernel may run while a chunk changes hands on in"),
    M(scene_resident, fetch_before_resident_ends,
      "action 1 (fetch): place 1 takes chunk 1 while a resident kernel may be running on stream 1"),
    M(scene_streams_resident, resident_hasty,
      "step 2, operation 1: a resident kernel may run while a chunk changes hands on stream 0"),
    M(scene_streams_resident, resident_forgotten,
      "operation 3: place 1 takes chunk 0 while a resident kernel may be running on stream 2"),
    M(scene_drop, discard_older, "a discard of what live buffer 1 was"),
    M(scene_drop, evict_older, "an evict of what live buffer 1 was"),
    M(scene_drop, moved_kept, "is to stay on the device"),
    M(scene_offload, moved_kept, "is to stay on the device"),
    M(scene_untouched, start_kept, "is to stay on the device"),
};

/* The fault with whose word the reason begins; none: EBB_FAULT_KINDS. */
static ebb_fault_t fault_of(const char *why)
{
    unsigned fault = 0;
    while (fault < EBB_FAULT_KINDS) {
        const size_t length = strlen(ebb_fault_word[fault]);
        if (!strncmp(why, ebb_fault_word[fault], length) && !strncmp(why + length, ": ", 2))
            break;
        fault++;
    }
    return (ebb_fault_t)fault;
}

static unsigned provoked[EBB_FAULT_KINDS + 1];

static void broken_plan_is_refused_for_its_reason(void **state)
{
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
        const mutation_t *m = &mutations[i];
        char why[300] = "";
        scene_t s = m->scene();
        m->edit(&s);
        bool accepted = ebb_check_plan(s.trace, s.plan, &s.limits, why, sizeof why);
        if (accepted || !strstr(why, m->why)) {
            print_error("%s: %s, not \"%s\"\n", m->name, accepted ? "accepted" : why, m->why);
            wrong++;
        }
        provoked[fault_of(why)]++;
        scene_end(&s);
    }
    assert_int_equal(wrong, 0);
}

static void wider_operation_than_the_device_is_refused(void **state)
{
    (void)state;
    char why[300] = "";
    scene_t s = scene_untouched();
    narrow(&s);
    assert_false(ebb_check_plan(s.trace, s.plan, &s.limits, why, sizeof why));
    assert_non_null(strstr(why, "touches 8192 bytes at once"));
    assert_int_equal(fault_of(why), EBB_FAULT_FALLBACK);
    scene_end(&s);
}

static void every_fault_is_provoked(void **state)
{
    (void)state;
    for (unsigned fault = 0; fault < EBB_FAULT_KINDS; fault++)
        if (!provoked[fault] && fault != EBB_FAULT_MEMORY) /* test_checker_memory */
            fail_msg("nothing provokes a fault of kind %s", ebb_fault_word[fault]);
    assert_int_equal(provoked[EBB_FAULT_KINDS], 0); /* every reason begins with a word */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_plan_is_refused_for_its_reason),
        cmocka_unit_test(wider_operation_than_the_device_is_refused),
        cmocka_unit_test(every_fault_is_provoked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
