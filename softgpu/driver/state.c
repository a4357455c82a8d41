/* state.c: the driver's one state: configuration from SOFTGPU_*, initialisation, how every call begins, the
 * log. */
#include "profile.h"
#include "rules.h"
#include "streams.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

sg_state_t sg = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local struct {
    CUcontext stack[16];
    unsigned depth;
} current;

uint64_t sg_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void log_line(const char *format, va_list args)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "softgpu: ");
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    size_t length = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, length) < 0)
        return;
}

void sg_log(int level, const char *format, ...)
{
    if (level > sg.config.log_level)
        return;
    va_list args;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

void sg_set_sticky(CUresult error, const char *format, ...)
{
    int none = CUDA_SUCCESS;
    if (!atomic_compare_exchange_strong(&sg.ctx.sticky, &none, (int)error) || sg.config.log_level < 1)
        return;
    va_list args;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

/* "512MiB", "2G", "1073741824": a size with an optional binary suffix. */
static bool parse_bytes(const char *text, size_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || errno || *text == '-')
        return false;
    unsigned shift = 0;
    if (*end) {
        const char *units = "KMGT",
                   *unit = isalpha((unsigned char)*end) ? strchr(units, toupper(*end)) : NULL;
        if (!unit || (end[1] && strcasecmp(end + 1, "ib") && strcasecmp(end + 1, "b")))
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (shift && n >> (64 - shift))
        return false;
    *out = (size_t)n << shift;
    return true;
}

static unsigned read_number(const char *name, unsigned low, unsigned high, unsigned fallback)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return fallback;
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || n < low || n > high) {
        sg_log(1, "%s=%s is not a number from %u to %u; using %u", name, text, low, high, fallback);
        return fallback;
    }
    return (unsigned)n;
}

static void read_scheduler(void)
{
    const char *name = getenv("SOFTGPU_SCHEDULER");
    sg.config.deterministic = name && !strcmp(name, "deterministic");
    if (name && *name && !sg.config.deterministic && strcmp(name, "threads") != 0)
        sg_log(1, "SOFTGPU_SCHEDULER=%s is neither threads nor deterministic; using threads", name);
    sg.config.seed = read_number("SOFTGPU_SEED", 0, UINT_MAX, 1);
}

static void read_config(void)
{
    sg_config_t *c = &sg.config;
    c->log_level = 1;
    c->log_level = (int)read_number("SOFTGPU_LOG", 0, 2, 1);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    c->workers = read_number("SOFTGPU_WORKERS", 1, SG_MAX_WORKERS, cores < 1 ? 1 : (unsigned)cores);
    c->poison = read_number("SOFTGPU_POISON", 0, 1, 0);
    c->protect = read_number("SOFTGPU_PROTECT", 0, 1, 1);
    read_scheduler();
    sg_profile_init();

    /* 8 GiB, but no more than half of what the machine has. */
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    c->memory_bytes = (size_t)8 << 30;
    if (c->memory_bytes > ram / 2)
        c->memory_bytes = ram / 2;
    if (sg_profile_named)
        c->memory_bytes = (size_t)sg_profile->memory_gib << 30;
    const char *text = getenv("SOFTGPU_MEMORY");
    size_t wanted;
    if (text && *text) {
        if (parse_bytes(text, &wanted) && wanted >= SG_CHUNK_BYTES)
            c->memory_bytes = wanted;
        else
            sg_log(1, "SOFTGPU_MEMORY=%s is not a size of at least 2MiB; using %zu MiB", text,
                   c->memory_bytes >> 20);
    }
    c->memory_bytes = c->memory_bytes / SG_CHUNK_BYTES * SG_CHUNK_BYTES;
}

/* The child of a fork has none of the driver's threads and none of its device memory. */
static void after_fork(void)
{
    atomic_store(&sg.forked, true);
}

static CUresult start_locked(void)
{
    read_config();
    sg_rules_init();
    SG_TRY(sg_phys_init(sg.config.memory_bytes));
    SG_TRY(sg_fault_init());
    SG_TRY(sg_window_init());
    SG_TRY(sg_queue_init());
    sg_scheduler = sg.config.deterministic ? &sg_deterministic_scheduler : &sg_threads_scheduler;
    SG_TRY(sg_scheduler->start(sg.config.workers));
    sg.ctx.legacy = sg_stream_create_locked(true, 0, 0);
    if (!sg.ctx.legacy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_atfork(NULL, NULL, after_fork);
    atomic_store(&sg.initialised, true);
    return CUDA_SUCCESS;
}

/* Once: what failed is not tried again. */
static CUresult initialise_locked(void)
{
    static bool tried;
    static CUresult result;
    if (!tried)
        result = start_locked();
    tried = true;
    return result;
}

CUresult sg_initialise(void)
{
    if (atomic_load(&sg.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    sg_lock();
    CUresult result = initialise_locked();
    sg_unlock();
    return result;
}

CUresult sg_enter(void)
{
    if (!atomic_load(&sg.initialised) || atomic_load(&sg.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

CUcontext sg_current_context(void)
{
    return current.depth ? current.stack[current.depth - 1] : NULL;
}

CUresult sg_enter_look_up(void)
{
    SG_TRY(sg_enter());
    if (sg_on_caller_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    CUcontext ctx = sg_current_context();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->active)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load(&ctx->sticky);
}

CUresult sg_enter_context(void)
{
    SG_TRY(sg_enter_look_up());
    if (!sg_scheduler->enter)
        return CUDA_SUCCESS;
    sg_scheduler->enter();
    return (CUresult)atomic_load(&sg_current_context()->sticky);
}

/* ---- the calling thread's stack of contexts ---- */

static CUresult check_context(CUcontext ctx)
{
    return ctx == &sg.ctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

SG_EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    SG_TRY(sg_enter());
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = sg_current_context();
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    SG_TRY(sg_enter());
    SG_TRY(check_context(ctx));
    if (current.depth == sizeof current.stack / sizeof current.stack[0])
        return CUDA_ERROR_INVALID_VALUE;
    current.stack[current.depth++] = ctx;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    SG_TRY(sg_enter());
    if (!current.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext top = current.stack[--current.depth];
    if (pctx)
        *pctx = top;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
    SG_TRY(sg_enter());
    if (ctx)
        SG_TRY(check_context(ctx));
    if (current.depth)
        current.depth--;
    return ctx ? cuCtxPushCurrent_v2(ctx) : CUDA_SUCCESS;
}
