/* capture.c: streams that are captured into graphs, and the buffers that graphs mention. */
#include <stdlib.h>

#include "alloc/base/driver.h"
#include "alloc/base/status.h"
#include "alloc/device.h"
#include "ckpt/run/run.h"
#include "hook/internal.h"

/* ---- what a graph mentions ---- */

/* What is mentioned from now on is pinned. */
static bool pins(ebb_t *ebb, const ebb_mentions_t *m)
{
    return !ebb->hook->apart || m->stays || m == &ebb->hook->common;
}

/* NULL, and it may touch anything: no host memory. */
static ebb_mention_t *note(ebb_mentions_t *m, CUdeviceptr address, bool copied)
{
    bool added;
    ebb_mention_t *mention = ebb_table_add(&m->addresses, sizeof *mention, address, &added);
    if (mention && added)
        *mention = (ebb_mention_t){.address = address};
    if (mention)
        mention->copied |= copied;
    else
        m->all = true;
    return mention;
}

static ebb_status_t pin(ebb_mention_t *mention, ebb_buffer_t *b)
{
    if (mention->pinned != b->generation)
        EBB_TRY(ebb_table_pin(b));
    mention->pinned = b->generation;
    return 0;
}

ebb_status_t ebb_mentions_add(ebb_mentions_t *m, ebb_buffer_t *b, bool copied)
{
    ebb_t *ebb = b->range->device->ebb;
    ebb_mention_t *mention = note(m, b->address, copied);
    if (!mention || (!copied && !pins(ebb, m)))
        return 0;
    const bool were_apart = ebb->hook->apart;
    const ebb_status_t status = pin(mention, b);
    if (!status || were_apart || !ebb_graphs_come_apart(ebb))
        return status;
    return copied || pins(ebb, m) ? pin(mention, b) : 0; /* there is more room now */
}

static ebb_buffer_t *lies_at(ebb_t *ebb, CUdeviceptr address)
{
    ebb_buffer_t *b = ebb_buffer_at(ebb, address);
    return b && address - b->address < b->bytes ? b : NULL; /* not the one that ends there */
}

/* The next one where a buffer lies, from *at on, 0 at first. NULL: there is none. */
static ebb_mention_t *next(ebb_t *ebb, const ebb_mentions_t *m, size_t *at, ebb_buffer_t **buffer)
{
    ebb_mention_t *mention = m->addresses.at;
    for (; *at < m->addresses.room; ++*at)
        if (mention[*at].address && (*buffer = lies_at(ebb, mention[*at].address)))
            return &mention[(*at)++];
    return NULL;
}

void ebb_mentions_add_all(ebb_t *ebb, ebb_mentions_t *to, const ebb_mentions_t *from)
{
    const ebb_mention_t *mention = from->addresses.at;
    for (size_t i = 0; to != from && i < from->addresses.room; i++) {
        ebb_mention_t *own = mention[i].address ? note(to, mention[i].address, mention[i].copied) : NULL;
        ebb_buffer_t *b = own ? lies_at(ebb, own->address) : NULL; /* none: there may be one at the launch */
        if (b && pins(ebb, to) && pin(own, b)) {                   /* it is told at the launch */
            to->stays = false;
            ebb_mentions_let_go(ebb, to);
        }
    }
    to->alloc_bytes += to == from ? 0 : from->alloc_bytes;
    to->all |= from->all;
    to->owns |= from->owns;
}

static void let_go(ebb_t *ebb, const ebb_mentions_t *m, bool copied)
{
    ebb_mention_t *mention;
    ebb_buffer_t *b;
    size_t at = 0;
    while ((mention = next(ebb, m, &at, &b)))
        if (mention->pinned == b->generation && (copied || !mention->copied)) {
            ebb_buffer_release(b);
            mention->pinned = 0;
        }
}

static ebb_status_t pin_those(ebb_t *ebb, const ebb_mentions_t *m, bool all)
{
    ebb_mention_t *mention;
    ebb_buffer_t *b;
    ebb_status_t status = 0;
    size_t at = 0;
    while (!status && (mention = next(ebb, m, &at, &b)))
        status = all || mention->copied ? pin(mention, b) : 0;
    return status;
}

