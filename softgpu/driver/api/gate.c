/* gate.c: faults on demand and the call trace. Format of the variables: gate.h. */
#include "softgpu/driver/api/gate.h"
#include "softgpu/driver/sg.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char sg_gate_armed; /* not const: read by the gates */
char sg_gate_armed __attribute__((visibility("hidden")));

/* ---- faults ---- */

typedef struct fault {
    char kind[64];
    unsigned long nth;
    bool from_there_on, sticky;
    CUresult code; /* CUDA_SUCCESS: by the function */
    _Atomic unsigned long calls;
    struct fault *next;
} fault_t;

static fault_t *faults; /* constant once the library is loaded */

static const struct {
    const char *kind, *patterns[4], *except;
    CUresult code;
} kinds[] = {
    {"alloc", {"cuMemAlloc*", "cuMemCreate"}, "cuMemAllocHost", CUDA_ERROR_OUT_OF_MEMORY},
    {"free", {"cuMemFree*"}, "cuMemFreeHost", CUDA_ERROR_UNKNOWN},
    {"host", {"cuMemAllocHost", "cuMemHostAlloc", "cuMemHostRegister"}, "", CUDA_ERROR_OUT_OF_MEMORY},
    {"map", {"cuMemMap", "cuMemSetAccess", "cuMemAddressReserve"}, "", CUDA_ERROR_OUT_OF_MEMORY},
    {"unmap", {"cuMemUnmap", "cuMemRelease", "cuMemAddressFree"}, "", CUDA_ERROR_UNKNOWN},
    {"copy", {"cuMemcpy*"}, "", CUDA_ERROR_LAUNCH_FAILED},
    {"set", {"cuMemset*"}, "", CUDA_ERROR_LAUNCH_FAILED},
    {"launch", {"cuLaunch*", "cuGraphLaunch"}, "cuLaunchHostFunc", CUDA_ERROR_LAUNCH_FAILED},
    {"event", {"cuEvent*"}, "", CUDA_ERROR_UNKNOWN},
    {"stream", {"cuStream*"}, "", CUDA_ERROR_UNKNOWN},
    {"sync", {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"}, "", CUDA_ERROR_LAUNCH_FAILED},
    {"any", {"cu*"}, "", CUDA_ERROR_UNKNOWN},
};

/* The name as the documentation has it: without _v2, _ptsz, _ptds. */
static void plain_name(const char *symbol, char out[64])
{
    snprintf(out, 64, "%s", symbol);
    size_t n = strlen(out);
    if (n > 5 && (!strcmp(out + n - 5, "_ptsz") || !strcmp(out + n - 5, "_ptds")))
        out[n -= 5] = 0;
    if (n > 3 && out[n - 3] == '_' && out[n - 2] == 'v')
        out[n - 3] = 0;
}

/* Whether a function is of this kind; *code becomes the kind's usual error if none is set. */
static bool is_of_kind(const char *kind, const char *symbol, CUresult *code)
{
    char name[64];
    plain_name(symbol, name);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].kind, kind))
            continue;
        bool found = false;
        for (int p = 0; p < 4 && kinds[i].patterns[p]; p++)
            found |= !fnmatch(kinds[i].patterns[p], name, 0);
        if (!found || !strcmp(name, kinds[i].except))
            return false;
        if (*code == CUDA_SUCCESS)
            *code = kinds[i].code;
        return true;
    }
    if (fnmatch(kind, name, 0) && fnmatch(kind, symbol, 0))
        return false;
    for (size_t i = 0; *code == CUDA_SUCCESS && i < sizeof kinds / sizeof kinds[0]; i++)
        is_of_kind(kinds[i].kind, symbol, code); /* "any" comes last */
    return true;
}

static bool read_code(const char *text, size_t length, CUresult *out)
{
    char word[64], *end;
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    unsigned long number = strtoul(word, &end, 10);
    if (end != word && !*end) {
        *out = (CUresult)number;
        return number > 0 && number <= CUDA_ERROR_UNKNOWN;
    }
    for (int code = 1; code <= CUDA_ERROR_UNKNOWN; code++) {
        const char *name;
        if (cuGetErrorName((CUresult)code, &name) || strncmp(name, "CUDA_ERROR_", 11))
            continue;
        if (!strcasecmp(name, word) || !strcasecmp(name + 11, word)) {
            *out = (CUresult)code;
            return true;
        }
    }
    return false;
}

