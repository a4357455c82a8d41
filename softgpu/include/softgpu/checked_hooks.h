/* softgpu/checked_hooks.h: what g++ calls before each access to memory when it compiles kernels for checked mode
 * (-fsanitize=thread). These stand in the place of ThreadSanitizer's runtime, which is not there. One per library.
 */
#ifndef SOFTGPU_CHECKED_HOOKS_H
#define SOFTGPU_CHECKED_HOOKS_H

#define SOFTGPU_HOOK extern "C" __attribute__((visibility("hidden"), used, no_sanitize("thread")))

namespace softgpu
{
static inline __attribute__((no_sanitize("thread"), always_inline)) void
seen(const void *at, size_t bytes, softgpu_access_t how, const void *pc)
{
    if (services)
        services->access(at, bytes, how, pc);
}
} // namespace softgpu

#define SOFTGPU_HOOKS(bytes)                                                                                 \
    SOFTGPU_HOOK void __tsan_read##bytes(void *at)                                                           \
    {                                                                                                        \
        softgpu::seen(at, bytes, SOFTGPU_READ, __builtin_return_address(0));                                 \
    }                                                                                                        \
    SOFTGPU_HOOK void __tsan_write##bytes(void *at)                                                          \
    {                                                                                                        \
        softgpu::seen(at, bytes, SOFTGPU_WRITE, __builtin_return_address(0));                                \
    }                                                                                                        \
    SOFTGPU_HOOK void __tsan_volatile_read##bytes(void *at)                                                  \
    {                                                                                                        \
        softgpu::seen(at, bytes, SOFTGPU_VOLATILE_READ, __builtin_return_address(0));                        \
    }                                                                                                        \
    SOFTGPU_HOOK void __tsan_volatile_write##bytes(void *at)                                                 \
    {                                                                                                        \
        softgpu::seen(at, bytes, SOFTGPU_VOLATILE_WRITE, __builtin_return_address(0));                       \
    }
SOFTGPU_HOOKS(1)
SOFTGPU_HOOKS(2)
SOFTGPU_HOOKS(4)
SOFTGPU_HOOKS(8)
SOFTGPU_HOOKS(16)
#undef SOFTGPU_HOOKS

SOFTGPU_HOOK void __tsan_read_range(void *at, size_t bytes)
{
    softgpu::seen(at, bytes, SOFTGPU_READ_STRUCT, __builtin_return_address(0));
}
SOFTGPU_HOOK void __tsan_write_range(void *at, size_t bytes)
{
    softgpu::seen(at, bytes, SOFTGPU_WRITE_STRUCT, __builtin_return_address(0));
}
SOFTGPU_HOOK void __tsan_init(void)
{
}
SOFTGPU_HOOK void __tsan_vptr_update(void **, void *)
{
}
SOFTGPU_HOOK void __tsan_atomic_thread_fence(int)
{
    __sync_synchronize();
}
SOFTGPU_HOOK void __tsan_atomic_signal_fence(int)
{
}

#endif
