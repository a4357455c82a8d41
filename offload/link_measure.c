/* link_measure.c: the rates of the link, measured, and kept in a file (link.h). */
#include "offload/link.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/ebb_alloc.h"

/* ---- in a file ---- */

enum { VERSION = 3, LONGEST = 320, MOST_LINES = 256 };

/* The folder's path; false: there is none. */
static bool folder(char out[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = cache && *cache == '/' ? snprintf(out, PATH_MAX, "%s/ebb", cache)
            : home && *home == '/' ? snprintf(out, PATH_MAX, "%s/.cache/ebb", home)
                                   : -1;
    return n > 0 && n < PATH_MAX - 32;
}

/* What a line of this link begins with. */
static void beginning(const ebb_link_key_t *key, char out[LONGEST])
{
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    snprintf(out, LONGEST, "%d %s %s %d ", VERSION, *host ? host : "-", *key->pci ? key->pci : "-",
             key->driver_version);
}

/* Whether a line is this link's; its rates. */
static bool is_of(const ebb_link_key_t *key, const char *line, ebb_link_t *out)
{
    char begin[LONGEST];
    int rates = 0;
    beginning(key, begin);
    if (strncmp(line, begin, strlen(begin)))
        return false;
    line += strlen(begin);
    if (sscanf(line, "%lf %lf %lf %lf %lf %lf %n", &out->out, &out->in, &out->out_both, &out->in_both,
               &out->out_ns, &out->in_ns, &rates) != 6)
        return false;
    const char *name = line + rates;
    return !strncmp(name, key->device, strlen(key->device)) && !strcmp(name + strlen(key->device), "\n");
}

static bool is_rate(double rate)
{
    return rate > 0.001 && rate < 10000;
}

static bool is_time(double ns)
{
    return ns >= 0 && ns < 1e9;
}

bool ebb_link_cache_read(const ebb_link_key_t *key, ebb_link_t *out)
{
    char path[PATH_MAX], line[LONGEST];
    bool found = false;
    if (!folder(path))
        return false;
    strcat(path, "/links");
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = is_of(key, line, out);
    if (f)
        fclose(f);
    return found && is_rate(out->out) && is_rate(out->in) && is_rate(out->out_both) &&
           is_rate(out->in_both) && is_time(out->out_ns) && is_time(out->in_ns);
}

/* The other links' lines. */
static void copy_others(const char *path, const ebb_link_key_t *key, FILE *to)
{
    char line[LONGEST];
    ebb_link_t ignored;
    FILE *from = fopen(path, "re");
    if (!from)
        return;
    for (int i = 0; i < MOST_LINES && fgets(line, sizeof line, from); i++)
        if (strchr(line, '\n') && !is_of(key, line, &ignored))
            fputs(line, to);
    fclose(from);
}

void ebb_link_cache_write(const ebb_link_key_t *key, const ebb_link_t *link)
{
    char path[PATH_MAX], fresh[PATH_MAX], begin[LONGEST];
    if (!folder(path))
        return;
    char *slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
    mkdir(path, 0700);
    snprintf(fresh, sizeof fresh, "%.*s/links.%d", PATH_MAX - 24, path, (int)getpid());
    strcat(path, "/links");
    FILE *f = fopen(fresh, "we");
    if (!f)
        return;
    beginning(key, begin);
    copy_others(path, key, f);
    fprintf(f, "%s%.4f %.4f %.4f %.4f %.0f %.0f %s\n", begin, link->out, link->in, link->out_both,
            link->in_both, link->out_ns, link->in_ns, key->device);
    bool written = !ferror(f);
    written &= !fclose(f);
    if (!written || rename(fresh, path))
        remove(fresh);
}

/* ---- measured ---- */

/* Each way has half of the bytes. Of the other way there are twice as many copies as of the one that is measured, and more as long
 * as they are over before it. */
enum { ROUNDS = 4, LARGE = EBB_LINK_BYTES / 2, SMALL = 64 << 10, LEAST_BESIDE = 4, MOST_BESIDE = 32 };

/* Three copies one behind another: the first keeps the link busy until the host has issued the others, which are timed. */
enum { COPIES = 3 };
static const size_t sizes[COPIES] = {LARGE, SMALL, LARGE};

enum { BEGIN, END_BESIDE, END, EVENTS = END + COPIES };

typedef struct meter {
    const ebb_link_bench_t *bench;
    CUevent event[EVENTS];
} meter_t;

typedef struct result {
    double bytes_per_ns, copy_ns; /* bytes_per_ns 0: could not be measured */
} result_t;

static bool copy(const ebb_link_bench_t *b, int way, size_t bytes)
{
    const size_t at = way ? LARGE : 0;
    return !(way ? ebb_driver.cuMemcpyHtoDAsync_v2(b->device + at, b->host + at, bytes, b->stream[way])
                 : ebb_driver.cuMemcpyDtoHAsync_v2(b->host + at, b->device + at, bytes, b->stream[way]));
}

static bool issue(const meter_t *m, int way, unsigned beside)
{
    const CUstream stream = m->bench->stream[way], other = m->bench->stream[!way];
    bool good = !ebb_driver.cuEventRecord(m->event[BEGIN], other);
    for (unsigned i = 0; i < beside && good; i++)
        good = copy(m->bench, !way, LARGE);
    good = good && !ebb_driver.cuEventRecord(m->event[END_BESIDE], other);
    for (int i = 0; i < COPIES && good; i++)
        good = copy(m->bench, way, sizes[i]) && !ebb_driver.cuEventRecord(m->event[END + i], stream);
    return good;
}

static bool between(const meter_t *m, int from, int to, double *ns)
{
    float ms = 0;
    const bool good =
        !ebb_await_event(m->event[to]) && !ebb_driver.cuEventElapsedTime(&ms, m->event[from], m->event[to]);
    *ns = (double)ms * 1e6;
    return good;
}

/* Where the small copy took nearly as long as the large one, the machine was busy with something else: then it tells nothing. */
static result_t result_of(double small_ns, double large_ns)
{
    if (small_ns > large_ns / 2)
        return (result_t){large_ns > 0 ? LARGE / large_ns : 0, 0};
    const double rate = (LARGE - SMALL) / (large_ns - small_ns), rest = small_ns - SMALL / rate;
    return (result_t){rate, rest > 0 ? rest : 0};
}

/* The best of some rounds, of those that had the other way at work until their end. */
static result_t measure(const meter_t *m, int way, bool both)
{
    double small = 1e18, large = 1e18;
    unsigned beside = both ? LEAST_BESIDE : 0;
    for (int rounds = 0; rounds < ROUNDS;) {
        double now[2], end, end_beside;
        if (!issue(m, way, beside) || !between(m, END, END + 1, &now[0]) ||
            !between(m, END + 1, END + 2, &now[1]) || !between(m, BEGIN, END + 2, &end) ||
            !between(m, BEGIN, END_BESIDE, &end_beside))
            return (result_t){0, 0};
        if (both && end_beside < end && beside < MOST_BESIDE) {
            beside *= 2;
            continue;
        }
        small = now[0] < small ? now[0] : small;
        large = now[1] < large ? now[1] : large;
        rounds++;
    }
    return result_of(small, large);
}

bool ebb_link_measure(const ebb_link_bench_t *bench, ebb_link_t *link)
{
    meter_t m = {.bench = bench};
    bool good = true;
    for (int i = 0; i < EVENTS && good; i++)
        good = !ebb_driver.cuEventCreate(&m.event[i], CU_EVENT_DEFAULT);
    result_t result[2][2] = {{{0, 0}}}; /* [both][way] */
    for (int i = 0; i < 4 && good; i++) {
        result[i / 2][i % 2] = measure(&m, i % 2, i / 2);
        good = result[i / 2][i % 2].bytes_per_ns > 0;
    }
    for (int way = 0; way < 2; way++) /* after a failure copies may be under way */
        ebb_await_stream(bench->stream[way]);
    for (int i = 0; i < EVENTS; i++)
        if (m.event[i])
            ebb_driver.cuEventDestroy_v2(m.event[i]);
    *link = (ebb_link_t){result[0][0].bytes_per_ns, result[0][1].bytes_per_ns, result[1][0].bytes_per_ns,
                         result[1][1].bytes_per_ns, result[0][0].copy_ns,      result[0][1].copy_ns};
    return good;
}
