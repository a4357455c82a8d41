/* times.c: SOFTGPU_KERNEL_TIMES: the processor time that each kernel takes, and what it has declared to do in it.
 *
 * Time is that of the threads that ran it (user and system), not of the clock: what else the machine does counts only as far
 * as it takes caches and memory bandwidth away. Around each group of units that a worker takes the clock is read twice, some
 * hundreds of nanoseconds. Copies and memsets are one line each. Operations and bytes are those of KERNEL_COST, of
 * a PTX kernel's text, or of the default by the number of threads, which "declared" tells apart.
 *
 * Threads: any worker may add; one lock, taken outside of what is measured.
 */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/scheduler/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct times {
    char *name;
    uint64_t launches, units, processor_ns;
    double operations, bytes;
    bool declared;
    const softgpu_kernel_t *kernel; /* NULL: copies or memsets */
    struct times *next;
} times_t;

bool sg_times_wanted;

static pthread_mutex_t times_lock = PTHREAD_MUTEX_INITIALIZER;
static times_t *all; /* guarded by times_lock */

void sg_times_init(void)
{
    const char *path = getenv("SOFTGPU_KERNEL_TIMES");
    sg_times_wanted = path && *path;
}

uint64_t sg_times_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const char *name_of(const sg_op_t *op)
{
    if (op->kind == SG_OP_KERNEL)
        return op->kernel.function->kernel->name;
    return op->kind == SG_OP_COPY ? "copy" : "memset";
}

/* By name: a module that is loaded twice has two kernels of one name. NULL: no memory. */
static times_t *find_locked(const sg_op_t *op)
{
    const softgpu_kernel_t *kernel = op->kind == SG_OP_KERNEL ? op->kernel.function->kernel : NULL;
    const char *name = name_of(op);
    for (times_t *t = all; t; t = t->next)
        if (kernel ? t->kernel == kernel : !strcmp(t->name, name))
            return t;
    for (times_t *t = all; t; t = t->next)
        if (!strcmp(t->name, name))
            return t;
    times_t *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name))) {
        free(t);
        return NULL;
    }
    t->kernel = kernel;
    t->declared = !kernel || kernel->cost;
    t->next = all;
    all = t;
    return t;
}

static softgpu_cost_t cost_of(const sg_op_t *op)
{
    if (op->kind == SG_OP_KERNEL) {
        const softgpu_launch_t *launch = &op->kernel.launch;
        softgpu_cost_fn cost = op->kernel.function->kernel->cost;
        return cost ? cost(launch) : sg_profile_default_cost(launch);
    }
    const double written = (double)sg_copy_bytes(op);
    return (softgpu_cost_t){.bytes = op->kind == SG_OP_COPY ? 2 * written : written};
}

void sg_times_add(const sg_op_t *op, uint64_t first, uint64_t count, uint64_t processor_ns)
{
    const softgpu_cost_t cost = first ? (softgpu_cost_t){0} : cost_of(op);
    pthread_mutex_lock(&times_lock);
    times_t *t = find_locked(op);
    if (t) {
        t->launches += first == 0;
        t->units += count;
        t->processor_ns += processor_ns;
        t->operations += cost.operations;
        t->bytes += cost.bytes;
    }
    pthread_mutex_unlock(&times_lock);
}

/* At the end of the program: a line of JSON for each. Names are mangled C++ at most: nothing to escape. */
__attribute__((destructor)) static void tell_times(void)
{
    if (!sg_times_wanted || atomic_load(&sg.forked))
        return;
    const char *path = getenv("SOFTGPU_KERNEL_TIMES");
    FILE *f = path ? fopen(path, "w") : NULL;
    pthread_mutex_lock(&times_lock);
    for (const times_t *t = all; f && t; t = t->next)
        fprintf(
            f,
            "{\"kernel\":\"%s\",\"launches\":%llu,\"blocks\":%llu,\"processor_ns\":%llu,\"operations\":%.0f,"
            "\"bytes\":%.0f,\"declared\":%s}\n",
            t->name, (unsigned long long)t->launches, (unsigned long long)t->units,
            (unsigned long long)t->processor_ns, t->operations, t->bytes, t->declared ? "true" : "false");
    pthread_mutex_unlock(&times_lock);
    if (!f || fclose(f))
        sg_log(1, "SOFTGPU_KERNEL_TIMES=%s: %s", path ? path : "", strerror(errno));
}