ebb_status_t ebb_mentions_show(ebb_t *ebb, const ebb_mentions_t *m)
{
    const ebb_status_t status = pin_those(ebb, m, false);
    if (status)
        ebb_mentions_let_go(ebb, m);
    return status;
}

ebb_status_t ebb_mentions_stay(ebb_t *ebb, ebb_mentions_t *m)
{
    const ebb_status_t status = pin_those(ebb, m, true);
    if (status) {
        ebb_mentions_let_go(ebb, m);
        return status;
    }
    m->stays = ebb->hook->apart;
    return 0;
}

void ebb_mentions_let_go(ebb_t *ebb, const ebb_mentions_t *m)
{
    if (!pins(ebb, m))
        let_go(ebb, m, true);
}

bool ebb_mentions_count(ebb_device_t *dev, ebb_mentions_t *m)
{
    const bool good = m->counted || ebb_foreign_count(dev, m->alloc_bytes);
    if (good && !m->counted)
        m->counted = dev;
    return good;
}

static void uncount(ebb_mentions_t *m)
{
    if (m->counted)
        ebb_foreign_uncount(m->counted, m->alloc_bytes);
    m->counted = NULL;
}

void ebb_mentions_empty(ebb_t *ebb, ebb_mentions_t *m)
{
    let_go(ebb, m, true);
    free(m->addresses.at);
    m->addresses = (ebb_table_t){0};
    m->all = false;
}

void ebb_mentions_clear(ebb_t *ebb, ebb_mentions_t *m)
{
    uncount(m);
    ebb_mentions_empty(ebb, m);
    *m = (ebb_mentions_t){0};
}

void ebb_mentions_list(ebb_t *ebb, const ebb_mentions_t *m, ebb_operation_t *op)
{
    ebb_buffer_t *b;
    size_t at = 0;
    while (next(ebb, m, &at, &b)) {
        op->access[op->access_count] = (ebb_access_t){.buffer = b, .param_offset = op->access_count};
        op->access_count++;
    }
    op->opaque |= m->all;
}

/* ---- graphs ---- */

typedef struct ebb_graph {
    const void *handle;
    struct ebb_graph *within; /* the outermost that it is a part of, which speaks for it */
    bool astray;              /* it is a part of another, unknown one */
    ebb_mentions_t mentions;
    ebb_nodes_t *nodes; /* of an executable one; owns */
    ebb_mark_t last;    /* launch */
    struct ebb_graph *next;
} graph_t;

ebb_mentions_t *ebb_graph_common_mentions(ebb_t *ebb)
{
    return &ebb->hook->common;
}

static graph_t *find(ebb_t *ebb, const void *handle)
{
    graph_t *g = ebb->hook->graphs;
    while (g && g->handle != handle)
        g = g->next;
    return g;
}

static graph_t *find_or_make(ebb_t *ebb, const void *handle)
{
    graph_t *g = find(ebb, handle);
    if (!g && (g = calloc(1, sizeof *g))) {
        g->handle = handle;
        g->next = ebb->hook->graphs;
        ebb->hook->graphs = g;
    }
    return g;
}

ebb_mentions_t *ebb_graph_mentions(ebb_t *ebb, const void *handle)
{
    graph_t *g = find_or_make(ebb, handle);
    if (g && g->within)
        g = g->within;
    return g && !g->astray ? &g->mentions : ebb_graph_common_mentions(ebb);
}

const ebb_mentions_t *ebb_graph_known_mentions(ebb_t *ebb, const void *handle)
{
    const graph_t *g = find(ebb, handle);
    if (g && g->within)
        g = g->within;
    return g && !g->astray ? &g->mentions : NULL;
}

void ebb_graph_mention(ebb_t *ebb, ebb_mentions_t *m, CUgraph graph)
{
    const ebb_mentions_t *known = ebb_graph_known_mentions(ebb, graph);
    if (known)
        ebb_mentions_add_all(ebb, m, known);
}

