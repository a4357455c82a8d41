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

/* What direct access begins and ends at: a multiple of every device's blocks. Where no room is reserved the file grows by so much. */
enum { UNIT = 4096, LARGEST_PIECE = 1 << 20, GROWTH = 64 };

struct ebb_stretch {
    size_t stage_bytes;     /* of what has one sum */
    uint32_t count, *piece; /* the file's, in the content's order */
    uint64_t sum[];
};

/* Once for each reason: the next one would say the same. */
static void give_up(ebb_disk_t *disk, const char *what, int error)
{
    if (!disk->closed)
        ebb_log(EBB_WARN, "EBB_DISK=%s: %s: %s: nothing more goes there", ebb_options.disk, what,
                strerror(error));
    disk->closed = true;
}

/* ---- the file ---- */

/* FOLDER[:BYTES]; the folder's own name may have colons. */
static size_t read_option(char *folder, size_t room)
{
    int64_t bytes = 0;
    snprintf(folder, room, "%s", ebb_options.disk);
    char *colon = strrchr(folder, ':');
    if (!colon || !ebb_parse_bytes(colon + 1, &bytes) || bytes <= 0)
        return 0;
    *colon = 0;
    return (size_t)bytes;
}

/* Where a file system has no files without a name, one that loses it at once. */
static int open_and_unlink(const char *folder, int flags)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/ebb-disk-XXXXXX", folder) >= (int)sizeof path)
        return -1;
    const int file = mkostemp(path, flags);
    if (file >= 0)
        unlink(path);
    return file;
}

/* Some file systems have no direct access. */
static int open_without_name(const char *folder)
{
    static const int access[] = {O_CLOEXEC | O_DIRECT, O_CLOEXEC};
    int file = -1;
    for (int i = 0; i < 2 && file < 0; i++) {
        file = open(folder, O_TMPFILE | O_RDWR | access[i], 0600);
        if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) /* EISDIR: before Linux 3.11 */
            file = open_and_unlink(folder, access[i]);
        if (file < 0 && errno != EINVAL)
            break;
    }
    return file;
}

/* By so many pieces. 0, or why not. */
static int grow(ebb_disk_t *disk, size_t count)
{
    const size_t words = (disk->pieces + 63) / 64, more = (disk->pieces + count + 63) / 64;
    uint64_t *used = realloc(disk->used, more * sizeof *used);
    if (!used)
        return ENOMEM;
    memset(used + words, 0, (more - words) * sizeof *used);
    disk->used = used;
    if (fallocate(disk->file, 0, (off_t)(disk->pieces * disk->piece_bytes),
                  (off_t)(count * disk->piece_bytes)))
        return errno;
    disk->pieces += count;
    return 0;
}

static bool is_open(ebb_disk_t *disk)
{
    char folder[4096];
    if (disk->piece_bytes || disk->closed)
        return !disk->closed;
    disk->reserved_bytes = read_option(folder, sizeof folder);
    disk->piece_bytes = EBB_CHUNK_BYTES < LARGEST_PIECE ? EBB_CHUNK_BYTES : LARGEST_PIECE;
    disk->file = open_without_name(folder);
    if (disk->file < 0) {
        give_up(disk, "no file can be opened there", errno);
        return false;
    }
    const size_t pieces = disk->reserved_bytes / disk->piece_bytes;
    const int error = pieces ? grow(disk, pieces) : 0;
    if (error)
        give_up(disk, "so much cannot be reserved", error);
    return !error;
}

size_t ebb_host_behind(ebb_device_t *dev)
{
    ebb_disk_t *disk = &dev->ebb->offload->disk;
    const bool open = *ebb_options.disk && is_open(disk);
    return open ? disk->reserved_bytes / disk->piece_bytes * disk->piece_bytes / dev->ebb->device_count : 0;
}

/* ---- stretches ---- */

/* The first one that is free, of which there is one. */
static uint32_t take(ebb_disk_t *disk)
{
    while (!~disk->used[disk->first_free / 64])
        disk->first_free = (disk->first_free / 64 + 1) * 64;
    while (disk->used[disk->first_free / 64] >> disk->first_free % 64 & 1)
        disk->first_free++;
    disk->used[disk->first_free / 64] |= UINT64_C(1) << disk->first_free % 64;
    return (uint32_t)disk->first_free;
}

static int make_room(ebb_disk_t *disk, size_t count)
{
    const size_t available = disk->pieces - disk->bytes / disk->piece_bytes;
    if (available >= count)
        return 0;
    if (disk->reserved_bytes)
        return ENOSPC;
    const size_t missing = count - available;
    return missing < GROWTH && !grow(disk, GROWTH) ? 0 : grow(disk, missing);
}

