#include "model/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STEP_DIGITS 8   /* at least */
#define LOCK_TRIES  100 /* ten seconds */

static bool failed(const char *path, const char *what, fault_t *fault)
{
    return fault_set(fault, "%s: cannot be %s: %s", path, what, strerror(errno));
}

bool folder_join(folder_path_t path, const char *folder, const char *name, fault_t *fault)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (length < 0 || length >= PATH_MAX)
        return fault_set(fault, "%.200s...: the path is too long", folder);
    return true;
}

static bool step_path(folder_path_t path, const char *folder, uint64_t step, bool partial, fault_t *fault)
{
    char name[64];
    snprintf(name, sizeof name, "%sstep-%0*" PRIu64 "%s", partial ? "." : "", STEP_DIGITS, step,
             partial ? ".partial" : "");
    return folder_join(path, folder, name, fault);
}

/* Step of a name as step_path() makes it. */
static bool parse_name(const char *name, bool partial, uint64_t *step)
{
    char expected[64], *end;
    const char *begin = partial ? ".step-" : "step-";
    if (strncmp(name, begin, strlen(begin)) != 0)
        return false;
    *step = strtoull(name + strlen(begin), &end, 10);
    snprintf(expected, sizeof expected, "%s%0*" PRIu64 "%s", begin, STEP_DIGITS, *step,
             partial ? ".partial" : "");
    return strcmp(name, expected) == 0;
}

bool folder_is_complete(const char *checkpoint)
{
    folder_path_t marker;
    fault_t fault;
    return folder_join(marker, checkpoint, FOLDER_MARKER, &fault) && access(marker, F_OK) == 0;
}

/* ---- looking through ---- */

static int by_step(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* Steps of the checkpoints of a kind, in order; the caller frees them. No folder: none. */
static bool list(const char *folder, bool partial, uint64_t **steps, size_t *count, fault_t *fault)
{
    size_t size = 0;
    *steps = NULL;
    *count = 0;
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return errno == ENOENT ? true : failed(folder, "read", fault);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        uint64_t step;
        if (!parse_name(entry->d_name, partial, &step))
            continue;
        if (*count == size) {
            size = size * 2 + 16;
            uint64_t *larger = realloc(*steps, size * sizeof **steps);
            if (larger == NULL) {
                free(*steps);
                closedir(directory);
                return fault_set(fault, "%s: no memory to list it", folder);
            }
            *steps = larger;
        }
        (*steps)[(*count)++] = step;
    }
    closedir(directory);
    if (*count > 0)
        qsort(*steps, *count, sizeof **steps, by_step);
    return true;
}

bool folder_newest(const char *folder, bool *found, folder_path_t checkpoint, uint64_t *step, fault_t *fault)
{
    uint64_t *steps;
    size_t count;
    *found = false;
    if (!list(folder, false, &steps, &count, fault))
        return false;
    bool good = true;
    while (good && !*found && count > 0) {
        *step = steps[--count];
        good = step_path(checkpoint, folder, *step, false, fault);
        *found = good && folder_is_complete(checkpoint);
    }
    free(steps);
    return good;
}

/* ---- to the disk ---- */

static bool sync_directory(const char *path, fault_t *fault)
{
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = directory >= 0 && fsync(directory) == 0;
    if (!good)
        (void)failed(path, "brought to the disk", fault);
    if (directory >= 0)
        close(directory);
    return good;
}

bool folder_partial(const char *folder, uint64_t step, folder_path_t partial, fault_t *fault)
{
    return step_path(partial, folder, step, true, fault);
}

bool folder_part(folder_path_t path, const char *checkpoint, const char *kind, int number, int count,
                 fault_t *fault)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%05d-of-%05d.bin", kind, number + 1, count);
    return folder_join(path, checkpoint, name, fault);
}

static bool remove_parts(const char *path, fault_t *fault)
{
    DIR *directory = opendir(path);
    bool good = directory != NULL || errno == ENOENT || errno == ENOTDIR || failed(path, "read", fault);
    for (const struct dirent *entry; good && directory != NULL && (entry = readdir(directory)) != NULL;) {
        folder_path_t file, as_written;
        char kind[8];
        int number, count;
        if (sscanf(entry->d_name, "%7[a-z]-%5d-of-%5d.bin", kind, &number, &count) != 3 ||
            (strcmp(kind, FOLDER_SHARD) != 0 && strcmp(kind, FOLDER_LOST) != 0))
            continue;
        good = folder_join(file, path, entry->d_name, fault) &&
               folder_part(as_written, path, kind, number - 1, count, fault);
        if (good && strcmp(file, as_written) != 0)
            continue;
        if (good && unlink(file) != 0 && errno != ENOENT)
            good = failed(file, "removed", fault);
    }
    if (directory != NULL)
        closedir(directory);
    return good;
}

