/* softgpu/table.h: a kernel as a row of its library's table: how it is called with the argument block of a launch. */
#ifndef SOFTGPU_TABLE_H
#define SOFTGPU_TABLE_H

namespace softgpu
{
template <auto Kernel> struct block_size_independent {
    static constexpr bool value = false;
};

template <auto Kernel> struct cost_of {
    static constexpr softgpu_cost_fn function = nullptr;
};

/* Calls Kernel with the arguments found in a launch's argument block. */
template <auto Kernel, typename Signature> struct adapter;

template <auto Kernel, typename... Args> struct adapter<Kernel, void (*)(Args...)> {
    static constexpr uint32_t count = sizeof...(Args);

    /* Arguments are laid out like the members of a struct: each at the next multiple of its alignment. */
    struct layout {
        softgpu_param_t params[count ? count : 1] = {};
        constexpr layout()
        {
            const size_t size[] = {sizeof(Args)..., 0}, align[] = {alignof(Args)..., 1};
            size_t offset = 0;
            for (uint32_t i = 0; i < count; i++) {
                offset = (offset + align[i] - 1) / align[i] * align[i];
                params[i].offset_bytes = (uint32_t)offset;
                params[i].size_bytes = (uint32_t)size[i];
                params[i].align_bytes = (uint32_t)align[i];
                offset += size[i];
            }
        }
    };
    static constexpr layout params{};

    template <size_t... I> static void call(const char *block, std::index_sequence<I...>)
    {
        (void)block;
        Kernel(*reinterpret_cast<const Args *>(block + params.params[I].offset_bytes)...);
    }

    template <auto Cost, size_t... I>
    static softgpu_cost_t cost_with(const softgpu_launch_t *l, std::index_sequence<I...>)
    {
        const char *block = (const char *)l->params;
        (void)block;
        return Cost(dim3(l->grid[0], l->grid[1], l->grid[2]), dim3(l->block[0], l->block[1], l->block[2]),
                    *reinterpret_cast<const Args *>(block + params.params[I].offset_bytes)...);
    }
    template <auto Cost> static softgpu_cost_t cost(const softgpu_launch_t *launch)
    {
        return cost_with<Cost>(launch, std::index_sequence_for<Args...>{});
    }

    static void one_thread(const softgpu_launch_t *launch)
    {
        call((const char *)launch->params, std::index_sequence_for<Args...>{});
    }

    static void run(const softgpu_launch_t *launch, uint64_t first, uint64_t blocks);
};

#define SOFTGPU_RUN_OF_KERNEL                                                                                \
    template <auto Kernel, typename... Args>                                                                 \
    void adapter<Kernel, void (*)(Args...)>::run(const softgpu_launch_t *launch, uint64_t first,             \
                                                 uint64_t blocks)

template <auto Kernel>
constexpr softgpu_kernel_t describe(const char *name, uint32_t shared_bytes, uint32_t max_threads)
{
    using bound = adapter<Kernel, decltype(Kernel)>;
    constexpr bool independent = block_size_independent<Kernel>::value;
    softgpu_kernel_t row = {};
    row.name = name;
    row.param_count = bound::count;
    row.params = bound::params.params;
    if constexpr (independent)
        row.run[SOFTGPU_FAST] = bound::run;
    row.cost = cost_of<Kernel>::function;
    row.static_shared_bytes = shared_bytes;
    row.max_threads = max_threads;
    row.size_independent = independent;
    return row;
}
} // namespace softgpu

#define BLOCK_SIZE_INDEPENDENT(...)                                                                          \
    template <> struct softgpu::block_size_independent<&__VA_ARGS__> {                                       \
        static constexpr bool value = true;                                                                  \
    }

/* KERNEL_COST(cost function, kernel). */
#define KERNEL_COST(function_, ...)                                                                          \
    template <> struct softgpu::cost_of<&__VA_ARGS__> {                                                      \
        static constexpr softgpu_cost_fn function =                                                          \
            softgpu::adapter<&__VA_ARGS__, decltype(&__VA_ARGS__)>::template cost<&function_>;               \
    }

#endif
