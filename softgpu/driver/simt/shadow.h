/* shadow.h: checked mode: what the driver knows of the bytes that kernels touch.
 *
 * Glossary
 *   valid      bytes that something has written since they were allocated, a bit each
 *   live list  the allocations that exist, with their valid bytes (live.c). An op holds the list of the moment when it was
 *              issued: what its program had allocated then is what it may touch, whatever has been freed, or allocated at
 *              the same address, by the time it runs
 *   watch      what checked mode keeps for an op: its live list, and which bytes the launch has read and written
 *   cell       four bytes of shared memory: who wrote and read them last, and when (race.c)
 *
 * Locks: live.c has a lock of its own, below all others. A watch is shared by the workers of an op and changed atomically. All
 * else belongs to a worker.
 */
#ifndef SG_SHADOW_H
#define SG_SHADOW_H

#include "softgpu/driver/simt/simt.h"

/* ---- live.c ---- */

/* When some bytes of mapped memory were written last, counted in writes, and the base of the mapping by whose addresses. */
typedef struct sg_written {
    _Atomic uint64_t when;
    _Atomic CUdeviceptr through;
} sg_written_t;

typedef struct sg_valid {
    _Atomic uint32_t refs;
    size_t bytes;
    sg_written_t *written; /* of mapped memory, by SG_WRITTEN_BYTES; NULL: not known */
    _Atomic uint64_t bits[];
} sg_valid_t;

typedef struct sg_live {
    CUdeviceptr base;
    size_t bytes;
    bool mapped; /* a VMM mapping: `access` counts */
    sg_access_t access;
    sg_valid_t *valid; /* NULL: all */
} sg_live_t;

typedef struct sg_live_list {
    uint32_t refs; /* guarded by the lock of live.c */
    uint32_t count;
    sg_live_t entry[]; /* sorted by base */
} sg_live_list_t;

/* What happens to memory. All do nothing unless SOFTGPU_MODE=checked. */
void sg_live_add(CUdeviceptr base, size_t bytes); /* fresh: nothing is valid */
void sg_live_add_valid(CUdeviceptr base, size_t bytes);
void sg_live_add_mapping(CUdeviceptr base, sg_handle_t *handle);
void sg_live_set_access(CUdeviceptr base, const sg_access_t *access); /* of the mapping there */
void sg_live_remove(CUdeviceptr base, size_t bytes);                  /* all that begins there */
void sg_live_forget_handle(sg_handle_t *handle);                      /* its memory is gone */

bool sg_live_knows(CUdeviceptr base); /* whether it exists now */
const sg_live_t *sg_live_find(const sg_live_list_t *list, CUdeviceptr address);
/* What was freed last around an address, for reports. */
bool sg_live_was(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);
bool sg_valid_any(const sg_valid_t *valid, size_t first, size_t count);
void sg_valid_set(sg_valid_t *valid, size_t first, size_t count);

enum { SG_WRITTEN_BYTES = 1024 };
/* Writes so far. */
uint64_t sg_written_now(void);
/* Bytes of the entry are written, by its addresses. */
void sg_written_note(const sg_live_t *entry, size_t first, size_t count);
/* By which other mapping they have been written since then; 0: by none. */
CUdeviceptr sg_written_through(const sg_live_t *entry, size_t first, size_t count, uint64_t since);

/* ---- watch.c ---- */
typedef struct sg_watch {
    sg_live_list_t *live;
    uint64_t serial;        /* of the launch, in the order of issue */
    _Atomic uint64_t began; /* sg_written_now() then, plus 1; 0: it has not */
    _Atomic uint64_t done;  /* units */
    _Atomic(_Atomic uint64_t *)
        *touched; /* [2 * live->count]: bytes read, bytes written; NULL: none. Only with a log */
} sg_watch_t;

/* For a new op; NULL unless SOFTGPU_MODE=checked. */
sg_watch_t *sg_watch_new(void);
void sg_watch_free(sg_watch_t *watch);
/* Units of an op have run: the last ones write the launch's line of SOFTGPU_ACCESS_LOG. */
void sg_watch_done(const sg_op_t *op, uint64_t units);
void sg_watch_touch(sg_watch_t *watch, const sg_live_t *entry, size_t first, size_t count, bool write);
/* A copy or a set has written: its bytes are as valid as their source's (NULL: valid). */
void sg_watch_copied(const sg_op_t *op, const void *to, const void *from, size_t bytes);
/* Before a kernel that is not checked: what its arguments lead to may be written by it. */
void sg_watch_unchecked(const sg_op_t *op);

/* ---- check.c ---- */
void sg_check_begin(const sg_op_t *op); /* of a run in checked mode */
void sg_check_access(const void *at, size_t bytes, softgpu_access_t how);
/* Of warps (softgpu_services_t). */
void sg_check_lane(uint32_t lane, softgpu_place_t place);
void sg_check_met(uint32_t lanes);
void sg_check_order(const void *at);
/* Ends the launch, unless the rule is off. */
void sg_check_report(int rule, CUresult error, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- race.c: shared memory of a block ---- */
void sg_check_block_begin(sg_block_t *b);
void sg_check_block_end(sg_block_t *b);
void sg_check_barrier(sg_block_t *b);                              /* all threads have met */
void sg_check_group(sg_block_t *b, uint32_t warp, uint32_t lanes); /* these lanes have */
/* `offset`: in the shared area; `name`: of the array, for the report. */
void sg_check_shared(size_t offset, size_t bytes, softgpu_access_t how, const void *at, const char *name);
/* An atomic or volatile access anywhere: it orders threads. */
void sg_check_sync(const void *at, bool acquire, bool release);
/* Before another fiber runs: what could not be said before an access had happened. */
void sg_check_settle(void);

/* ---- symbols.c: the shared variables of a kernel library ---- */
typedef struct sg_shared_symbol {
    size_t offset, bytes; /* in the library's thread-local storage */
    char *name, *mangled;
} sg_shared_symbol_t;

typedef struct sg_symbols {
    const void *base; /* of the library */
    char *image_begin, *image_end;
    sg_shared_symbol_t *shared; /* sorted by offset */
    uint32_t count;
    size_t dynamic; /* offset of dynamic shared memory; SIZE_MAX: none */
    struct sg_symbols *next;
} sg_symbols_t;

/* Whether the variable is a local one of this kernel. */
bool sg_symbol_is_of(const sg_shared_symbol_t *symbol, const char *kernel);
/* Of the library that holds `code`. NULL: it cannot be read. */
const sg_symbols_t *sg_symbols_of(const void *code);

#endif