void ebb_graph_contains(ebb_t *ebb, const void *handle, const void *body)
{
    graph_t *outer = handle ? find_or_make(ebb, handle) : NULL, *inner = find_or_make(ebb, body);
    if (!inner) {
        ebb_graph_common_mentions(ebb)->all = true;
        return;
    }
    while (outer && outer->within)
        outer = outer->within;
    if (!outer && inner->within) /* it is known what it is a part of */
        return;
    for (graph_t *g = ebb->hook->graphs; g; g = g->next)
        if (g == inner || g->within == inner) {
            g->within = outer;
            g->astray = !outer;
        }
}

void ebb_graph_forget(ebb_t *ebb, const void *handle)
{
    const graph_t *gone = find(ebb, handle);
    for (graph_t **link = &ebb->hook->graphs; gone && *link;) {
        graph_t *g = *link;
        if (g != gone && g->within != gone) {
            link = &g->next;
            continue;
        }
        *link = g->next;
        ebb_mentions_clear(ebb, &g->mentions);
        ebb_nodes_delete(g->nodes);
        free(g);
    }
}

void ebb_graph_give_nodes(ebb_t *ebb, const void *exec, ebb_nodes_t *nodes)
{
    graph_t *g = find_or_make(ebb, exec);
    if (g) {
        ebb_nodes_delete(g->nodes);
        g->nodes = nodes;
    } else {
        ebb_nodes_delete(nodes);
    }
}

ebb_nodes_t *ebb_graph_nodes(ebb_t *ebb, const void *exec)
{
    const graph_t *g = find(ebb, exec);
    return g ? g->nodes : NULL;
}

ebb_mark_t *ebb_graph_last_launch(ebb_t *ebb, const void *exec)
{
    graph_t *g = find(ebb, exec);
    return g ? &g->last : NULL;
}

/* ---- captures ---- */

typedef struct ebb_capture {
    cuuint64_t id;
    const ebb_stream_t *origin;
    ebb_mentions_t mentions;
    struct ebb_capture *next;
} capture_t;

void ebb_capture_begins(ebb_t *ebb)
{
    ebb_lock_stay(true); /* none begins to learn in between */
    ebb_interrupt_all(ebb, "a stream is captured");
    ebb_streams_record(ebb, true); /* later it could not be asked how far they are */
    atomic_fetch_add(&ebb->captures, 1);
    ebb_lock_stay(false);
}

/* 0: none is known. */
static cuuint64_t id_of(CUstream stream, CUgraph *graph)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    return ebb_driver.cuStreamGetCaptureInfo_v2 &&
                   !ebb_driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, graph, NULL, NULL)
               ? id
               : 0;
}

void ebb_capture_began(ebb_device_t *dev, CUresult result, CUstream stream, bool anew)
{
    CUgraph graph = NULL;
    capture_t *c = result ? NULL : calloc(1, sizeof *c);
    if (!c) { /* what is captured all the same is noted as common to all graphs */
        if (result)
            atomic_fetch_sub(&dev->ebb->captures, 1);
        return;
    }
    c->origin = ebb_stream_of(dev, stream);
    c->id = id_of(stream, &graph);
    if (anew && c->id) /* what is known by this handle is a dead graph's */
        ebb_graph_forget(dev->ebb, graph);
    c->next = dev->ebb->hook->captures;
    dev->ebb->hook->captures = c;
    ebb_graphs_are_apart(dev); /* else all of it would be pinned before its first launch */
}

static void drop(ebb_t *ebb, capture_t **link)
{
    capture_t *c = *link;
    *link = c->next;
    ebb_mentions_clear(ebb, &c->mentions);
    free(c);
    atomic_fetch_sub(&ebb->captures, 1);
}

static capture_t **find_origin(ebb_t *ebb, const ebb_stream_t *origin)
{
    capture_t **link = &ebb->hook->captures;
    while (*link && (*link)->origin != origin)
        link = &(*link)->next;
    return link;
}

