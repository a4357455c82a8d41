/* top.c: `ebb top`: the pages that running programs under ebb keep (live.h): all of them in a list, or one again and again. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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
#include "cli/command.h"

typedef struct request {
    bool once, json, keys;
    double seconds;
} request_t;

typedef struct look {
    ebb_statistics_t statistics;
    ebb_device_list_t devices;
    uint64_t at_ns;
} look_t;

/* ---- the page ---- */

/* Also one that its parent has not waited for yet: it has no command line any more. */
static bool has_ended(pid_t process)
{
    char path[64];
    if (kill(process, 0) && errno == ESRCH)
        return true;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process);
    FILE *f = fopen(path, "r");
    const bool empty = f && fgetc(f) == EOF && !ferror(f);
    if (f)
        fclose(f);
    return empty;
}

/* NULL: `why` tells. A page that a process has left behind is removed. */
static const ebb_live_t *open_page(pid_t process, const char **why)
{
    char path[128];
    struct stat s;
    void *p = MAP_FAILED;
    *why = "it does not run under ebb, has not used CUDA yet, or has EBB_LIVE=0";
    if (!ebb_live_path(process, path, sizeof path))
        return NULL;
    if (has_ended(process)) {
        *why = "no such process";
        unlink(path);
        return NULL;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file >= 0 && !fstat(file, &s) && s.st_size >= (off_t)sizeof(ebb_live_t))
        p = mmap(NULL, sizeof(ebb_live_t), PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    const ebb_live_t *page = p;
    if (p == MAP_FAILED)
        return NULL;
    if (page->magic == EBB_LIVE_MAGIC && page->version == EBB_LIVE_VERSION && page->bytes == sizeof *page)
        return page;
    *why = "it runs under another version of ebb";
    munmap(p, sizeof(ebb_live_t));
    return NULL;
}

/* False: it was being written all the time. */
static bool read_page(const ebb_live_t *page, look_t *out)
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

/* ---- one program ---- */

/* Its command line, with the program's folders left out. */
static void find_program(pid_t process, char *out, size_t room)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)process);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f)
        fclose(f);
    line[n] = 0;
    const char *slash = strrchr(line, '/');
    const size_t from = slash ? (size_t)(slash + 1 - line) : 0;
    for (size_t i = from; i + 1 < n; i++)
        if (!line[i])
            line[i] = ' ';
    snprintf(out, room, "%s", n ? line + from : "?");
}

/* Of whoever started it together with others: "rank 3 of 8: ", or "". */
static void find_rank(pid_t process, char *out, size_t room)
{
    enum { MOST = 4096 };
    char path[64], *variable[MOST + 1], *text = malloc(1 << 20);
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)process);
    FILE *f = text ? fopen(path, "r") : NULL;
    const size_t n = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
    if (f)
        fclose(f);
    if (n)
        text[n] = 0;
    for (size_t at = 0; at < n && count < MOST; at += strlen(text + at) + 1)
        variable[count++] = text + at;
    variable[count] = NULL;
    const ebb_process_rank_t rank = ebb_process_rank(variable);
    free(text);
    *out = 0;
    if (rank.count > 1)
        snprintf(out, room, "rank %d of %d: ", rank.number, rank.count);
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

static void print_bar(uint64_t part, uint64_t whole, unsigned width)
{
    const unsigned full = whole ? (unsigned)(part * width / whole) : 0;
    putchar('[');
    for (unsigned i = 0; i < width; i++)
        putchar(i < full ? '#' : '.');
    putchar(']');
}

static void print_memory(const ebb_statistics_t *s, const ebb_device_list_t *list)
{
    const unsigned columns = ebb_cli_columns(), width = columns > 90 ? 50 : columns - 40;
    fputs("memory    ", stdout);
    print_bar(s->mapped_bytes, s->budget_bytes, width);
    printf(" %.1f of %.1f MiB\n", ebb_cli_mib(s->mapped_bytes), ebb_cli_mib(s->budget_bytes));
    printf("          %.1f at most; %.1f live; %.1f not ebb's\n", ebb_cli_mib(s->peak_bytes),
           ebb_cli_mib(s->live_bytes), ebb_cli_mib(s->overhead_bytes));
    for (uint32_t i = 0; i < list->count && list->count > 1; i++) {
        const ebb_device_statistics_t *d = &list->device[i];
        printf("device %-2" PRIu64 " %.1f of %.1f MiB, %.1f at most; %.1f live\n", d->device,
               ebb_cli_mib(d->mapped_bytes), ebb_cli_mib(d->budget_bytes), ebb_cli_mib(d->peak_bytes),
               ebb_cli_mib(d->live_bytes));
    }
    printf("host      %.1f of %.1f MiB pinned, %.1f at most; %.1f pageable; %.1f on disk\n",
           ebb_cli_mib(s->host_bytes), ebb_cli_mib(s->host_budget_bytes), ebb_cli_mib(s->host_peak_bytes),
           ebb_cli_mib(s->pageable_bytes), ebb_cli_mib(s->disk_bytes));
}

