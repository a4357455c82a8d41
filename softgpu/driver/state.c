/* state.c: the driver's one state: configuration from SOFTGPU_*, initialisation, the log. */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/rules.h"
#include "softgpu/driver/scheduler/profile.h"
#include "softgpu/driver/stream/streams.h"

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

void sg_set_sticky_in(CUcontext ctx, CUresult error, const char *format, ...)
{
    int none = CUDA_SUCCESS;
    if (!atomic_compare_exchange_strong(&ctx->sticky, &none, (int)error) || sg.config.log_level < 1)
        return;
    va_list args;
    va_start(args, format);
    log_line(format, args);
    va_end(args);
}

bool sg_parse_bytes(const char *text, size_t *out)
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
    c->spin_ns = 1000 * read_number("SOFTGPU_SPIN", 0, 10000, 20);
    const unsigned installed = read_number("SOFTGPU_DEVICES", 1, SG_MAX_DEVICES, 1);
    c->devices = sg_read_visible(installed, c->installed);
    c->poison = read_number("SOFTGPU_POISON", 0, 1, 0);
    c->protect = read_number("SOFTGPU_PROTECT", 0, 1, 1);
    c->dry = read_number("SOFTGPU_DRY", 0, 1, 0);
    read_scheduler();
    sg_profile_init();
    const int named = 10 * sg_profile->capability_major + sg_profile->capability_minor;
    c->arch = read_number("SOFTGPU_ARCH", 50, 129, sg_profile_named ? (unsigned)named : 90);
    sg_times_init();

    /* 8 GiB, but all devices no more than half of what the machine has. */
    size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    c->memory_bytes = (size_t)8 << 30;
    if (c->memory_bytes > ram / 2 / installed)
        c->memory_bytes = ram / 2 / installed;
    if (sg_profile_named)
        c->memory_bytes = (size_t)sg_profile->memory_gib << 30;
    const char *text = getenv("SOFTGPU_MEMORY");
    size_t wanted;
    if (text && *text) {
        if (sg_parse_bytes(text, &wanted) && wanted >= SG_CHUNK_BYTES)
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
    if (!sg.config.devices)
        return CUDA_ERROR_NO_DEVICE;
    sg_limits_init();
    sg_rules_init();
    SG_TRY(sg_modes_init());
    SG_TRY(sg_phys_init(sg.config.devices, sg.config.memory_bytes));
    SG_TRY(sg_fault_init());
    SG_TRY(sg_window_init());
    SG_TRY(sg_queue_init());
    sg_scheduler = sg.config.deterministic ? &sg_deterministic_scheduler : &sg_threads_scheduler;
    SG_TRY(sg_scheduler->start(sg.config.workers));
    sg_pools_init();
    SG_TRY(sg_context_init());
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
