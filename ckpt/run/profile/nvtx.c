/* nvtx.c: the tool's side of NVTX 3 (nvtx3/nvtxDetail/nvtxTypes.h: export tables, callback ids). */
#include "ckpt/run/profile/profile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "alloc/base/thread.h"

#define NVTX_NO_IMPL /* types only: libebb emits no ranges */
#include <nvtx3/nvToolsExt.h>

enum { DEPTH_MAX = 64 };

/* An open range: where in the path it begins. */
typedef struct open_range {
    nvtxDomainHandle_t domain; /* NULL: the default one, which is the program's */
    unsigned short at;
} open_range_t;

/* Of one thread. Domains nest independently of one another; the path has their ranges in the order of pushing. */
typedef struct ebb_nvtx_ranges {
    unsigned depth;
    unsigned beyond; /* open ranges that there was no room for */
    unsigned length;
    uint64_t turns;
    open_range_t open[DEPTH_MAX];
    char path[EBB_NVTX_PATH_BYTES];
} ranges_t;

/* Strings and domains live as long as the process: a program has few, and may use them on any thread. */
typedef struct kept {
    char *name; /* owned */
    struct kept *next;
} kept_t;

/* NVTX passes nothing of ebb's. */
static struct {
    pthread_once_t once;
    pthread_key_t at_thread_end;
    _Atomic(kept_t *) kept;
} nvtx = {.once = PTHREAD_ONCE_INIT};

static void forget(void *ended)
{
    free(ended);
    ebb_this_thread.named = NULL;
}

static void make_key(void)
{
    pthread_key_create(&nvtx.at_thread_end, forget);
}

const char *ebb_nvtx_path(void)
{
    return ebb_this_thread.named ? ebb_this_thread.named->path : "";
}

uint64_t ebb_nvtx_turns(void)
{
    return ebb_this_thread.named ? ebb_this_thread.named->turns : 0;
}

/* ---- the path ---- */

static nvtxDomainHandle_t own_domain(void)
{
    return (nvtxDomainHandle_t)(void *)&nvtx;
}

static unsigned open_in(const ranges_t *r, nvtxDomainHandle_t domain)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->depth; i++)
        n += r->open[i].domain == domain;
    return n;
}

/* A range in this domain is the first to be opened or the last to be closed of the program's. Other domains are libraries': CCCL names what it
 * launches, in PyTorch an embedding's gradient. */
static bool is_turn(const ranges_t *r, nvtxDomainHandle_t domain)
{
    return (!domain || domain == own_domain()) && !open_in(r, NULL) && !open_in(r, own_domain());
}

/* No longer than there is room, and never in the middle of a character. */
static void append(ranges_t *r, const char *name)
{
    const unsigned room = EBB_NVTX_PATH_BYTES - 1;
    if (r->length && r->length < room)
        r->path[r->length++] = '/';
    for (; *name && r->length < room; name++)
        r->path[r->length++] = (unsigned char)*name < ' ' || *name == 127 ? ' ' : *name;
    if (*name)
        while (r->length && ((unsigned char)*name & 0xc0) == 0x80)
            name--, r->length--;
    r->path[r->length] = 0;
}

static ranges_t *mine(void)
{
    ranges_t **named = &ebb_this_thread.named;
    if (!*named && (*named = calloc(1, sizeof **named)) != NULL) {
        pthread_once(&nvtx.once, make_key);
        pthread_setspecific(nvtx.at_thread_end, *named);
    }
    return *named;
}

static int push(nvtxDomainHandle_t domain, const char *name)
{
    ranges_t *r = mine();
    if (!r)
        return -1;
    const unsigned level = open_in(r, domain);
    if (r->depth == DEPTH_MAX) {
        r->beyond++;
        return (int)level;
    }
    r->turns += is_turn(r, domain);
    r->open[r->depth++] = (open_range_t){domain, (unsigned short)r->length};
    append(r, name ? name : "");
    return (int)level;
}

/* Takes the range at `i` out of the path; those inside of it are another domain's and stay. */
static void close_range(ranges_t *r, unsigned i)
{
    const unsigned from = r->open[i].at, to = i + 1 < r->depth ? r->open[i + 1].at : r->length;
    /* The slash belongs to the range behind it; the first has none. */
    const unsigned slash = !from && to < r->length && r->path[to] == '/';
    memmove(r->path + from, r->path + to + slash, r->length - to - slash + 1);
    r->length -= to + slash - from;
    for (unsigned k = i + 1; k < r->depth; k++) {
        const unsigned at = r->open[k].at - (to - from);
        r->open[k - 1] = (open_range_t){r->open[k].domain, (unsigned short)(at ? at - slash : 0)};
    }
    r->depth--;
}

static int pop(nvtxDomainHandle_t domain)
{
    ranges_t *r = ebb_this_thread.named;
    if (!r)
        return -1;
    if (r->beyond) {
        r->beyond--;
        return (int)open_in(r, domain);
    }
    for (unsigned i = r->depth; i-- > 0;) {
        if (r->open[i].domain != domain)
            continue;
        close_range(r, i);
        r->turns += is_turn(r, domain);
        return (int)open_in(r, domain);
    }
    return -1;
}

void ebb_nvtx_push(const char *name)
{
    push(own_domain(), name);
}

void ebb_nvtx_pop(void)
{
    pop(own_domain());
}

/* ---- what NVTX passes ---- */

