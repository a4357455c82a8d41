/* fault.c: what happens to those who touch device memory and may not (who may: rights.c).
 *
 * Device memory carries a protection key that only the workers' rights include (pkeys(7)): host code that
 * dereferences a device pointer faults, read() and write() on one fail with EFAULT, and host functions, which
 * run on a thread of their own, are host code. Without protection keys device memory is as open as any
 * mapping.
 *
 * A worker that faults abandons its op: the context gets CUDA_ERROR_ILLEGAL_ADDRESS, which sticks, and the
 * log names the address. A signal handler runs with the kernel's default rights and siglongjmp does not
 * restore rights, so they are granted again after every jump.
 */
#include "softgpu/driver/module/module.h"
#include "softgpu/driver/simt/shadow.h"
#include "softgpu/driver/simt/simt.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of SIGSEGV and SIGBUS: who handled them before the driver came, and whom it has stepped in front of last.
 */
static struct sigaction original[2], previous[2];

static _Thread_local struct {
    sigjmp_buf *escape; /* set while the thread runs units of an op */
    void *address;
    bool passing_on; /* a fault that is not ours is with another handler, which may hand it back to us */
} guard __attribute__((tls_model("initial-exec")));

static void say_host_access(const void *address)
{
    char line[160];
    int n = snprintf(
        line, sizeof line,
        "softgpu: rule host-access: host code touched device memory at %p (copy it with cudaMemcpy)\n",
        address);
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    if (guard.escape) {
        guard.address = info->si_addr;
        siglongjmp(*guard.escape, 1);
    }
    if (sg_window_contains((CUdeviceptr)(uintptr_t)info->si_addr))
        say_host_access(info->si_addr);
    /* Not ours: whoever handled it before, or the default, which ends the process as it would have. */
    int index = signal_number == SIGBUS;
    struct sigaction *old = guard.passing_on ? &original[index] : &previous[index];
    if (old->sa_flags & SA_SIGINFO || (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)) {
        bool outer = guard.passing_on;
        guard.passing_on = true;
        if (old->sa_flags & SA_SIGINFO)
            old->sa_sigaction(signal_number, info, context);
        else
            old->sa_handler(signal_number);
        guard.passing_on = outer;
        return;
    }
    sigaction(signal_number, old, NULL); /* the access repeats and is fatal */
}

static CUresult install(int signal_number, struct sigaction *old)
{
    /* NODEFER: the handler leaves by a jump, the signal must not stay blocked. */
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    return sigaction(signal_number, &action, old) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult sg_fault_init(void)
{
    sg_rights_init();
    SG_TRY(install(SIGSEGV, &original[0]));
    SG_TRY(install(SIGBUS, &original[1]));
    previous[0] = original[0];
    previous[1] = original[1];
    return CUDA_SUCCESS;
}

void sg_fault_keep_handlers(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    for (int i = 0; i < 2; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) || now.sa_sigaction == on_fault)
            continue;
        sg_lock();
        if (!sigaction(signals[i], NULL, &now) && now.sa_sigaction != on_fault)
            install(signals[i], &previous[i]);
        sg_unlock();
    }
}

/* A handler for a fault in a fiber whose stack has run out needs another one. */
static void have_signal_stack(void)
{
    enum { BYTES = 64 << 10 };
    static _Thread_local bool there;
    if (there)
        return;
    there = true;
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED)
        sigaltstack(&(stack_t){.ss_sp = p, .ss_size = BYTES}, NULL);
}

static void say_fault(const sg_op_t *op)
{
    char who[256];
    if (op->kind == SG_OP_KERNEL) {
        sg_run_describe(who, sizeof who);
        if (sg_coroutine_overflowed(guard.address))
            sg_set_sticky(CUDA_ERROR_HARDWARE_STACK_ERROR, "%s: a stack of %zu KiB has run out", who,
                          SG_COROUTINE_STACK_BYTES >> 10);
        else
            sg_set_sticky(CUDA_ERROR_ILLEGAL_ADDRESS, "%s accessed %p, which is not accessible memory", who,
                          guard.address);
        return;
    }
    sg_set_sticky(CUDA_ERROR_ILLEGAL_ADDRESS, "%s accessed %p, which is not accessible memory",
                  op->kind == SG_OP_COPY ? "a copy" : "a memset", guard.address);
}

static void run_kernel(const sg_op_t *op, uint64_t first, uint64_t count)
{
    CUfunction f = op->kernel.function;
    softgpu_launch_t *launch = &sg_run.launch_copy;
    softgpu_mode_t mode;
    sg_run = (sg_run_t){.function = f, .launch_copy = op->kernel.launch, .launch = launch, .lane = SG_WARP};
    launch->services = &sg_services;
    CUresult result = sg_function_mode(f, launch->cooperative, &mode);
    if (result) {
        sg_set_sticky(result, "%s cannot run", f->kernel->name);
        sg_run.failed = true;
        return;
    }
    if (mode != SOFTGPU_FAST) {
        have_signal_stack();
        if (sg_mode_block() && f->kernel->size_independent)
            launch->block[0] = sg_mode_block(), launch->block[1] = launch->block[2] = 1;
    }
    if (op->watch && mode == SOFTGPU_CHECKED)
        sg_check_begin(op);
    else if (op->watch && !first)
        sg_watch_unchecked(op);
    f->run[mode](launch, first, count);
    if (op->watch && mode == SOFTGPU_CHECKED)
        sg_watch_done(op, count);
}

/* What would write device memory, which in a dry run nothing does. */
static bool is_dry(const sg_op_t *op)
{
    const void *to = op->kind == SG_OP_COPY ? op->copy.dst : op->set.dst;
    return op->kind == SG_OP_KERNEL || sg_window_contains((CUdeviceptr)(uintptr_t)to);
}

bool sg_fault_run(const sg_op_t *op, uint64_t first, uint64_t count)
{
    if (sg.config.dry && is_dry(op))
        return true;
    sigjmp_buf escape;
    bool whole = true;
    if (sigsetjmp(escape, 0)) {
        guard.escape = NULL;
        sg_rights_grant();
        say_fault(op);
        if (op->kind == SG_OP_KERNEL)
            sg_run_abandon();
        return false;
    }
    guard.escape = &escape;
    sg_work_for(op);
    const uint64_t begin = sg_times_wanted ? sg_times_now() : 0;
    if (op->kind == SG_OP_KERNEL) {
        run_kernel(op, first, count);
        whole = !sg_run.failed;
    } else {
        sg_copy_run(op, first, count);
    }
    guard.escape = NULL;
    if (sg_times_wanted)
        sg_times_add(op, first, count, sg_times_now() - begin);
    return whole;
}