/* KIND@N[+][=CODE][!] */
static bool read_fault(const char *text, size_t length, fault_t *out)
{
    const char *end = text + length, *at = memchr(text, '@', length);
    if (!at || at == text || (size_t)(at - text) >= sizeof out->kind)
        return false;
    memcpy(out->kind, text, (size_t)(at - text));
    char *rest;
    out->nth = strtoul(at + 1, &rest, 10);
    if (rest == at + 1 || !out->nth)
        return false;
    if (end > rest && end[-1] == '!') {
        out->sticky = true;
        end--;
    }
    if (rest < end && *rest == '+') {
        out->from_there_on = true;
        rest++;
    }
    if (rest < end && *rest == '=')
        return read_code(rest + 1, (size_t)(end - rest - 1), &out->code);
    return rest == end;
}

static void read_faults(const char *text)
{
    fault_t **link = &faults;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, ",");
        fault_t *f = calloc(1, sizeof *f);
        if (f && read_fault(at, length, f)) {
            *link = f;
            link = &f->next;
        } else {
            fprintf(stderr, "softgpu: SOFTGPU_FAULT: '%.*s' is not KIND@N[+][=CODE][!]; ignored\n",
                    (int)length, at);
            free(f);
        }
        at += length + (at[length] == ',');
    }
}

/* The error that this call is to fail with, or CUDA_SUCCESS. Every rule counts every call of its kind. */
static CUresult fault_for(const char *symbol)
{
    CUresult result = CUDA_SUCCESS;
    for (fault_t *f = faults; f; f = f->next) {
        CUresult code = f->code;
        if (!is_of_kind(f->kind, symbol, &code))
            continue;
        unsigned long call = atomic_fetch_add(&f->calls, 1) + 1;
        if (result || (f->from_there_on ? call < f->nth : call != f->nth))
            continue;
        result = code;
        sg_log(2, "%s fails as SOFTGPU_FAULT wants, the %lu. call of kind %s", symbol, call, f->kind);
        if (f->sticky)
            sg_set_sticky(code, "%s: SOFTGPU_FAULT wants it so", symbol);
    }
    return result;
}

/* ---- the trace ---- */

static FILE *trace;

enum { MAX_ARGUMENTS = 16, MAX_DEPTH = 16 };

typedef struct call {
    unsigned row;
    uintptr_t argument[MAX_ARGUMENTS];
    uintptr_t return_address;
} call_t;

/* The calls that a thread is in. On the heap: this library's thread-local storage is in the static block, where
 * there is little room (fault.c). */
typedef struct nest {
    unsigned depth;
    call_t call[MAX_DEPTH];
} nest_t;

static pthread_key_t nest_key;

static nest_t *own_nest(void)
{
    nest_t *nest = pthread_getspecific(nest_key);
    if (!nest && (nest = calloc(1, sizeof *nest)))
        pthread_setspecific(nest_key, nest);
    return nest;
}

