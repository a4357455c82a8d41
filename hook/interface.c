/* interface.c: what programs call by name (ckpt/run/ebb.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/options.h"
#include "ckpt/run/profile/profile.h"
#include "ckpt/run/stats/stats.h"
#include "hook/internal.h"

unsigned ebb_device_count(void)
{
    const ebb_device_t *any = ebb_enter_to_ask();
    unsigned count = 0;
    if (!any)
        return 0;
    for (unsigned i = 0; i < any->ebb->device_count; i++)
        count += any->ebb->device[i].context != NULL;
    ebb_unlock();
    return count;
}

/* ---- statistics ---- */

void ebb_statistics(ebb_statistics_t *out, size_t bytes)
{
    ebb_statistics_t now = {0};
    ebb_device_list_t devices;
    const ebb_device_t *any = ebb_enter_to_ask();
    if (any) {
        ebb_statistics_gather(any->ebb, &now, &devices);
        ebb_unlock();
    }
    memset(out, 0, bytes);
    memcpy(out, &now, bytes < sizeof now ? bytes : sizeof now);
}

size_t ebb_statistics_json(char *to, size_t room)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (!file)
        return 0;
    const ebb_device_t *any = ebb_enter_to_ask();
    if (any) {
        ebb_statistics_write(any->ebb, file);
        ebb_unlock();
    } else {
        fputs("{}", file);
    }
    if (fclose(file))
        length = 0;
    for (size_t i = 0; i < length; i++) /* "planned" has lines of its own */
        text[i] = text[i] == '\n' ? ' ' : text[i];
    if (room)
        snprintf(to, room, "%s", length ? text : "");
    free(text);
    return length;
}

/* ---- the budget ---- */

enum { LEAST_BUDGET = 4 << 20 }; /* as EBB_BUDGET's (alloc/base/options.h) */

size_t ebb_budget(int device)
{
    const ebb_device_t *dev = device < 0 ? NULL : ebb_enter_device(device);
    const size_t bytes = dev ? dev->budget_bytes : 0;
    if (dev)
        ebb_unlock();
    return bytes;
}

/* Its context is current. */
static int set_budget(ebb_device_t *dev, ebb_size_t size)
{
    size_t total;
    if (ebb_driver.cuDeviceTotalMem_v2(&total, dev->device))
        return -ENODEV;
    return ebb_run_budget(dev, ebb_share_of(size, total)) ? 0 : -ENOMEM;
}

static int set_budgets(ebb_t *ebb, ebb_size_t size)
{
    ebb_visit_t visit;
    int result = 0;
    ebb_options.budget = size;
    for (unsigned i = 0; i < ebb->device_count; i++) {
        ebb_device_t *dev = &ebb->device[i];
        if (!dev->context || ebb_device_visit(dev, &visit))
            continue;
        const int one = set_budget(dev, size);
        result = one ? one : result;
        ebb_device_return(visit);
    }
    return result;
}

int ebb_budget_set(int device, const char *budget)
{
    ebb_size_t size;
    if (!budget || device < -1 || !ebb_parse_size(budget, &size) || size.of == EBB_SIZE_OF_PEAK ||
        (size.of == EBB_SIZE_BYTES && size.amount < LEAST_BUDGET))
        return -EINVAL;
    ebb_device_t *dev = device < 0 ? ebb_enter_any() : ebb_enter_device(device);
    if (!dev)
        return -ENODEV;
    ebb_pinned_call_is_final(); /* what leaves finds its host memory now */
    const int result = ebb_captures_under_way(dev->ebb) ? -EBUSY
                       : device < 0                     ? set_budgets(dev->ebb, size)
                                                        : set_budget(dev, size);
    ebb_unlock();
    ebb_call_again(CUDA_SUCCESS);
    return result;
}

/* ---- decisions ---- */

static void set_paused(bool paused)
{
    const ebb_device_t *any = ebb_enter_to_ask();
    if (!any)
        return;
    ebb_run_pause(any->ebb, paused);
    ebb_unlock();
}

void ebb_decisions_pause(void)
{
    set_paused(true);
}

void ebb_decisions_resume(void)
{
    set_paused(false);
}

void ebb_step_mark(void)
{
    const ebb_device_t *any = ebb_enter_to_ask();
    if (!any)
        return;
    for (unsigned i = 0; i < any->ebb->device_count; i++)
        if (any->ebb->device[i].context)
            ebb_run_mark_step(&any->ebb->device[i]);
    ebb_unlock();
}

void ebb_range_push(const char *name)
{
    ebb_nvtx_push(name);
}

void ebb_range_pop(void)
{
    ebb_nvtx_pop();
}

/* ---- memory that is kept ---- */

/* The buffer that holds *at, or the next one in front of `end`; *at is behind it then. NULL: there is none. */
static ebb_buffer_t *next_buffer(ebb_t *ebb, CUdeviceptr *at, CUdeviceptr end)
{
    while (*at < end) {
        ebb_buffer_t *b = ebb_buffer_at(ebb, *at);
        const bool holds = b && *at < b->address + b->bytes;
        *at = holds ? b->address + b->bytes : *at / EBB_ALIGN_BYTES * EBB_ALIGN_BYTES + EBB_ALIGN_BYTES;
        if (holds)
            return b;
    }
    return NULL;
}

/* From `from` until before `end`. */
static int release(ebb_t *ebb, CUdeviceptr from, CUdeviceptr end)
{
    unsigned count = 0;
    for (ebb_buffer_t *b; (b = next_buffer(ebb, &from, end)) != NULL; count++)
        ebb_buffer_keep_no_more(b);
    return count ? 0 : -ENOENT;
}

static int keep(ebb_t *ebb, CUdeviceptr from, CUdeviceptr end)
{
    unsigned count = 0;
    CUdeviceptr at = from;
    for (ebb_buffer_t *b; (b = next_buffer(ebb, &at, end)) != NULL; count++)
        if (ebb_buffer_keep(b)) {
            release(ebb, from, b->address);
            return -ENOMEM;
        }
    return count ? 0 : -ENOENT;
}

/* Of the address's device. NULL: ebb has no memory there. */
static ebb_device_t *enter_range(CUdeviceptr from)
{
    ebb_device_t *dev = ebb_enter_at(from);
    if (dev && !ebb_address_is_served(dev->ebb, from)) {
        ebb_unlock();
        return NULL;
    }
    return dev;
}

/* On the address's device. */
static int about(const void *address, size_t bytes,
                 int (*does)(ebb_t *ebb, CUdeviceptr from, CUdeviceptr end))
{
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)address, end = from + bytes;
    if (end <= from)
        return -EINVAL;
    ebb_device_t *dev = enter_range(from);
    if (!dev)
        return -ENOENT;
    const int result = does(dev->ebb, from, end);
    ebb_unlock();
    ebb_call_again(CUDA_SUCCESS);
    return result;
}

int ebb_memory_keep(const void *address, size_t bytes)
{
    return about(address, bytes, keep);
}

int ebb_memory_release(const void *address, size_t bytes)
{
    return about(address, bytes, release);
}
