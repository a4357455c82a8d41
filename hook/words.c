/* words.c: words in device memory that a stream writes or waits for, and other work that names memory
 * by address. */
#include <stdlib.h>

#include "alloc/device.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* A buffer with a word that a stream waits for is pinned for good: to evict it, the host would wait for the
 * stream, and the stream perhaps for the host. Such words stand in small buffers, which never leave anyway. For the
 * same reason there is no learning, which waits for every operation; and how far the streams are is recorded before the wait: an event behind it
 * comes perhaps only when the host has gone on. */
static void expect_wait(CUdeviceptr address)
{
    const ebb_device_t *dev = ebb_enter_at(address);
    if (!dev)
        return;
    const bool first = ebb_end_plans(dev->ebb, "a stream waits for a value in memory");
    ebb_streams_record(dev->ebb, first); /* the legacy stream may stand behind a wait that came before */
    ebb_buffer_t *b = ebb_buffer_at(dev->ebb, address);
    if (b && ebb_buffer_is_large(b) && !b->pinned)
        ebb_buffer_pin(b);
    ebb_unlock();
}

/* ---- one word ---- */

typedef struct word word_t;
struct word {
    const char *name;
    CUstream stream;
    CUdeviceptr address;
    cuuint64_t value;
    unsigned flags;
    bool waits;
    CUresult (*issue)(const void *word);
};

static CUresult use_word(const word_t *w)
{
    if (w->waits)
        expect_wait(w->address);
    return ebb_issue_other(&(ebb_other_t){w->name, w->stream, sizeof w->value, &w->address, 1, NULL, false},
                           w->issue, w);
}

#define WORD_CALL(field, symbol, type, is_wait)                                                              \
    static CUresult issue_##field(const void *context)                                                       \
    {                                                                                                        \
        const word_t *w = context;                                                                           \
        return EBB_PASS(field, (w->stream, w->address, (type)w->value, w->flags));                           \
    }                                                                                                        \
    ASYNC_CALL(symbol, (CUstream stream, CUdeviceptr address, type value, unsigned flags),                   \
               use_word(&(word_t){#symbol, stream, address, value, flags, is_wait, issue_##field}))

WORD_CALL(cuStreamWriteValue32, cuStreamWriteValue32, cuuint32_t, false)
WORD_CALL(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2, cuuint32_t, false)
WORD_CALL(cuStreamWriteValue64, cuStreamWriteValue64, cuuint64_t, false)
WORD_CALL(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2, cuuint64_t, false)
WORD_CALL(cuStreamWaitValue32, cuStreamWaitValue32, cuuint32_t, true)
WORD_CALL(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2, cuuint32_t, true)
WORD_CALL(cuStreamWaitValue64, cuStreamWaitValue64, cuuint64_t, true)
WORD_CALL(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2, cuuint64_t, true)

/* ---- several ---- */

typedef struct words {
    CUstream stream;
    unsigned count;
    CUstreamBatchMemOpParams *op;
    unsigned flags;
    bool older;
} words_t;

static CUresult issue_words(const void *context)
{
    const words_t *w = context;
    if (w->older)
        return EBB_PASS(cuStreamBatchMemOp, (w->stream, w->count, w->op, w->flags));
    return EBB_PASS(cuStreamBatchMemOp_v2, (w->stream, w->count, w->op, w->flags));
}

CUdeviceptr ebb_word_address(const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return op->waitValue.address;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return op->writeValue.address;
    default:
        return 0; /* barriers */
    }
}

static CUresult use_words(const words_t *w)
{
    enum { MOST = 255 }; /* more the driver refuses, and there may be no more */
    if (!w->op || !w->count || w->count > MOST || w->flags)
        return issue_words(w);
    CUdeviceptr *address = malloc(w->count * sizeof *address);
    if (!address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < w->count; i++) {
        CUstreamBatchMemOpType type = w->op[i].operation;
        address[i] = ebb_word_address(&w->op[i]);
        if (type == CU_STREAM_MEM_OP_WAIT_VALUE_32 || type == CU_STREAM_MEM_OP_WAIT_VALUE_64)
            expect_wait(address[i]);
    }
    CUresult result =
        ebb_issue_other(&(ebb_other_t){"cuStreamBatchMemOp", w->stream, w->count * sizeof(cuuint64_t),
                                       address, w->count, NULL, false},
                        issue_words, w);
    free(address);
    return result;
}

ASYNC_CALL(cuStreamBatchMemOp,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *op, unsigned flags),
           use_words(&(words_t){stream, count, op, flags, true}))
ASYNC_CALL(cuStreamBatchMemOp_v2,
           (CUstream stream, unsigned count, CUstreamBatchMemOpParams *op, unsigned flags),
           use_words(&(words_t){stream, count, op, flags, false}))

/* ---- decompression ---- */

typedef struct decompress {
    CUmemDecompressParams *params;
    size_t count;
    unsigned flags;
    size_t *failed;
    CUstream stream;
} decompress_t;

static CUresult issue_decompress(const void *context)
{
    const decompress_t *d = context;
    return EBB_PASS(cuMemBatchDecompressAsync, (d->params, d->count, d->flags, d->failed, d->stream));
}

static CUresult decompress(const decompress_t *d)
{
    CUdeviceptr *address = d->params && d->count ? malloc(3 * d->count * sizeof *address) : NULL;
    if (!address)
        return d->params && d->count ? CUDA_ERROR_OUT_OF_MEMORY : issue_decompress(d);
    size_t bytes = 0;
    for (size_t i = 0; i < d->count; i++) {
        const CUmemDecompressParams *p = &d->params[i];
        address[3 * i] = (CUdeviceptr)(uintptr_t)p->dst;
        address[3 * i + 1] = (CUdeviceptr)(uintptr_t)p->src;
        address[3 * i + 2] = (CUdeviceptr)(uintptr_t)p->dstActBytes;
        bytes += p->dstNumBytes;
    }
    CUresult result = ebb_issue_other(
        &(ebb_other_t){"cuMemBatchDecompressAsync", d->stream, bytes, address, 3 * d->count, NULL, false},
        issue_decompress, d);
    free(address);
    return result;
}

ASYNC_CALL(cuMemBatchDecompressAsync,
           (CUmemDecompressParams * params, size_t count, unsigned flags, size_t *failed, CUstream stream),
           decompress(&(decompress_t){params, count, flags, failed, stream}))