/* Pointers and handles in hexadecimal, numbers in decimal, by how the parameter is declared. */
static size_t print_argument(char *out, size_t room, const char *declared, size_t length, uintptr_t value)
{
    size_t name = length;
    while (name && (isalnum((unsigned char)declared[name - 1]) || declared[name - 1] == '_'))
        name--;
    char type[96];
    snprintf(type, sizeof type, "%.*s", (int)name, declared);
    int n;
    if (strstr(type, "size_t") && !strchr(type, '*'))
        n = snprintf(out, room, "%.*s=%zu", (int)(length - name), declared + name, (size_t)value);
    else if (strstr(type, "unsigned int") && !strchr(type, '*'))
        n = snprintf(out, room, "%.*s=%u", (int)(length - name), declared + name, (unsigned)value);
    else if ((strstr(type, "int ") || strstr(type, "CUdevice ")) && !strchr(type, '*'))
        n = snprintf(out, room, "%.*s=%d", (int)(length - name), declared + name, (int)value);
    else
        n = snprintf(out, room, "%.*s=%#zx", (int)(length - name), declared + name, (size_t)value);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static unsigned parameter_count(const char *parameters)
{
    if (!*parameters || !strcmp(parameters, "void"))
        return 0;
    unsigned n = 1;
    for (const char *p = parameters; *p; p++)
        n += *p == ',';
    return n < MAX_ARGUMENTS ? n : MAX_ARGUMENTS;
}

static void print_call(const call_t *c, CUresult result, const char *remark)
{
    const sg_gate_row_t *row = &sg_gate_table[c->row];
    char line[1024];
    size_t at = 0;
    const char *p = row->parameters;
    for (unsigned i = 0, count = parameter_count(p); i < count && at + 4 < sizeof line; i++) {
        size_t length = strcspn(p, ",");
        if (i)
            at += (size_t)snprintf(line + at, sizeof line - at, ", ");
        at += print_argument(line + at, sizeof line - at, p, length, c->argument[i]);
        p += length;
        p += strspn(p, ", ");
    }
    line[at] = 0;
    const char *name = NULL;
    cuGetErrorName(result, &name);
    fprintf(trace, "%d %s(%s) = %s%s\n", gettid(), row->symbol, line, name ? name : "?", remark);
}

/* ---- the gate ---- */

typedef struct passage {
    void (*go)(void); /* NULL: back to the caller with the code */
    uint64_t code;
} passage_t;

void sg_gate_leave(void);
passage_t sg_gate_before(unsigned row, const uintptr_t registers[6], uintptr_t *return_slot);
uintptr_t sg_gate_after(unsigned code);

/* registers: the first six arguments; return_slot: where the caller's address lies, the other arguments above it. */
__attribute__((visibility("hidden"))) passage_t sg_gate_before(unsigned row, const uintptr_t registers[6],
                                                               uintptr_t *return_slot)
{
    const sg_gate_row_t *r = &sg_gate_table[row];
    CUresult code = faults ? fault_for(r->symbol) : CUDA_SUCCESS;
    nest_t *nest = trace ? own_nest() : NULL;
    if (!nest || nest->depth == MAX_DEPTH)
        return (passage_t){code ? NULL : r->impl, code};
    call_t *c = &nest->call[nest->depth];
    c->row = row;
    for (unsigned i = 0, n = parameter_count(r->parameters); i < n; i++)
        c->argument[i] = i < 6 ? registers[i] : return_slot[i - 5];
    if (code) {
        print_call(c, code, " (wanted)");
        return (passage_t){NULL, code};
    }
    c->return_address = *return_slot;
    *return_slot = (uintptr_t)sg_gate_leave;
    nest->depth++;
    return (passage_t){r->impl, 0};
}

__attribute__((visibility("hidden"))) uintptr_t sg_gate_after(unsigned code)
{
    nest_t *nest = pthread_getspecific(nest_key);
    const call_t *c = &nest->call[--nest->depth];
    print_call(c, (CUresult)code, "");
    return c->return_address;
}

#if defined(__x86_64__)
/* System V ABI: arguments in rdi, rsi, rdx, rcx, r8, r9, then on the stack; none of the driver's is a floating
 * point value. */
__asm__(".text\n.hidden sg_gate_enter\n.globl sg_gate_enter\n.type sg_gate_enter,@function\nsg_gate_enter:\n"
        "    pushq %r9\n    pushq %r8\n    pushq %rcx\n    pushq %rdx\n    pushq %rsi\n    pushq %rdi\n"
        "    subq $8, %rsp\n"
        "    movl %eax, %edi\n"
        "    leaq 8(%rsp), %rsi\n"
        "    leaq 56(%rsp), %rdx\n"
        "    call sg_gate_before\n"
        "    movq %rax, %r11\n"
        "    movl %edx, %eax\n"
        "    addq $8, %rsp\n"
        "    popq %rdi\n    popq %rsi\n    popq %rdx\n    popq %rcx\n    popq %r8\n    popq %r9\n"
        "    testq %r11, %r11\n"
        "    je 1f\n"
        "    jmp *%r11\n"
        "1:  ret\n"
        ".size sg_gate_enter, . - sg_gate_enter\n"
        ".hidden sg_gate_leave\n.globl sg_gate_leave\n.type sg_gate_leave,@function\nsg_gate_leave:\n"
        "    pushq %rax\n"
        "    subq $8, %rsp\n"
        "    movl %eax, %edi\n"
        "    call sg_gate_after\n"
        "    movq %rax, %r11\n"
        "    addq $8, %rsp\n"
        "    popq %rax\n"
        "    jmp *%r11\n"
        ".size sg_gate_leave, . - sg_gate_leave\n");
#endif

__attribute__((constructor)) static void arm(void)
{
    const char *wanted = getenv("SOFTGPU_FAULT"), *file = getenv("SOFTGPU_TRACE");
    if (wanted && *wanted)
        read_faults(wanted);
    if (file && *file) {
        if (!pthread_key_create(&nest_key, free))
            trace = strcmp(file, "-") ? fopen(file, "we") : stderr;
        if (trace)
            setvbuf(trace, NULL, _IOLBF, 0);
        else
            fprintf(stderr, "softgpu: SOFTGPU_TRACE: %s cannot be written\n", file);
    }
    sg_gate_armed = faults || trace;
}
