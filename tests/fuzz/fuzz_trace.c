/* fuzz_trace.c: see fuzz.h. Copies to the host come behind an operation that has touched the buffers anyway, so that they change
 * little of what the library does: its buffers are on the device then. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

void fuzz_trace_open(fuzz_worker_t *w)
{
    char path[4096];
    const char *name = getenv("FUZZ_TRACE"), *wrong = getenv("FUZZ_WRONG");
    w->wrong = wrong && !w->index ? (unsigned)strtoul(wrong, NULL, 10) : 0;
    if (!name || !*name)
        return;
    snprintf(path, sizeof path, "%s.%u", name, w->index);
    w->trace = fopen(path, "we");
    if (!w->trace)
        abort();
    setvbuf(w->trace, NULL, _IOLBF, 0);
}

void fuzz_trace_touch(fuzz_worker_t *w, const fuzz_buffer_t *b, bool write)
{
    if (write)
        w->written = b->id;
    for (unsigned i = 0; i < w->touched_count; i++)
        if (w->touched[i] == b->id)
            return;
    if (w->trace && w->touched_count < FUZZ_TOUCHED)
        w->touched[w->touched_count++] = b->id;
}

/* NULL: it has been freed. */
static const fuzz_buffer_t *find(const fuzz_worker_t *w, unsigned id)
{
    for (unsigned i = 0; i < w->buffers; i++)
        if (w->buffer[i].address && w->buffer[i].id == id)
            return &w->buffer[i];
    return NULL;
}

static void write_wrong(fuzz_worker_t *w, unsigned s)
{
    const fuzz_buffer_t *b = find(w, w->written);
    unsigned char byte;
    if (!w->wrong || w->wrong != w->operations || !b)
        return;
    w->wrong = 0;
    CALL(w, cuStreamSynchronize(w->stream[s]));
    CALL(w, cuMemcpyDtoH(&byte, b->address, 1));
    byte ^= 1;
    CALL(w, cuMemcpyHtoD(b->address, &byte, 1));
}

void fuzz_trace(fuzz_worker_t *w, const char *name, unsigned s)
{
    write_wrong(w, s);
    if (!w->trace)
        return;
    CALL(w, cuStreamSynchronize(w->stream[s]));
    for (unsigned i = 0; i < w->touched_count; i++) {
        const fuzz_buffer_t *b = find(w, w->touched[i]);
        void *p = b ? malloc((size_t)b->words * 4) : NULL;
        if (!p)
            continue;
        CALL(w, cuMemcpyDtoH(p, b->address, (size_t)b->words * 4));
        fprintf(w->trace, "round %u, operation %u (%s), stream %u: buffer %u, %u words, %016llx\n",
                w->salt / 7919, w->operations, name, s, b->id, b->words,
                (unsigned long long)fuzz_hash(0, p, (size_t)b->words * 4));
        free(p);
    }
    w->touched_count = 0;
}

void fuzz_trace_copy(const fuzz_worker_t *w, const fuzz_host_t *h)
{
    if (getenv("FUZZ_COPIES"))
        fprintf(stderr, "worker %u: copied out by operation %u: %zu bytes, %016llx\n", w->index, h->operation,
                h->bytes, (unsigned long long)fuzz_hash(0, h->p, h->bytes));
}
