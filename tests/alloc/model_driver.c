#include "model_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/driver.h"

enum { UNITS = EBB_CHUNK_BYTES / 512, EVENTS = 256, HISTORY = 1 << 16, MOST_CHUNKS = 256 };

static const CUdeviceptr BASE = (CUdeviceptr)1 << 44;

typedef struct clock {
    uint64_t at[MODEL_STREAMS];
} clock_t_;

typedef struct used {
    uint64_t at[MODEL_STREAMS]; /* the last position on each stream */
    unsigned owner[MODEL_STREAMS];
} used_t;

typedef struct chunk {
    bool exists;
    unsigned mappings;
    used_t unit[UNITS];
} chunk_t;

typedef struct page { /* a chunk's worth of addresses */
    unsigned chunk;   /* 1 + index; 0: nothing mapped */
    bool access;
    used_t used;
} page_t;

static struct {
    uint64_t seed;
    size_t limit, chunks, others, mappings, pages;
    chunk_t *chunk; /* [MOST_CHUNKS] */
    page_t *page;   /* [pages] */
    uint64_t issued[MODEL_STREAMS], done[MODEL_STREAMS];
    clock_t_ now[MODEL_STREAMS]; /* what the next operation of each stream comes after */
    clock_t_ host;               /* what the host knows to be over */
    clock_t_ *history[MODEL_STREAMS];
    struct {
        unsigned stream;
        uint64_t at;
    } event[EVENTS];
    unsigned events;
    unsigned one_in[FAULTS], faults;
    bool failed_last;
    char wrong[256];
} m;

unsigned model_random(unsigned n)
{
    m.seed ^= m.seed >> 12;
    m.seed ^= m.seed << 25;
    m.seed ^= m.seed >> 27;
    return (unsigned)((m.seed * 0x2545f4914f6cdd1du) >> 33) % n;
}

static void wrong(const char *what, unsigned long long detail)
{
    if (!m.wrong[0])
        snprintf(m.wrong, sizeof m.wrong, "%s (%llx)", what, detail);
}

const char *model_wrong(void)
{
    return m.wrong[0] ? m.wrong : NULL;
}

void model_fail(model_fault_t kind, unsigned n)
{
    m.one_in[kind] = n;
}

unsigned model_faults(void)
{
    return m.faults;
}

static bool fails(model_fault_t kind)
{
    m.failed_last = !m.failed_last && m.one_in[kind] && !model_random(m.one_in[kind]);
    m.faults += m.failed_last;
    return m.failed_last;
}

/* ---- streams ---- */

static void merge(clock_t_ *a, const clock_t_ *b)
{
    for (int i = 0; i < MODEL_STREAMS; i++)
        if (b->at[i] > a->at[i])
            a->at[i] = b->at[i];
}

/* One more operation; returns its clock. */
static const clock_t_ *issue(unsigned s)
{
    merge(&m.now[s], &m.host);
    m.now[s].at[s] = ++m.issued[s];
    clock_t_ *c = &m.history[s][m.issued[s] % HISTORY];
    *c = m.now[s];
    return c;
}

static bool advance(unsigned s)
{
    if (m.done[s] == m.issued[s])
        return false;
    const clock_t_ *c = &m.history[s][(m.done[s] + 1) % HISTORY];
    for (unsigned i = 0; i < MODEL_STREAMS; i++)
        if (i != s && c->at[i] > m.done[i])
            return false;
    m.done[s]++;
    return true;
}

void model_advance(unsigned most)
{
    for (unsigned i = model_random(most + 1); i; i--)
        advance(model_random(MODEL_STREAMS));
    for (unsigned s = 0; s < MODEL_STREAMS; s++) /* the history is finite */
        while (m.issued[s] - m.done[s] > HISTORY / 2)
            for (unsigned t = 0; t < MODEL_STREAMS; t++)
                advance(t);
}