static ebb_stretch_t *new_stretch(ebb_disk_t *disk, size_t bytes, size_t stage_bytes)
{
    const size_t count = (bytes + disk->piece_bytes - 1) / disk->piece_bytes,
                 sums = (bytes + stage_bytes - 1) / stage_bytes;
    ebb_stretch_t *s = calloc(1, sizeof *s + sums * sizeof s->sum[0] + count * sizeof s->piece[0]);
    const int error = s ? make_room(disk, count) : ENOMEM;
    if (error) {
        if (!disk->full)
            ebb_log(EBB_WARN, "EBB_DISK=%s: no room for %zu MiB more: %s", ebb_options.disk, bytes >> 20,
                    strerror(error));
        disk->full = true;
        free(s);
        return NULL;
    }
    s->stage_bytes = stage_bytes;
    s->piece = (uint32_t *)&s->sum[sums];
    while (s->count < count)
        s->piece[s->count++] = take(disk);
    return s;
}

void *ebb_disk_alloc(ebb_device_t *dev, size_t bytes)
{
    ebb_disk_t *disk = &dev->ebb->offload->disk;
    const size_t stage_bytes = ebb_stage_piece(dev);
    ebb_stretch_t *s = stage_bytes && is_open(disk) ? new_stretch(disk, bytes, stage_bytes) : NULL;
    if (!s) {
        ebb_fail(CUDA_ERROR_OUT_OF_MEMORY, "EBB_DISK", bytes);
        return NULL;
    }
    if (!disk->peak_bytes)
        ebb_log(EBB_WARN, "host memory is short: what leaves the device now goes to EBB_DISK=%s",
                ebb_options.disk);
    disk->bytes += s->count * disk->piece_bytes;
    if (disk->bytes > disk->peak_bytes)
        disk->peak_bytes = disk->bytes;
    return s;
}

void ebb_disk_free(ebb_t *ebb, ebb_stretch_t *s)
{
    ebb_disk_t *disk = &ebb->offload->disk;
    for (uint32_t i = 0; i < s->count; i++) {
        disk->used[s->piece[i] / 64] &= ~(UINT64_C(1) << s->piece[i] % 64);
        if (s->piece[i] < disk->first_free)
            disk->first_free = s->piece[i];
    }
    disk->bytes -= s->count * disk->piece_bytes;
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

/* Bytes from that place of the content on that lie side by side in the file, and where. */
static size_t run_at(const ebb_disk_t *disk, const ebb_stretch_t *s, size_t from, size_t bytes, off_t *at)
{
    size_t i = from / disk->piece_bytes, run = disk->piece_bytes - from % disk->piece_bytes;
    *at = (off_t)(s->piece[i] * disk->piece_bytes + from % disk->piece_bytes);
    for (; run < bytes && s->piece[i + 1] == s->piece[i] + 1; i++)
        run += disk->piece_bytes;
    return run < bytes ? run : bytes;
}

/* All of it, in whole units, in as many calls as it takes. 0, or why not. */
static int transfer(const ebb_disk_t *disk, const ebb_stretch_t *s, size_t from, void *data, size_t bytes,
                    bool out)
{
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    for (size_t done = 0; done < bytes;) {
        off_t at;
        const size_t run = run_at(disk, s, from + done, bytes - done, &at);
        const ssize_t n = out ? pwrite(disk->file, (char *)data + done, run, at)
                              : pread(disk->file, (char *)data + done, run, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < UNIT)
            return n < 0 ? errno : EIO;
        done += (size_t)(n - n % UNIT);
    }
    return 0;
}

ebb_status_t ebb_disk_write(ebb_t *ebb, ebb_stretch_t *s, size_t at, const void *from, size_t bytes)
{
    ebb_disk_t *disk = &ebb->offload->disk;
    s->sum[at / s->stage_bytes] = sum_of(from, bytes);
    const int error = transfer(disk, s, at, (void *)(uintptr_t)from, bytes, true);
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
        error = transfer(disk, s, at, to, bytes, false);
        if (!error && sum_of(to, bytes) == s->sum[at / s->stage_bytes]) {
            disk->read_bytes += bytes;
            return 0;
        }
    }
    ebb_log(EBB_WARN, "EBB_DISK=%s: a content cannot be read back: %s", ebb_options.disk,
            error ? strerror(error) : "it has other bytes");
    return ebb_fail(CUDA_ERROR_OPERATING_SYSTEM, "EBB_DISK", bytes);
}
