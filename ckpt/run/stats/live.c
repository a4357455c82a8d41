/* live.c: see live.h. */
#include "ckpt/run/stats/live.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/base/clock.h"
#include "alloc/base/options.h"
#include "alloc/base/status.h"
#include "ckpt/run/state.h"

/* Between two times of writing. Gathering takes some microseconds, so the clock is read after so many operations, or where the program waits. */
enum { TICKS = 64, INTERVAL_NS = 1000000 };

struct ebb_live_page {
    ebb_live_t *page; /* NULL: none */
    bool tried;
    unsigned ticks;
    char path[128];
};
const size_t ebb_part_live_page = sizeof(struct ebb_live_page);

static void open_page(struct ebb_live_page *live)
{
    live->tried = true;
    if (!ebb_options.live || !ebb_live_path(getpid(), live->path, sizeof live->path))
        return;
    unlink(live->path); /* of an earlier process of that number */
    int file = open(live->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *p = MAP_FAILED;
    if (file >= 0 && !ftruncate(file, sizeof *live->page))
        p = mmap(NULL, sizeof *live->page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (p == MAP_FAILED) {
        ebb_log(EBB_DEBUG, "%s cannot be made: nothing for ebb top", live->path);
        if (file >= 0)
            unlink(live->path);
    } else {
        madvise(p, sizeof *live->page, MADV_DONTFORK);
        live->page = p;
        live->page->bytes = sizeof *live->page;
        live->page->process = getpid();
        live->page->started_ns = ebb_now_ns();
        live->page->version = EBB_LIVE_VERSION;
        live->page->magic = EBB_LIVE_MAGIC;
    }
    if (file >= 0)
        close(file);
}

void ebb_live_update(ebb_t *ebb)
{
    struct ebb_live_page *live = ebb->run_shared->live_page;
    if (!live->tried)
        open_page(live);
    if (!live->page)
        return;
    ebb_statistics_t s;
    ebb_device_list_t devices;
    ebb_statistics_gather(ebb, &s, &devices);
    const uint32_t before = atomic_load_explicit(&live->page->sequence, memory_order_relaxed);
    atomic_store_explicit(&live->page->sequence, before + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    live->page->statistics = s;
    live->page->devices.count = devices.count;
    memcpy(live->page->devices.device, devices.device, devices.count * sizeof devices.device[0]);
    live->page->updated_ns = ebb_now_ns();
    atomic_store_explicit(&live->page->sequence, before + 2, memory_order_release);
}

static bool is_old(const struct ebb_live_page *live)
{
    return !live->tried || (live->page && ebb_now_ns() - live->page->updated_ns >= INTERVAL_NS);
}

void ebb_live_refresh(ebb_t *ebb)
{
    struct ebb_live_page *live = ebb->run_shared->live_page;
    live->ticks = 0;
    if (is_old(live))
        ebb_live_update(ebb);
}

void ebb_live_tick(ebb_t *ebb)
{
    struct ebb_live_page *live = ebb->run_shared->live_page;
    if (++live->ticks == TICKS || !live->tried)
        ebb_live_refresh(ebb);
}

void ebb_live_end(ebb_t *ebb)
{
    struct ebb_live_page *live = ebb->run_shared->live_page;
    if (!live->page || live->page->process != getpid())
        return;
    unlink(live->path);
    live->page = NULL; /* the mapping ends with the process */
}