static void finish(unsigned s, uint64_t at)
{
    while (m.done[s] < at)
        for (unsigned t = 0; t < MODEL_STREAMS; t++)
            advance(t);
    merge(&m.host, &m.history[s][at % HISTORY]);
}

void model_synchronise(void)
{
    for (unsigned s = 0; s < MODEL_STREAMS; s++)
        if (m.issued[s])
            finish(s, m.issued[s]);
}

void model_order(unsigned stream, unsigned other)
{
    issue(other);
    merge(&m.now[stream], &m.now[other]);
    issue(stream);
}

CUstream model_stream(unsigned i)
{
    return (CUstream)(uintptr_t)(16 + i);
}

static unsigned number_of(CUstream stream)
{
    return (unsigned)((uintptr_t)stream - 16);
}

/* ---- memory ---- */

static page_t *page_of(CUdeviceptr at)
{
    return &m.page[(at - BASE) / EBB_CHUNK_BYTES];
}

static void use_unit(used_t *u, unsigned s, const clock_t_ *c, unsigned owner)
{
    for (unsigned i = 0; i < MODEL_STREAMS; i++)
        if (u->owner[i] && u->owner[i] != owner && u->at[i] > c->at[i])
            wrong("memory is used while an earlier owner may still use it", owner);
    u->at[s] = c->at[s];
    u->owner[s] = owner;
}

void model_use(unsigned stream, CUdeviceptr at, size_t bytes, unsigned owner)
{
    const clock_t_ *c = issue(stream);
    for (CUdeviceptr p = at / 512 * 512; p < at + bytes; p += 512) {
        page_t *page = page_of(p);
        if (!page->chunk || !page->access) {
            wrong("memory is used that is not there", p);
            return;
        }
        page->used.at[stream] = c->at[stream];
        use_unit(&m.chunk[page->chunk - 1].unit[(p - BASE) % EBB_CHUNK_BYTES / 512], stream, c, owner);
    }
}

size_t model_chunks(void)
{
    return m.chunks;
}

size_t model_mappings(void)
{
    return m.mappings;
}

/* ---- the driver's functions ---- */

static size_t address_space;

void model_address_space(size_t bytes)
{
    address_space = bytes;
}

static CUresult CUDAAPI reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    if (address_space && bytes > address_space)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m.pages = bytes / EBB_CHUNK_BYTES;
    m.page = calloc(m.pages, sizeof *m.page);
    *out = BASE;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI memory_info(size_t *free_bytes, size_t *total)
{
    *total = (size_t)1 << 30;
    *free_bytes = *total - (m.chunks + m.others) * EBB_CHUNK_BYTES;
    return CUDA_SUCCESS;
}

void model_others(size_t chunks)
{
    m.others = chunks;
}