/* Milliseconds: between two looks; else of the driven steps, else of all since the program began; 0: there was none. */
static double step_ms(const look_t *now, const look_t *before, const ebb_live_t *page)
{
    const ebb_statistics_t *s = &now->statistics;
    const uint64_t steps = s->steps - before->statistics.steps;
    if (steps)
        return (double)(now->at_ns - before->at_ns) / (double)steps * 1e-6;
    if (s->driven_timed)
        return (double)s->driven_ns / (double)s->driven_timed * 1e-6;
    return s->steps ? (double)(now->at_ns - page->started_ns) / (double)s->steps * 1e-6 : 0;
}

static void print_overhead(const ebb_statistics_t *s, const ebb_statistics_t *b, double ns)
{
    if (ns > 0)
        printf("overhead  %.1f%% waiting for planned copies, %.1f%% for evictions\n",
               100 * (double)(s->driven_stall_ns - b->driven_stall_ns) / ns,
               100 * (double)(s->stall_ns - b->stall_ns) / ns);
    else
        printf("overhead  %.1f s waiting for planned copies, %.1f s for evictions\n",
               (double)s->driven_stall_ns * 1e-9, (double)s->stall_ns * 1e-9);
    printf("          %" PRIu64 " launches repeated, %" PRIu64 " evictions, %" PRIu64 " fetches\n",
           s->replays + s->reactive_replays, s->evictions, s->fetches);
}

static void print_link(const ebb_statistics_t *s, const ebb_statistics_t *b, double ns)
{
    printf("link      %.1f MiB out, %.1f in", ebb_cli_mib(s->bytes_out), ebb_cli_mib(s->bytes_in));
    if (ns > 0)
        printf("; now %.1f and %.1f MB/s", (double)(s->bytes_out - b->bytes_out) / ns * 1e3,
               (double)(s->bytes_in - b->bytes_in) / ns * 1e3);
    putchar('\n');
}

static void print_steps(const ebb_statistics_t *s, double ms)
{
    if (!s->steps) {
        printf("step      none found yet in %" PRIu64 " operations\n", s->operations);
        return;
    }
    printf("step      %.2f ms of %" PRIu64 " operations\n", ms, s->step_operations);
    printf("          %" PRIu64 " steps, %" PRIu64 " driven, %" PRIu64 " fallbacks\n", s->steps,
           s->steps_driven, s->fallbacks);
}

/* Memory that will be missing. */
static void print_wanted(const ebb_device_statistics_t *d)
{
    if (d->wanted_bytes)
        printf("          none for the largest steps so far: EBB_BUDGET would have to be %.0f MiB\n",
               ebb_cli_mib(d->wanted_bytes));
    if (d->wanted_double_bytes)
        printf("          steps twice as large as these will need %.0f MiB\n",
               ebb_cli_mib(d->wanted_double_bytes));
}

static void print(pid_t process, const look_t *now, const look_t *before, const ebb_live_t *page)
{
    const ebb_statistics_t *s = &now->statistics, *b = &before->statistics;
    const double ns = (double)(now->at_ns - before->at_ns);
    const unsigned columns = ebb_cli_columns();
    char program[1024];
    find_program(process, program, columns < sizeof program + 10 ? columns - 10 : sizeof program);
    printf("program   %s\n          process %d, for %.0f s\n", program, (int)process,
           (double)(now->at_ns - page->started_ns) * 1e-9);
    print_memory(s, &now->devices);
    print_link(s, b, ns);
    print_steps(s, step_ms(now, before, page));
    print_overhead(s, b, ns);
    printf("plan      %" PRIu64 " buffers kept, %" PRIu64 " offloaded, %" PRIu64 " dropped\n", s->kept,
           s->offloaded, s->dropped);
    for (uint32_t i = 0; i < now->devices.count; i++)
        print_wanted(&now->devices.device[i]);
    if (s->mismatches)
        printf("          %" PRIu64 " MISMATCHES in %" PRIu64 " comparisons\n", s->mismatches, s->verified);
}

