/* top.c: `ebb top`: the page that a running program under ebb keeps (live.h), once or again and again. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ckpt/run/stats/live.h"
#include "cli/cli.h"

typedef struct request {
    pid_t process;
    bool once, json, keys;
    double seconds;
} request_t;

typedef struct sync {
    ebb_statistics_t statistics;
    ebb_device_list_t devices;
    uint64_t at_ns;
} moment_t;

/* ---- the page ---- */

static const ebb_live_t *open_page(pid_t process)
{
    char path[128];
    if (!ebb_live_path(process, path, sizeof path))
        return NULL;
    if (kill(process, 0) && errno == ESRCH) {
        unlink(path); /* left behind */
        ebb_cli_fail("no such process", NULL);
        return NULL;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat s;
    void *p = MAP_FAILED;
    if (file >= 0 && !fstat(file, &s) && s.st_size >= (off_t)sizeof(ebb_live_t))
        p = mmap(NULL, sizeof(ebb_live_t), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    const ebb_live_t *page = p;
    if (p == MAP_FAILED) {
        ebb_cli_fail(
            "that process has no page of ebb's: it does not run under ebb, has not used CUDA yet, or has "
            "EBB_LIVE=0",
            path);
        return NULL;
    }
    if (page->magic == EBB_LIVE_MAGIC && page->version == EBB_LIVE_VERSION && page->bytes == sizeof *page)
        return page;
    ebb_cli_fail("the process runs under another version of ebb", NULL);
    return NULL;
}

/* False: it was being written all the time. */
static bool read_page(const ebb_live_t *page, moment_t *out)
{
    for (int i = 0; i < 1000; i++) {
        const uint32_t before = atomic_load_explicit(&page->sequence, memory_order_acquire);
        out->statistics = page->statistics;
        out->devices = page->devices;
        out->at_ns = page->updated_ns;
        atomic_thread_fence(memory_order_acquire);
        if (!(before & 1) && atomic_load_explicit(&page->sequence, memory_order_relaxed) == before)
            return true;
        usleep(100);
    }
    return false;
}

/* ---- showing ---- */

static double mib(uint64_t bytes)
{
    return (double)bytes / (1 << 20);
}

static void print_json(const ebb_statistics_t *s, const ebb_device_list_t *devices)
{
    const char *between = "{";
#define X(key, meaning)                                                                                      \
    printf("%s\"" #key "\": %" PRIu64, between, s->key);                                                     \
    between = ", ";
    EBB_STATISTICS(X)
#undef X
    ebb_devices_print(devices, stdout);
    puts("}");
}

/* One needs no lines of its own. */
static void print_devices(const ebb_device_list_t *list)
{
    for (uint32_t i = 0; i < list->count && list->count > 1; i++) {
        const ebb_device_statistics_t *d = &list->device[i];
        printf("device %-2" PRIu64
               " %9.1f MiB of %.1f, %.1f at most; %.1f MiB live, %.1f beside ebb; evicted %" PRIu64
               ", fetched %" PRIu64 "\n",
               d->device, mib(d->mapped_bytes), mib(d->budget_bytes), mib(d->peak_bytes), mib(d->live_bytes),
               mib(d->overhead_bytes), d->evictions, d->fetches);
    }
}

static void print(const ebb_statistics_t *s, const moment_t *before, double seconds)
{
    const ebb_statistics_t *b = &before->statistics;
    const double rate = seconds > 0 ? 1e-6 / seconds : 0; /* MB/s */
    printf("devices   %9.1f MiB of %.1f, %.1f at most; %.1f MiB live, %.1f beside ebb, %.1f of them the "
           "program's\n",
           mib(s->mapped_bytes), mib(s->budget_bytes), mib(s->peak_bytes), mib(s->live_bytes),
           mib(s->overhead_bytes), mib(s->foreign_bytes));
    printf("host      %9.1f MiB pinned of %.1f, %.1f at most; %.1f MiB pageable\n", mib(s->host_bytes),
           mib(s->host_budget_bytes), mib(s->host_peak_bytes), mib(s->pageable_bytes));
    printf("link      %9.1f MB/s out, %.1f in; %.1f MiB and %.1f in all\n",
           (double)(s->bytes_out - b->bytes_out) * rate, (double)(s->bytes_in - b->bytes_in) * rate,
           mib(s->bytes_out), mib(s->bytes_in));
    printf("evicted   %9" PRIu64 " buffers, fetched %" PRIu64 ", waited %.1f s\n", s->evictions, s->fetches,
           (double)(s->stall_ns + s->driven_stall_ns) * 1e-9);
    printf("steps     %9" PRIu64 " of %" PRIu64 " operations, %" PRIu64 " driven, %" PRIu64
           " fallbacks; %" PRIu64 " operations in all\n",
           s->steps, s->step_operations, s->steps_driven, s->fallbacks, s->operations);
    printf("plan      %9" PRIu64 " buffers kept, %" PRIu64 " offloaded, %" PRIu64 " dropped; %" PRIu64
           " replays, %" PRIu64 " verified, %" PRIu64 " mismatches\n",
           s->kept, s->offloaded, s->dropped, s->replays, s->verified, s->mismatches);
}

static void print_keys(void)
{
    puts("| key | meaning |\n| --- | --- |");
#define X(key, meaning) puts("| `" #key "` | " meaning " |");
    EBB_STATISTICS(X)
#undef X
#define X(key, meaning) puts("| `devices[]." #key "` | " meaning " |");
    EBB_DEVICE_STATISTICS(X)
#undef X
}

static int watch(const request_t *r)
{
    const ebb_live_t *page = open_page(r->process);
    moment_t before = {.at_ns = 0}, now;
    if (!page)
        return 2;
    for (bool first = true;; first = false) {
        if (!read_page(page, &now))
            return ebb_cli_fail("the page cannot be read", NULL);
        if (r->json)
            print_json(&now.statistics, &now.devices);
        else {
            if (!r->once && isatty(STDOUT_FILENO))
                fputs("\033[H\033[J", stdout);
            print_devices(&now.devices);
            print(&now.statistics, first ? &now : &before, (double)(now.at_ns - before.at_ns) * 1e-9);
        }
        fflush(stdout);
        if (r->once)
            return 0;
        before = now;
        nanosleep(&(struct timespec){.tv_sec = (time_t)r->seconds,
                                     .tv_nsec = (long)((r->seconds - (double)(time_t)r->seconds) * 1e9)},
                  NULL);
        if (kill(r->process, 0) && errno == ESRCH)
            return 0;
    }
}

/* ---- the command ---- */

static error_t parse(int key, char *word, struct argp_state *state)
{
    request_t *r = state->input;
    char *end = NULL;
    switch (key) {
    case '1':
        r->once = true;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    case 'k':
        r->keys = true;
        return 0;
    case 'd':
        r->seconds = strtod(word, &end);
        if (*end || !(r->seconds >= 0.01 && r->seconds < 1e6))
            argp_error(state, "not a number of seconds: %s", word);
        return 0;
    case ARGP_KEY_ARG:
        r->process = (pid_t)strtol(word, &end, 10);
        if (*end || r->process <= 0 || state->arg_num)
            argp_error(state, "not the number of one process: %s", word);
        return 0;
    case ARGP_KEY_END:
        if (!r->process && !r->keys)
            argp_error(state, "which process?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int ebb_top_command(int argc, char **argv)
{
    static const struct argp_option flags[] = {
        {"once", '1', NULL, 0, "Show it once, then end", 0},
        {"json", 'j', NULL, 0, "As JSON, an object a line", 0},
        {"delay", 'd', "SECONDS", 0, "Time between two looks (1)", 0},
        {"keys", 'k', NULL, 0, "List what there is, as a table in Markdown", 0},
        {0}};
    static const struct argp parser = {
        flags, parse, "PID", "Show what a running program under ebb does with its memory, until it ends.",
        NULL,  NULL,  NULL};
    request_t r = {.seconds = 1};
    argp_parse(&parser, argc, argv, 0, NULL, &r);
    if (r.keys) {
        print_keys();
        return 0;
    }
    return watch(&r);
}
