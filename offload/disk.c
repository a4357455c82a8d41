/* disk.c: contents in a file (internal.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/base/options.h"
#include "alloc/base/table.h"
#include "offload/internal.h"

/* What direct access begins and ends at: a multiple of every device's blocks. */
enum { UNIT = 4096 };

typedef struct ebb_disk_file {
    int descriptor;
    off_t end; /* of the last stretch */
    unsigned stretches;
} file_t;

struct ebb_stretch {
    file_t *file;
    off_t at;
    size_t bytes; /* whole units */
    size_t piece;
    uint64_t sum[]; /* of each piece */
};

static size_t whole_units(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* Once for each reason: the next one would say the same. */
static void give_up(ebb_disk_t *disk, const char *what, int error)
{
    if (!disk->closed)
        ebb_log(EBB_WARN, "EBB_DISK=%s: %s: %s: nothing more goes there", ebb_options.disk, what,
                strerror(error));
    disk->closed = true;
}

/* ---- files ---- */

/* FOLDER[:BYTES]; the folder's own name may have colons. */
static void read_option(ebb_disk_t *disk, char *folder, size_t room)
{
    int64_t bytes = 0;
    snprintf(folder, room, "%s", ebb_options.disk);
    char *colon = strrchr(folder, ':');
    const bool limited = colon && ebb_parse_bytes(colon + 1, &bytes) && bytes > 0;
    if (limited)
        *colon = 0;
    disk->limit_bytes = limited ? (size_t)bytes : SIZE_MAX;
}

/* Some file systems have no direct access. */
static int open_without_name(const char *folder)
{
    const int flags = O_TMPFILE | O_RDWR | O_CLOEXEC, direct = open(folder, flags | O_DIRECT, 0600);
    return direct >= 0 || errno != EINVAL ? direct : open(folder, flags, 0600);
}

static bool gives_back(int descriptor)
{
    return !fallocate(descriptor, 0, 0, UNIT) &&
           !fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, UNIT);
}

static void close_file(file_t *file)
{
    close(file->descriptor);
    free(file);
}

static file_t *open_file(ebb_disk_t *disk)
{
    char folder[4096];
    read_option(disk, folder, sizeof folder);
    file_t *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->descriptor = open_without_name(folder);
    if (file->descriptor >= 0 && gives_back(file->descriptor)) {
        ebb_log(EBB_WARN, "host memory is short: what leaves the device now goes to a file in %s", folder);
        return file;
    }
    give_up(disk,
            file->descriptor < 0 ? "no file without a name can be opened"
                                 : "its space cannot be allocated and given back",
            errno);
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file);
    return NULL;
}

/* ---- stretches ---- */

/* Room behind the last one of the file. 0, or why not. */
static int extend(file_t *file, size_t bytes)
{
    if (fallocate(file->descriptor, 0, file->end, (off_t)bytes))
        return errno;
    file->end += (off_t)bytes;
    file->stretches++;
    return 0;
}

static bool is_open(ebb_disk_t *disk)
{
    if (!disk->file && !disk->closed)
        disk->file = open_file(disk);
    return disk->file && !disk->closed;
}

/* In a new file, if this one is as large as its file system lets it be. 0, or why there is none. */
static int find_room(ebb_disk_t *disk, size_t bytes)
{
    if (bytes > disk->limit_bytes - disk->bytes)
        return ENOSPC;
    const int error = extend(disk->file, bytes);
    if (error != EFBIG || !disk->file->end)
        return error;
    if (!disk->file->stretches)
        close_file(disk->file);
    disk->file = NULL;
    return is_open(disk) ? extend(disk->file, bytes) : error;
}

