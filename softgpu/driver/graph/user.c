/* user.c: user objects: a pointer of the program's and what destroys it, kept alive by references that the
 * program and its graphs hold. Destructors run on a thread of their own; for references of an executable graph that is
 * destroyed while it runs, behind its last launch.
 */
#include "softgpu/driver/graph/graph.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>

struct sg_user_object {
    sg_object_t object;
    CUhostFn destroy;
    void *data;
    uint64_t owned;         /* references of the program's */
    uint64_t held;          /* references of graphs */
    sg_user_object_t *next; /* to be destroyed */
};

/* ---- destructors ---- */

static struct {
    pthread_cond_t work;
    bool started;
    sg_user_object_t *head, *tail;
} doomed = {.work = PTHREAD_COND_INITIALIZER};

static void *destroyer_main(void *argument)
{
    (void)argument;
    sg_mark_caller_thread();
    sg_lock();
    for (;;) {
        while (!doomed.head)
            pthread_cond_wait(&doomed.work, &sg.lock);
        sg_user_object_t *o = doomed.head;
        doomed.head = o->next;
        sg_unlock();
        o->destroy(o->data);
        free(o);
        sg_lock();
    }
    return NULL;
}

static bool start_destroyer_locked(void)
{
    if (doomed.started)
        return true;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t thread;
    doomed.started = !pthread_create(&thread, NULL, destroyer_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (doomed.started)
        pthread_detach(thread);
    return doomed.started;
}

static void destroy_if_unused_locked(sg_user_object_t *o)
{
    if (o->owned || o->held)
        return;
    sg_object_remove_locked(&o->object);
    o->next = NULL;
    *(doomed.head ? &doomed.tail->next : &doomed.head) = o;
    doomed.tail = o;
    pthread_cond_signal(&doomed.work);
}

/* ---- references of graphs ---- */

static struct sg_user_reference *reference_of(const sg_graph_t *g, const sg_user_object_t *o)
{
    for (size_t i = 0; i < g->user_count; i++)
        if (g->users[i].object == o)
            return &g->users[i];
    return NULL;
}

static bool hold_locked(sg_graph_t *g, sg_user_object_t *o, uint64_t count)
{
    struct sg_user_reference *r = reference_of(g, o);
    if (!r) {
        struct sg_user_reference *grown = realloc(g->users, (g->user_count + 1) * sizeof *grown);
        if (!grown)
            return false;
        g->users = grown;
        r = &g->users[g->user_count++];
        *r = (struct sg_user_reference){.object = o};
    }
    r->count += count;
    o->held += count;
    return true;
}

bool sg_users_copy_locked(sg_graph_t *to, const sg_graph_t *from)
{
    for (size_t i = 0; i < from->user_count; i++)
        if (!hold_locked(to, from->users[i].object, from->users[i].count))
            return false;
    return true;
}

typedef struct references {
    size_t count;
    struct sg_user_reference *users;
} references_t;

static void release_locked(references_t r)
{
    for (size_t i = 0; i < r.count; i++) {
        r.users[i].object->held -= r.users[i].count;
        destroy_if_unused_locked(r.users[i].object);
    }
    free(r.users);
}

static void CUDA_CB release_later(CUstream stream, CUresult status, void *data)
{
    (void)stream, (void)status;
    references_t *r = data;
    sg_lock();
    release_locked(*r);
    sg_unlock();
    free(r);
}

/* A host function in a stream of its own, which waits for `stream`. */
static bool release_behind_locked(references_t r, sg_stream_t *stream, uint64_t number)
{
    references_t *kept = malloc(sizeof *kept);
    sg_op_t *op = sg_op_new(SG_OP_HOST, 0);
    sg_stream_t *own = sg_stream_create_in_locked(stream->ctx, false, 0, 0);
    bool possible = kept && op && own && !sg_submit_wait_locked(own, stream, number);
    if (possible) {
        *kept = r;
        op->host.callback = release_later;
        op->host.data = kept;
        sg_submit_locked(own, op);
    } else {
        free(kept);
        if (op)
            sg_op_drop(op);
    }
    if (own) {
        own->destroyed = true;
        sg_stream_unref_locked(own);
    }
    return possible;
}

void sg_users_drop_locked(sg_graph_t *g, sg_stream_t *stream, uint64_t number)
{
    references_t r = {g->user_count, g->users};
    g->users = NULL;
    g->user_count = 0;
    if (!r.count)
        return;
    bool running = stream && !sg_scheduler->past_locked(stream, number);
    if (!running || !release_behind_locked(r, stream, number))
        release_locked(r);
}

/* ---- the API ---- */

SG_EXPORT CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned references,
                                      unsigned flags)
{
    SG_TRY(sg_graph_enter());
    if (!out || !destroy || !references || references > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    sg_user_object_t *o = calloc(1, sizeof *o);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->destroy = destroy;
    o->data = data;
    o->owned = references;
    sg_lock();
    bool done = start_destroyer_locked() && sg_object_add_locked(&o->object, SG_OBJECT_USER);
    if (done)
        *out = sg_handle_of(&o->object);
    sg_unlock();
    if (!done)
        free(o);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static sg_user_object_t *find_user_locked(CUuserObject handle)
{
    return sg_object_find_locked(handle, SG_OBJECT_USER);
}

SG_EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned count)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    sg_user_object_t *o = find_user_locked(handle);
    bool valid = o && count && count <= INT_MAX;
    if (valid)
        o->owned += count;
    sg_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* References that the program does not have are an error here. */
SG_EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned count)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    sg_user_object_t *o = find_user_locked(handle);
    bool valid = o && count && count <= INT_MAX && count <= o->owned;
    if (valid) {
        o->owned -= count;
        destroy_if_unused_locked(o);
    }
    sg_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult retain_locked(sg_graph_t *g, sg_user_object_t *o, unsigned count, bool move)
{
    if (!g || !o || !count || count > INT_MAX || (move && count > o->owned))
        return CUDA_ERROR_INVALID_VALUE;
    if (!hold_locked(g, o, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (move)
        o->owned -= count;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned count, unsigned flags)
{
    SG_TRY(sg_graph_enter());
    if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock();
    CUresult result = retain_locked(sg_graph_find_locked(graph), find_user_locked(handle), count, flags != 0);
    sg_unlock();
    return result;
}

static CUresult release_of_graph_locked(sg_graph_t *g, sg_user_object_t *o, unsigned count)
{
    struct sg_user_reference *r = g && o ? reference_of(g, o) : NULL;
    if (!r || !count || count > r->count)
        return CUDA_ERROR_INVALID_VALUE;
    r->count -= count;
    o->held -= count;
    if (!r->count)
        *r = g->users[--g->user_count];
    destroy_if_unused_locked(o);
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned count)
{
    SG_TRY(sg_graph_enter());
    sg_lock();
    CUresult result = release_of_graph_locked(sg_graph_find_locked(graph), find_user_locked(handle), count);
    sg_unlock();
    return result;
}