/* UTF-8; NULL: no memory. The caller's to free. */
static char *narrow(const wchar_t *wide)
{
    const size_t length = wcslen(wide);
    char *out = malloc(4 * length + 1), *at = out;
    if (!out)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        const unsigned c = (unsigned)wide[i];
        if (c < 0x80) {
            *at++ = (char)c;
            continue;
        }
        const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        *at++ = (char)((0xff00u >> (more + 1) & 0xffu) | c >> 6 * more);
        for (int k = more - 1; k >= 0; k--)
            *at++ = (char)(0x80u | (c >> 6 * k & 0x3fu));
    }
    *at = 0;
    return out;
}

static int push_wide(nvtxDomainHandle_t domain, const wchar_t *wide)
{
    char *name = wide ? narrow(wide) : NULL;
    const int level = push(domain, name);
    free(name);
    return level;
}

/* A registered string's handle is the string. */
static int push_event(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    if (!event || event->size < NVTX_EVENT_ATTRIB_STRUCT_SIZE)
        return push(domain, NULL);
    if (event->messageType == NVTX_MESSAGE_TYPE_UNICODE)
        return push_wide(domain, event->message.unicode);
    if (event->messageType == NVTX_MESSAGE_TYPE_REGISTERED)
        return push(domain, (const char *)(const void *)event->message.registered);
    return push(domain, event->messageType == NVTX_MESSAGE_TYPE_ASCII ? event->message.ascii : NULL);
}

static int NVTX_API push_ex(const nvtxEventAttributes_t *event)
{
    return push_event(NULL, event);
}

static int NVTX_API push_ascii(const char *name)
{
    return push(NULL, name);
}

static int NVTX_API push_unicode(const wchar_t *name)
{
    return push_wide(NULL, name);
}

static int NVTX_API pop_default(void)
{
    return pop(NULL);
}

static int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    return push_event(domain, event);
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain)
{
    return pop(domain);
}

/* Owns the name from then on. NULL: no memory. */
static char *keep(char *name)
{
    kept_t *k = name ? malloc(sizeof *k) : NULL;
    if (!k) {
        free(name);
        return NULL;
    }
    *k = (kept_t){name, atomic_load(&nvtx.kept)};
    while (!atomic_compare_exchange_weak(&nvtx.kept, &k->next, k))
        ;
    return name;
}

static char *keep_ascii(const char *name)
{
    return keep(strdup(name ? name : ""));
}

static char *keep_unicode(const wchar_t *name)
{
    return name ? keep(narrow(name)) : keep_ascii("");
}

static nvtxStringHandle_t NVTX_API register_ascii(nvtxDomainHandle_t domain, const char *string)
{
    (void)domain;
    return (nvtxStringHandle_t)(void *)keep_ascii(string);
}

static nvtxStringHandle_t NVTX_API register_unicode(nvtxDomainHandle_t domain, const wchar_t *string)
{
    (void)domain;
    return (nvtxStringHandle_t)(void *)keep_unicode(string);
}

static nvtxDomainHandle_t NVTX_API create_domain(const char *name)
{
    return (nvtxDomainHandle_t)(void *)keep_ascii(name);
}

static nvtxDomainHandle_t NVTX_API create_domain_unicode(const wchar_t *name)
{
    return (nvtxDomainHandle_t)(void *)keep_unicode(name);
}

/* ---- the injection ---- */

typedef struct attachment {
    unsigned id;
    NvtxFunctionPointer function;
} attachment_t;

static void attach(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module,
                   const attachment_t *list, unsigned count)
{
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks->GetModuleFunctionTable(module, &table, &size) || !table)
        return;
    for (unsigned i = 0; i < count; i++)
        if (list[i].id < size && table[list[i].id])
            *table[list[i].id] = list[i].function;
}

#define ATTACHED(id, function)                                                                               \
    {                                                                                                        \
        id, (NvtxFunctionPointer)(function)                                                                  \
    }

__attribute__((visibility("default"))) int NVTX_API
InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

/* Called once by every copy of NVTX in the process (each library may have its own), before its first call goes
 * through. 0: the tool does not want to be used. */
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    static const attachment_t core[] = {
        ATTACHED(NVTX_CBID_CORE_RangePushEx, push_ex), ATTACHED(NVTX_CBID_CORE_RangePushA, push_ascii),
        ATTACHED(NVTX_CBID_CORE_RangePushW, push_unicode), ATTACHED(NVTX_CBID_CORE_RangePop, pop_default)};
    static const attachment_t core2[] = {ATTACHED(NVTX_CBID_CORE2_DomainRangePushEx, domain_push),
                                         ATTACHED(NVTX_CBID_CORE2_DomainRangePop, domain_pop),
                                         ATTACHED(NVTX_CBID_CORE2_DomainRegisterStringA, register_ascii),
                                         ATTACHED(NVTX_CBID_CORE2_DomainRegisterStringW, register_unicode),
                                         ATTACHED(NVTX_CBID_CORE2_DomainCreateA, create_domain),
                                         ATTACHED(NVTX_CBID_CORE2_DomainCreateW, create_domain_unicode)};
    const NvtxExportTableCallbacks *callbacks =
        get_export_table ? get_export_table(NVTX_ETID_CALLBACKS) : NULL;
    if (!callbacks || callbacks->struct_size < sizeof *callbacks)
        return 0;
    attach(callbacks, NVTX_CB_MODULE_CORE, core, sizeof core / sizeof *core);
    attach(callbacks, NVTX_CB_MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}