static CUresult CUDAAPI create(CUmemGenericAllocationHandle *out, size_t bytes,
                               const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)prop, (void)flags;
    if (bytes != EBB_CHUNK_BYTES)
        wrong("a chunk of another size", bytes);
    if (fails(CREATE))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (m.chunks >= m.limit)
        wrong("more chunks than the budget allows", m.chunks);
    unsigned i = 0;
    while (m.chunk[i].exists)
        i++;
    memset(&m.chunk[i], 0, sizeof m.chunk[i]);
    m.chunk[i].exists = true;
    m.chunks++;
    *out = i + 1;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI release(CUmemGenericAllocationHandle handle)
{
    if (!m.chunk[handle - 1].exists || m.chunk[handle - 1].mappings)
        wrong("a release of what is mapped or gone", handle);
    m.chunk[handle - 1].exists = false;
    m.chunks--;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags)
{
    (void)flags;
    if (bytes != EBB_CHUNK_BYTES || offset || page_of(at)->chunk || !m.chunk[handle - 1].exists)
        wrong("a bad mapping", at);
    if (fails(MAP))
        return CUDA_ERROR_UNKNOWN;
    *page_of(at) = (page_t){.chunk = (unsigned)handle};
    m.chunk[handle - 1].mappings++;
    m.mappings++;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI access_(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *desc, size_t count)
{
    (void)desc, (void)count;
    if (fails(ACCESS))
        return CUDA_ERROR_UNKNOWN;
    for (CUdeviceptr p = at; p < at + bytes; p += EBB_CHUNK_BYTES) {
        if (!page_of(p)->chunk)
            wrong("access to what is not mapped", p);
        page_of(p)->access = true;
    }
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI unmap(CUdeviceptr at, size_t bytes)
{
    if (fails(UNMAP))
        return CUDA_ERROR_UNKNOWN;
    for (CUdeviceptr p = at; p < at + bytes; p += EBB_CHUNK_BYTES) {
        page_t *page = page_of(p);
        if (!page->chunk) {
            wrong("an unmapping of nothing", p);
            return CUDA_ERROR_INVALID_VALUE;
        }
        for (unsigned s = 0; s < MODEL_STREAMS; s++)
            if (page->used.at[s] > m.host.at[s])
                wrong("an unmapping under work that may not be over", p);
        m.chunk[page->chunk - 1].mappings--;
        m.mappings--;
        *page = (page_t){0};
    }
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_create(CUevent *out, unsigned flags)
{
    (void)flags;
    *out = (CUevent)(uintptr_t)++m.events;
    return m.events < EVENTS ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult CUDAAPI event_record(CUevent event, CUstream stream)
{
    unsigned s = number_of(stream);
    if (fails(RECORD))
        return CUDA_ERROR_UNKNOWN;
    issue(s);
    m.event[(uintptr_t)event].stream = s;
    m.event[(uintptr_t)event].at = m.issued[s];
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_query(CUevent event)
{
    unsigned s = m.event[(uintptr_t)event].stream;
    if (m.done[s] < m.event[(uintptr_t)event].at)
        return CUDA_ERROR_NOT_READY;
    finish(s, m.event[(uintptr_t)event].at);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI event_synchronise(CUevent event)
{
    finish(m.event[(uintptr_t)event].stream, m.event[(uintptr_t)event].at);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    unsigned s = number_of(stream), t = m.event[(uintptr_t)event].stream;
    merge(&m.now[s], &m.history[t][m.event[(uintptr_t)event].at % HISTORY]);
    issue(s);
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI stream_id(CUstream stream, unsigned long long *id)
{
    *id = number_of(stream) + 1;
    return CUDA_SUCCESS;
}

static CUresult CUDAAPI error_name(CUresult error, const char **name)
{
    (void)error;
    *name = "an injected error";
    return CUDA_SUCCESS;
}

void model_begin(size_t chunk_limit, unsigned seed)
{
    m.limit = chunk_limit;
    m.seed = seed * 0x9e3779b97f4a7c15u | 1;
    m.chunk = calloc(MOST_CHUNKS, sizeof *m.chunk);
    for (int i = 0; i < MODEL_STREAMS; i++)
        m.history[i] = calloc(HISTORY, sizeof *m.history[i]);
    ebb_driver.cuMemAddressReserve = reserve;
    ebb_driver.cuMemGetInfo_v2 = memory_info;
    ebb_driver.cuMemCreate = create;
    ebb_driver.cuMemRelease = release;
    ebb_driver.cuMemMap = map;
    ebb_driver.cuMemSetAccess = access_;
    ebb_driver.cuMemUnmap = unmap;
    ebb_driver.cuEventCreate = event_create;
    ebb_driver.cuEventRecord = event_record;
    ebb_driver.cuEventQuery = event_query;
    ebb_driver.cuEventSynchronize = event_synchronise;
    ebb_driver.cuStreamWaitEvent = wait_event;
    ebb_driver.cuStreamGetId = stream_id;
    ebb_driver.cuGetErrorName = error_name;
}
