/* link_cache.c: see link_cache.h. */
#include "offload/link_cache.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