/* The marker goes first. */
static bool remove_checkpoint(const char *path, fault_t *fault)
{
    static const char *const names[] = {FOLDER_MARKER, FOLDER_STATE,          FOLDER_CONFIG,
                                        FOLDER_MODEL,  FOLDER_ADAPTER_CONFIG, FOLDER_ADAPTER};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        folder_path_t file;
        if (!folder_join(file, path, names[i], fault))
            return false;
        if (unlink(file) != 0 && errno != ENOENT && errno != ENOTDIR)
            return failed(file, "removed", fault);
    }
    if (!remove_parts(path, fault))
        return false;
    if (rmdir(path) != 0 && errno != ENOENT)
        return failed(path, "removed", fault);
    return true;
}

bool folder_prepare(const char *folder, fault_t *fault)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return failed(folder, "made", fault);
    if (access(folder, R_OK | W_OK | X_OK) != 0)
        return failed(folder, "written into", fault);
    return true;
}

bool folder_lock(const char *folder, int *lock, fault_t *fault)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    folder_path_t path;
    if (!folder_join(path, folder, ".lock", fault))
        return false;
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0)
        return failed(path, "made", fault);
    for (int tries = 0; flock(*lock, LOCK_EX | LOCK_NB) != 0; tries++) {
        const int why = errno;
        if (why == EWOULDBLOCK && tries < LOCK_TRIES) {
            nanosleep(&pause, NULL);
            continue;
        }
        close(*lock);
        *lock = -1;
        return why != EWOULDBLOCK ||
               fault_set(fault, "%s: another training writes its checkpoints there", folder);
    }
    return true;
}

bool folder_begin(const char *folder, uint64_t step, folder_path_t partial, fault_t *fault)
{
    if (!folder_partial(folder, step, partial, fault) || !remove_checkpoint(partial, fault))
        return false;
    if (mkdir(partial, 0777) != 0)
        return failed(partial, "made", fault);
    return true;
}

static bool write_marker(const char *checkpoint, uint64_t step, fault_t *fault)
{
    folder_path_t path;
    if (!folder_join(path, checkpoint, FOLDER_MARKER, fault))
        return false;
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return failed(path, "written", fault);
    bool good =
        fprintf(file, "step %" PRIu64 "\n", step) > 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (!good)
        (void)failed(path, "written", fault);
    fclose(file);
    return good;
}

bool folder_commit(const char *folder, uint64_t step, folder_path_t checkpoint, fault_t *fault)
{
    folder_path_t partial;
    if (!step_path(partial, folder, step, true, fault) || !step_path(checkpoint, folder, step, false, fault))
        return false;
    if (!folder_is_complete(checkpoint) && !remove_checkpoint(checkpoint, fault))
        return false; /* left by an interrupted one */
    if (!sync_directory(partial, fault))
        return false;
    if (rename(partial, checkpoint) != 0)
        return failed(checkpoint, "made", fault);
    return sync_directory(folder, fault) && write_marker(checkpoint, step, fault) &&
           sync_directory(checkpoint, fault) && sync_directory(folder, fault);
}

/* Checkpoints of a kind that are not complete, and of those that are all but the latest `keep`. */
static bool prune_kind(const char *folder, bool partial, int keep, fault_t *fault)
{
    uint64_t *steps;
    size_t count;
    int kept = 0;
    if (!list(folder, partial, &steps, &count, fault))
        return false;
    bool good = true;
    while (good && count > 0) {
        folder_path_t path;
        good = step_path(path, folder, steps[--count], partial, fault);
        if (good && folder_is_complete(path) && (keep == 0 || kept < keep))
            kept++;
        else
            good = good && remove_checkpoint(path, fault);
    }
    free(steps);
    return good;
}

bool folder_prune(const char *folder, int keep, fault_t *fault)
{
    return prune_kind(folder, false, keep, fault) && prune_kind(folder, true, keep, fault);
}
