/* rules.h: every rule that this device enforces, by name. SOFTGPU_CHECK=help prints this table, `-name` in
 * SOFTGPU_CHECK (a list, separated by commas) switches one off where that is possible.
 *
 *   RULE(id, name, hardware, text)
 * hardware: what a GPU does when a program breaks the rule.
 *   REPORTED   it returns the same error: the rule is part of the API, and cannot be switched off
 *   UNDEFINED  it may go unnoticed, or corrupt: only this device says so, always in the log too
 *
 * Each rule has a program in tests/conformance/ (or, where a GPU does not report, in tests/softgpu/) that
 * breaks it; conformance cases name it in their head.
 */
#ifndef SG_RULES_H
#define SG_RULES_H

#include <stdbool.h>

#include "softgpu/driver/sg.h"

// clang-format off
#define SG_RULES(RULE)                                                                                                  \
    RULE(HANDLE,          "handle",          REPORTED,  "a handle names a living object of its kind")                   \
    RULE(CONTEXT,         "context",         REPORTED,  "what is used together belongs to one context")             \
    RULE(FREED,           "freed",           REPORTED,  "an address that is freed is a live allocation's base")         \
    RULE(REGISTERED,      "registered",      REPORTED,  "host memory is registered once, and then unregistered")    \
    RULE(PEER_ACCESS,     "peer-access",     REPORTED,  "access to a peer is enabled once, and then disabled")      \
    RULE(RESERVATION,     "reservation",     REPORTED,  "what is mapped or freed as address range was reserved")   \
    RULE(RELEASE_ORDER,   "release-order",   REPORTED,  "a reservation is freed when nothing is mapped in it")      \
    RULE(DOUBLE_MAP,      "double-map",      REPORTED,  "nothing is mapped where something is mapped already")      \
    RULE(WHOLE_HANDLE,    "whole-handle",    REPORTED,  "a handle is mapped whole, at offset 0")                    \
    RULE(PARTIAL_UNMAP,   "partial-unmap",   REPORTED,  "whole mappings are unmapped")                              \
    RULE(MAPPED_THROUGHOUT, "mapped-throughout", REPORTED, "access is set where everything is mapped")              \
    RULE(ACCESSIBLE,      "accessible",      REPORTED,  "kernels, copies and memsets touch accessible memory only")     \
    RULE(CAPTURE,         "capture",         REPORTED,  "captured work is not waited for, nor ordered with other work") \
    RULE(GRAPH_MEMORY,    "graph-memory",    REPORTED,  "a graph's allocation is freed once, before the next launch")   \
    RULE(GRAPH_FREE,      "graph-free",      UNDEFINED, "a free node stands behind its allocation node")                \
    RULE(ALIAS_ORDER,     "alias-order",     UNDEFINED, "aliases of one memory are used in an order that streams or events give") \
    RULE(ALLOC_ORDER,     "alloc-order",     UNDEFINED, "memory is used after its allocation in stream order")      \
    RULE(FREE_ORDER,      "free-order",      UNDEFINED, "memory is freed after its use in stream order")            \
    RULE(UNMAP_BUSY,      "unmap-busy",      UNDEFINED, "memory is unmapped when the copies and memsets there are done") \
    RULE(HOST_ACCESS,     "host-access",     REPORTED,  "host code does not touch device memory")                       \
    RULE(BARRIER,         "divergent-barrier", UNDEFINED, "the threads of a block meet in the same __syncthreads")      \
    RULE(WARP_MASK,       "warp-mask",       UNDEFINED, "lanes that a mask names come to the operation, its callers are named by it") \
    RULE(RACE,            "shared-race",     UNDEFINED, "checked mode: something orders accesses of threads to shared memory") \
    RULE(BOUNDS,          "bounds",          UNDEFINED, "checked mode: kernels stay inside buffers and shared arrays")  \
    RULE(UNINITIALISED,   "uninitialised",   UNDEFINED, "checked mode: kernels read what was written before")
// clang-format on

typedef enum sg_rule {
#define RULE(id, name, hardware, text) SG_RULE_##id,
    SG_RULES(RULE)
#undef RULE
        SG_RULE_COUNT
} sg_rule_t;

/* Reads SOFTGPU_CHECK; prints the table if asked to. Once, when the driver starts. */
void sg_rules_init(void);
/* False if the rule is switched off. */
bool sg_rule_on(sg_rule_t rule);
const char *sg_rule_name(sg_rule_t rule);
/* Notes that the program has broken the rule (one line that names it: a warning if hardware would not report it, else
 * information) and returns `error`. Any thread. */
CUresult sg_broken(sg_rule_t rule, CUresult error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
