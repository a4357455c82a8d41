/* simulate_parts.h: what simulate.c, simulate_link.c and simulate_prices.c share. */
#ifndef EBB_SIMULATE_PARTS_H
#define EBB_SIMULATE_PARTS_H

#include "simulate.h"

#define EBB_NOT_YET 1e300 /* later than any moment */

/* ---- what actions cost (simulate_prices.c) ---- */

typedef struct ebb_action_price {
    double replay_ns; /* of compute: a replay, with what it zeroes */
    double
        check_ns; /* of compute: comparing what is recomputed, here or behind here, in the mean over steps */
    double calls; /* of the driver, to issue all that */
} ebb_action_price_t;

/* [actions], or NULL: no memory. */
ebb_action_price_t *ebb_simulate_prices(const ebb_plan_t *plan, const ebb_trace_t *trace,
                                        const ebb_hardware_t *hardware);

/* ---- the link (simulate_link.c) ----
 * Each way copies one thing after another, in the order of issue, each as soon as it may. While both ways are in use each is
 * slower. So a copy's end is not known when it is issued: the link is followed from change to change, no further than to the moment up to
 * which compute is known, because no copy that is issued later can begin before that. (Where there are several streams, one may be
 * behind: then what it issues begins in the past, as if the other way had been idle.) */

typedef struct ebb_copy {
    double ready; /* not before */
    double left;  /* of its time, had it the link for itself */
    double begin;
    const double *end_now, *end_before; /* [actions] of its step and the one before */
    double *end;                        /* its own */
    uint32_t action;                    /* of the plan */
    uint32_t span;                      /* to fill in; NEVER: none */
    bool counts;                        /* in lane_ns */
} ebb_copy_t;

typedef struct ebb_way {
    ebb_copy_t *copy; /* in the order of issue */
    uint32_t first, count;
    ebb_copy_t own; /* a copy of the program's: behind what was issued before it */
    ebb_copy_t *at; /* what runs; NULL: nothing */
    double free;    /* since then, if nothing runs */
} ebb_way_t;

typedef struct ebb_link_state {
    const ebb_plan_t *plan;
    const ebb_hardware_t *hardware;
    ebb_simulation_t *out;
    ebb_way_t way[2]; /* out, in */
    double now;       /* followed up to here */
} ebb_link_state_t;

/* The first change behind `now`, as things are; NOT_YET: none. */
double ebb_link_next(ebb_link_state_t *link);
/* Follows it to a moment; back: nothing happens. */
void ebb_link_follow(ebb_link_state_t *link, double to);
/* Directions that copy at `now`. */
int ebb_link_busy(const ebb_link_state_t *link);
/* Until a copy has ended; when that was. */
double ebb_link_wait(ebb_link_state_t *link, const double *end);
/* Until all copies that were issued have ended. */
void ebb_link_end(ebb_link_state_t *link);
/* A copy of the program's own, from now on; when it ends. */
double ebb_link_use(ebb_link_state_t *link, int way, double ns);

#endif