static int watch(pid_t process, const request_t *r)
{
    const char *why;
    const ebb_live_t *page = open_page(process, &why);
    const bool clear = !r->once && !r->json && isatty(STDOUT_FILENO);
    look_t before, now;
    if (!page)
        ebb_command_refuse(&ebb_top_command, "process %d: %s", (int)process, why);
    for (bool first = true;; first = false) {
        if (!read_page(page, &now))
            return ebb_cli_fail("the page cannot be read", NULL);
        if (first)
            before = now;
        if (clear)
            fputs("\033[H\033[J", stdout);
        if (r->json)
            print_json(&now.statistics, &now.devices);
        else
            print(process, &now, &before, page);
        fflush(stdout);
        if (r->once)
            return 0;
        before = now;
        nanosleep(&(struct timespec){.tv_sec = (time_t)r->seconds,
                                     .tv_nsec = (long)((r->seconds - (double)(time_t)r->seconds) * 1e9)},
                  NULL);
        if (has_ended(process)) {
            if (!r->json)
                printf("ended     process %d is no longer there\n", (int)process);
            return 0;
        }
    }
}

/* ---- all of them ---- */

static void print_line(pid_t process, const look_t *now, const ebb_live_t *page)
{
    const ebb_statistics_t *s = &now->statistics;
    const unsigned columns = ebb_cli_columns();
    char rank[48], program[1024];
    find_rank(process, rank, sizeof rank);
    const size_t before = 45 + strlen(rank), room = columns > before + 10 ? columns - before : 10;
    find_program(process, program, room < sizeof program ? room : sizeof program);
    printf("%8d %9.1f of %9.1f %10.2f  %s%s\n", (int)process, ebb_cli_mib(s->mapped_bytes),
           ebb_cli_mib(s->budget_bytes), step_ms(now, now, page), rank, program);
}

static int list(void)
{
    char path[128];
    glob_t found;
    unsigned shown = 0;
    look_t now;
    if (!ebb_live_path(0, path, sizeof path - 8))
        return ebb_cli_fail("there is no folder for pages", NULL);
    char *const number = strrchr(path, '-') + 1;
    const size_t prefix = (size_t)(number - path);
    strcpy(number, "[0-9]*");
    if (!glob(path, 0, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *why;
            const pid_t process = (pid_t)strtol(found.gl_pathv[i] + prefix, NULL, 10);
            const ebb_live_t *page = open_page(process, &why);
            if (!page || !read_page(page, &now))
                continue;
            if (!shown++)
                printf("%8s %22s %10s  %s\n", "process", "MiB of its budget", "step ms", "program");
            print_line(process, &now, page);
        }
        globfree(&found);
    }
    if (!shown)
        puts("nothing runs under ebb now");
    return 0;
}

/* ---- the command ---- */

static void print_keys(void)
{
    puts("| key | meaning |\n| --- | --- |");
#define X(key, meaning) puts("| `" #key "` | " meaning " |");
    EBB_STATISTICS(X)
#undef X
#define X(key, meaning) puts("| `devices[]." #key "` | " meaning " |");
    EBB_DEVICE_STATISTICS(X)
#undef X
#define X(key, meaning) puts("| `variants[]." #key "` | " meaning " |");
    EBB_VARIANT_STATISTICS(X)
#undef X
}

static void take(const ebb_command_t *c, int key, const char *value, void *request)
{
    request_t *r = request;
    char *end = NULL;
    r->once |= key == '1';
    r->json |= key == 'j';
    r->keys |= key == 'k';
    if (key != 'd')
        return;
    r->seconds = strtod(value, &end);
    if (*end || !(r->seconds >= 0.01 && r->seconds < 1e6))
        ebb_command_refuse(c, "--delay %s: not a number of seconds", value);
}

static int run(int argc, char **argv)
{
    request_t r = {.seconds = 1};
    char *end, **word = ebb_command_parse(&ebb_top_command, argc, argv, take, &r);
    if (r.keys) {
        print_keys();
        return 0;
    }
    if (!*word)
        return r.json ? ebb_cli_fail("top: --json is of one process", NULL) : list();
    const long process = strtol(*word, &end, 10);
    if (*end || process <= 0 || process > INT_MAX)
        ebb_command_refuse(&ebb_top_command, "%s is not the number of a process", *word);
    return watch((pid_t)process, &r);
}

static const ebb_flag_t flags[] = {
    {NULL, "once", '1', NULL, "show it once, then end"},
    {NULL, "json", 'j', NULL, "as JSON, an object a line"},
    {NULL, "delay", 'd', "SECONDS", "time between two looks (1)"},
    {NULL, "keys", 'k', NULL, "list the keys of EBB_STATS and --json, in Markdown"},
    {0}};
const ebb_command_t ebb_top_command = {.name = "top",
                                       .summary = "list what runs under ebb, or watch one program's memory",
                                       .usage = "[PID]",
                                       .about = "Without PID it lists the programs that run under ebb. With "
                                                "one it shows that program, every second, until it ends.",
                                       .example = {"", "4711", "--once --json 4711"},
                                       .flags = flags,
                                       .words = EBB_TAKES_PID,
                                       .most = 1,
                                       .run = run};
