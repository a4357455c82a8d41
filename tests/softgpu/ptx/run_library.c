/* run_library.c: see run_library.h. The services are the smallest that can run blocks: fibers by ucontext, in turns. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "ptx_test.h"

#include "run_library.h"
#include "softgpu/ptx/translate.h"

/* ---- building ---- */
/* For test_computed.c: which choices for its form's modifiers each instruction has, in a file of this program in the folder PTX_COMPUTED. */
static void note_computed(const sg_ptx_module_t *module)
{
    static const char *mode = "w";
    const char *folder = getenv("PTX_COMPUTED");
    char path[4096];
    if (folder == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s", folder, program_invocation_short_name);
    FILE *out = fopen(path, mode);
    assert_non_null(out);
    mode = "a";
    for (uint32_t f = 0; f < module->function_count; f++)
        for (uint32_t i = 0; i < module->functions[f]->insn_count; i++) {
            const sg_ptx_insn_t *insn = &module->functions[f]->insns[i];
            const sg_ptx_form_t *form = &sg_ptx_forms(NULL)[insn->form];
            for (uint32_t g = 0; g < form->group_count; g++)
                fprintf(out, "%u %u %u\n", insn->form, g, spell_number(form, g, insn));
            if (form->group_count == 0)
                fprintf(out, "%u 0 0\n", insn->form);
        }
    fclose(out);
}

static sg_ptx_module_t *read_module(const char *ptx)
{
    sg_ptx_module_t *module = NULL;
    sg_ptx_error_t error;
    if (!sg_ptx_read(ptx, strlen(ptx), &module, &error))
        fail_msg("PTX is not read: %s", error.text);
    return module;
}

const char *ptx_untranslated(const char *ptx)
{
    static char text[512];
    sg_ptx_module_t *module = read_module(ptx);
    sg_ptx_error_t error;
    FILE *out = fopen("/dev/null", "w");
    const bool ok = sg_ptx_translate(module, SG_PTX_WHOLE, NULL, out, &error);
    fclose(out);
    sg_ptx_free(module);
    snprintf(text, sizeof text, "%s", error.text);
    return ok ? NULL : text;
}

const char *ptx_refusal(choice_t *c, char *line, size_t bytes)
{
    static char text[20000];
    sg_ptx_module_t *module;
    sg_ptx_error_t error;
    spell_modifiers(c);
    spell_line(c, UINT32_MAX, line, bytes);
    if (!ptx_read_line(line, &module, &error))
        return "";
    sg_ptx_free(module);
    snprintf(text, sizeof text, "%s%s\n}\n", PTX_KERNEL, line);
    return ptx_untranslated(text);
}

const softgpu_kernel_table_t *ptx_build(const char *ptx)
{
    char folder[] = "/tmp/ptx_XXXXXX", path[64], command[1024];
    sg_ptx_module_t *module = read_module(ptx);
    sg_ptx_error_t error;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.c", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    if (!sg_ptx_translate(module, SG_PTX_WHOLE, NULL, out, &error))
        fail_msg("PTX is not translated: %s", error.text);
    fclose(out);
    note_computed(module);
    sg_ptx_free(module);
    /* As it is compiled for users (TEST_LONG), a row of instructions takes the compiler minutes. */
    const char *quickly = getenv("TEST_LONG") ? "" : "-O0";
    snprintf(command, sizeof command, "cc %s %s -I%s/softgpu/include -I%s/softgpu/ptx -o %s/k.so %s -lm",
             SG_PTX_CFLAGS, quickly, EBB_SOURCE_DIR, EBB_SOURCE_DIR, folder, path);
    if (system(command) != 0)
        fail_msg("the C compiler does not take %s", path);
    snprintf(path, sizeof path, "%s/k.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    if (getenv("PTX_KEEP") == NULL) {
        unlink(path);
        snprintf(path, sizeof path, "%s/k.c", folder);
        unlink(path);
        rmdir(folder);
    } else {
        printf("kept: %s\n", folder);
    }
    const softgpu_kernel_table_t *table = dlsym(library, SOFTGPU_TABLE_SYMBOL);
    assert_non_null(table);
    assert_int_equal(table->abi_version, SOFTGPU_ABI_VERSION);
    return table;
}

const softgpu_kernel_t *ptx_kernel(const softgpu_kernel_table_t *table, const char *name)
{
    for (uint32_t i = 0; i < table->kernel_count; i++)
        if (!strcmp(table->kernels[i]->name, name))
            return table->kernels[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

/* ---- running ---- */
enum { STACK = 256 << 10, COROUTINE_STACK = 1 << 20, MOST = 1024 };
typedef struct fiber {
    ucontext_t context;
    softgpu_thread_t thread;
    bool done, waits;
} fiber_t;

static fiber_t fibers[MOST];
static char *stacks[MOST];
static uint32_t fiber_count, current, alive, waiting;
static ucontext_t worker;
static const softgpu_launch_t *launched;
static const softgpu_entry_t *entered;
static jmp_buf failed;
static ptx_run_t *running;

static void resume(uint32_t from, uint32_t to)
{
    current = to;
    *entered->self = &fibers[to].thread;
    if (from != to)
        swapcontext(&fibers[from].context, &fibers[to].context);
}

static void fail_run(int error, const char *why)
{
    running->error = error;
    snprintf(running->why, sizeof running->why, "%s", why);
    longjmp(failed, 1);
}

static void next_fiber(void)
{
    for (uint32_t k = 1; k <= fiber_count; k++) {
        const uint32_t to = (current + k) % fiber_count;
        if (!fibers[to].done && !fibers[to].waits) {
            resume(current, to);
            return;
        }
    }
    if (alive)
        fail_run(719, "no warp can go on");
    setcontext(&worker);
}

static void open_barrier(void)
{
    for (uint32_t i = 0; i < fiber_count; i++)
        fibers[i].waits = false;
    waiting = 0;
}

static void barrier(softgpu_place_t place)
{
    (void)place;
    fibers[current].waits = true;
    if (++waiting == alive)
        open_barrier();
    else
        next_fiber();
}

static void start(void)
{
    entered->thread_main(launched);
    fibers[current].done = true;
    alive--;
    if (waiting && waiting == alive)
        open_barrier();
    next_fiber();
}

static void run_block(uint64_t number)
{
    const uint32_t *g = launched->grid;
    fiber_count = alive = launched->block[0];
    waiting = 0;
    for (uint32_t i = 0; i < fiber_count; i++) {
        fibers[i].done = fibers[i].waits = false;
        fibers[i].thread =
            (softgpu_thread_t){.thread = {i, 0, 0},
                               .block = {(uint32_t)(number % g[0]), (uint32_t)(number / g[0] % g[1]),
                                         (uint32_t)(number / g[0] / g[1])}};
        if (!stacks[i])
            stacks[i] = aligned_alloc(64, STACK);
        getcontext(&fibers[i].context);
        fibers[i].context.uc_stack.ss_sp = stacks[i];
        fibers[i].context.uc_stack.ss_size = STACK;
        fibers[i].context.uc_link = NULL;
        makecontext(&fibers[i].context, start, 0);
    }
    volatile bool begun = false;
    getcontext(&worker);
    if (!begun) {
        begun = true;
        current = 0;
        *entered->self = &fibers[0].thread;
        setcontext(&fibers[0].context);
    }
}

static void run_blocks(const softgpu_launch_t *launch, uint64_t first, uint64_t count,
                       const softgpu_entry_t *entry)
{
    launched = launch;
    entered = entry;
    *entry->launch = launch;
    for (uint64_t n = first; n < first + count; n++)
        run_block(n);
}

static void copy_async(void *to, const void *from, uint32_t bytes, uint32_t from_bytes, softgpu_place_t place)
{
    (void)place;
    memset(to, 0, bytes);
    memcpy(to, from, from_bytes);
}

static void nothing(void)
{
}

static void wait_async(uint32_t pending)
{
    (void)pending;
}

static void fail_service(int error, const char *why, softgpu_place_t place)
{
    (void)place;
    fail_run(error, why);
}

/* ---- coroutines ---- */
typedef struct coroutine {
    _Alignas(16) char own[SOFTGPU_COROUTINE_BYTES];
    ucontext_t context, resumer;
    void (*main)(void *coroutine);
    char *stack;
    struct coroutine *next;
} coroutine_t;
static coroutine_t *unused, *begun, *coroutines[4096];
static uint32_t coroutine_count;

static void coroutine_main(void)
{
    begun->main(begun);
}

__attribute__((noinline)) static coroutine_t *new_coroutine(void)
{
    if (coroutine_count == sizeof coroutines / sizeof *coroutines)
        return NULL;
    coroutine_t *c = calloc(1, sizeof *c);
    c->stack = aligned_alloc(64, COROUTINE_STACK);
    coroutines[coroutine_count++] = c;
    return c;
}

static void *coroutine(void (*main)(void *coroutine))
{
    coroutine_t *c = unused ? unused : new_coroutine();
    if (!c)
        return NULL;
    if (c == unused)
        unused = c->next;
    c->main = main;
    getcontext(&c->context);
    c->context.uc_stack.ss_sp = c->stack;
    c->context.uc_stack.ss_size = COROUTINE_STACK;
    c->context.uc_link = NULL;
    makecontext(&c->context, coroutine_main, 0);
    return c;
}

static void resume_coroutine(void *coroutine)
{
    coroutine_t *c = begun = coroutine;
    swapcontext(&c->resumer, &c->context);
}

static void yield(void *coroutine)
{
    coroutine_t *c = coroutine;
    swapcontext(&c->context, &c->resumer);
}

static void end_coroutine(void *coroutine)
{
    coroutine_t *c = coroutine;
    c->next = unused;
    unused = c;
}

static int is_stack(const void *at)
{
    for (uint32_t i = 0; i < coroutine_count; i++)
        if ((size_t)((const char *)at - coroutines[i]->stack) < COROUTINE_STACK)
            return 1;
    return 0;
}

static void lane(uint32_t number, softgpu_place_t place)
{
    (void)number, (void)place;
}

/* A tensor map of these tests is what it describes. */
static int read_tensor_map(const void *map, softgpu_tensor_t *out)
{
    memcpy(out, map, sizeof *out);
    return 1;
}

static const softgpu_services_t services = {.run_warps = run_blocks,
                                            .barrier = barrier,
                                            .pause = next_fiber,
                                            .copy_async = copy_async,
                                            .commit_async = nothing,
                                            .wait_async = wait_async,
                                            .fail = fail_service,
                                            .read_tensor_map = read_tensor_map,
                                            .coroutine = coroutine,
                                            .resume = resume_coroutine,
                                            .yield = yield,
                                            .end = end_coroutine,
                                            .is_stack = is_stack,
                                            .lane = lane};

bool ptx_run(const softgpu_kernel_t *kernel, ptx_run_t *run)
{
    softgpu_launch_t launch = {
        .dynamic_shared_bytes = run->dynamic_shared_bytes, .params = run->params, .services = &services};
    memcpy(launch.grid, run->grid, sizeof launch.grid);
    memcpy(launch.block, run->block, sizeof launch.block);
    run->why[0] = '\0';
    run->error = 0;
    running = run;
    if (setjmp(failed))
        return false;
    kernel->run[SOFTGPU_SIMT](&launch, 0, (uint64_t)run->grid[0] * run->grid[1] * run->grid[2]);
    return true;
}