static ebb_stretch_t *new_stretch(ebb_disk_t *disk, size_t bytes, size_t piece)
{
    const size_t whole = whole_units(bytes);
    ebb_stretch_t *s = calloc(1, sizeof *s + (bytes + piece - 1) / piece * sizeof s->sum[0]);
    const int error = s ? find_room(disk, whole) : ENOMEM;
    if (error) {
        if (!disk->full)
            ebb_log(EBB_WARN, "EBB_DISK=%s: no room for %zu MiB more: %s", ebb_options.disk, whole >> 20,
                    strerror(error));
        disk->full = true;
        free(s);
        return NULL;
    }
    s->file = disk->file;
    s->at = disk->file->end - (off_t)whole;
    s->bytes = whole;
    s->piece = piece;
    return s;
}

void *ebb_disk_alloc(ebb_device_t *dev, size_t bytes)
{
    ebb_disk_t *disk = &dev->ebb->offload->disk;
    const size_t piece = ebb_stage_piece(dev);
    ebb_stretch_t *s = piece && is_open(disk) ? new_stretch(disk, bytes, piece) : NULL;
    if (!s) {
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "EBB_DISK", bytes);
        return NULL;
    }
    disk->bytes += s->bytes;
    if (disk->bytes > disk->peak_bytes)
        disk->peak_bytes = disk->bytes;
    return s;
}

void ebb_disk_free(ebb_t *ebb, ebb_stretch_t *s)
{
    ebb_disk_t *disk = &ebb->offload->disk;
    disk->bytes -= s->bytes;
    if (!--s->file->stretches && s->file != disk->file)
        close_file(s->file);
    else /* else it goes with the file */
        (void)!fallocate(s->file->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, s->at,
                         (off_t)s->bytes);
    free(s);
}

/* ---- pieces ---- */

/* Of bytes that come in any number: four hashes side by side, as one alone waits for its products. */
static uint64_t sum_of(const unsigned char *data, size_t bytes)
{
    uint64_t sum[4] = {bytes, 1, 2, 3}, word[4];
    for (size_t at = 0; at < bytes; at += sizeof word) {
        memset(word, 0, sizeof word);
        memcpy(word, data + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        for (unsigned i = 0; i < 4; i++)
            sum[i] = ebb_mix(sum[i], word[i]);
    }
    return ebb_mix(ebb_mix(sum[0], sum[1]), ebb_mix(sum[2], sum[3]));
}

/* All of it, in as many calls as it takes, each at a whole unit. 0, or why not. */
static int transfer(const ebb_stretch_t *s, size_t from, void *data, size_t bytes, bool out)
{
    char *at = data;
    off_t place = s->at + (off_t)from;
    for (size_t left = whole_units(bytes); left;) {
        ssize_t n =
            out ? pwrite(s->file->descriptor, at, left, place) : pread(s->file->descriptor, at, left, place);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < UNIT)
            return n < 0 ? errno : EIO;
        n -= n % UNIT;
        at += n;
        place += n;
        left -= (size_t)n;
    }
    return 0;
}

ebb_status_t ebb_disk_write(ebb_t *ebb, ebb_stretch_t *s, size_t at, const void *from, size_t bytes)
{
    ebb_disk_t *disk = &ebb->offload->disk;
    s->sum[at / s->piece] = sum_of(from, bytes);
    const int error = transfer(s, at, (void *)(uintptr_t)from, bytes, true);
    if (error) {
        give_up(disk, "a content could not be written, and stays on the device", error);
        return ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "EBB_DISK", bytes);
    }
    disk->written_bytes += bytes;
    return 0;
}

ebb_status_t ebb_disk_read(ebb_t *ebb, const ebb_stretch_t *s, size_t at, void *to, size_t bytes)
{
    ebb_disk_t *disk = &ebb->offload->disk;
    int error = 0;
    for (int tries = 0; tries < 2; tries++) {
        error = transfer(s, at, to, bytes, false);
        if (!error && sum_of(to, bytes) == s->sum[at / s->piece]) {
            disk->read_bytes += bytes;
            return 0;
        }
    }
    ebb_log(EBB_WARN, "EBB_DISK=%s: a content cannot be read back: %s", ebb_options.disk,
            error ? strerror(error) : "it has other bytes");
    return ebb_fail(CUDA_ERROR_OPERATING_SYSTEM, "EBB_DISK", bytes);
}