void ebb_capture_ended(ebb_device_t *dev, CUresult result, CUstream stream, CUgraph graph)
{
    ebb_t *ebb = dev->ebb;
    const ebb_stream_t *origin = ebb_stream_of(dev, stream);
    capture_t **link = find_origin(ebb, origin);
    if (!*link || (result && ebb_is_capturing(stream)))
        return;
    ebb_lock_stay(true);
    if (!result && graph) /* nodes may have been added by its handle before (cuStreamGetCaptureInfo) */
        ebb_mentions_add_all(ebb, ebb_graph_mentions(ebb, graph), &(*link)->mentions);
    ebb_lock_stay(false);
    drop(ebb, find_origin(ebb, origin));
}

void ebb_capture_stream_ends(const ebb_stream_t *stream)
{
    ebb_t *ebb = ebb_stream_device(stream)->ebb;
    capture_t **link = ebb_captures_under_way(ebb) ? find_origin(ebb, stream) : NULL;
    if (link && *link)
        drop(ebb, link);
}

/* The capture that a stream takes part in has the id that the driver gives it. */
static ebb_mentions_t *mentions_of(ebb_t *ebb, CUstream stream)
{
    capture_t *captures = ebb->hook->captures;
    if (captures && !captures->next)
        return &captures->mentions;
    const cuuint64_t id = id_of(stream, NULL);
    for (capture_t *c = captures; id && c; c = c->next)
        if (c->id == id)
            return &c->mentions;
    return ebb_graph_common_mentions(ebb);
}

ebb_status_t ebb_capture_note(const ebb_operation_t *op)
{
    ebb_t *ebb = ebb_stream_device(op->stream)->ebb;
    ebb_mentions_t *m = mentions_of(ebb, ebb_stream_handle(op->stream));
    for (uint32_t i = 0; i < op->access_count; i++)
        EBB_TRY(ebb_mentions_add(m, op->access[i].buffer, op->kind != EBB_KERNEL));
    if (op->opaque)
        m->all = true;
    return 0;
}

void ebb_capture_note_alloc(ebb_t *ebb, CUstream stream, size_t bytes)
{
    mentions_of(ebb, stream)->alloc_bytes += bytes;
}

/* ---- apart ---- */

bool ebb_graphs_come_apart(ebb_t *ebb)
{
    struct ebb_hook *hook = ebb->hook;
    if (hook->apart || !ebb_nodes_can_be_read())
        return hook->apart;
    ebb_log(EBB_INFO, "memory is short: graphs are launched node by node from now on");
    hook->apart = true;
    for (capture_t *c = hook->captures; c; c = c->next)
        let_go(ebb, &c->mentions, false);
    for (graph_t *g = hook->graphs; g; g = g->next) {
        g->mentions.stays |= g->mentions.executable && !g->nodes;
        ebb_mentions_let_go(ebb, &g->mentions);
    }
    return true;
}

bool ebb_graphs_give_back(ebb_device_t *dev)
{
    CUdevice device;
    size_t bytes = 0;
    const bool possible = !ebb_captures_under_way(dev->ebb) && ebb_driver.cuDeviceGraphMemTrim;
    for (const graph_t *g = dev->ebb->hook->graphs; g && possible; g = g->next)
        bytes += g->nodes && g->mentions.counted == dev ? g->mentions.alloc_bytes : 0;
    if (!bytes || !ebb_graphs_come_apart(dev->ebb))
        return false;
    ebb_lock_stay(true); /* the list */
    for (graph_t *g = dev->ebb->hook->graphs; g; g = g->next)
        if (g->nodes && g->mentions.counted == dev && !ebb_mark_wait(g->last))
            uncount(&g->mentions);
    ebb_lock_stay(false);
    return !ebb_driver.cuCtxGetDevice(&device) && !ebb_driver.cuDeviceGraphMemTrim(device);
}

bool ebb_graphs_are_apart(ebb_device_t *dev)
{
    return dev->ebb->hook->apart || (ebb_run_wants_operations(dev) && ebb_graphs_come_apart(dev->ebb));
}
