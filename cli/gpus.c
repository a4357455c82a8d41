/* gpus.c: figures of NVIDIA's data sheets: A100 (2021), H100 and H200 (2023, 2024), GH200 (2023), B200 (2024, in HGX), L4 and
 * L40S (2023), RTX 3090 (GA102 whitepaper), RTX 4090 (Ada whitepaper), RTX 5090 (Blackwell whitepaper). Links: PCIe 4.0 x16 is
 * 31.5 GB/s each way, 5.0 63, NVLink-C2C 450. Of PCIe, pinned copies reach about
 * 80% (25 and 50); on a GH200, 170 go out and 411 come in (NVIDIA/Megatron-LM issue 6491). */
#include "cli/gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ebb_gpu_t gpus[] = {
    {"A100", 312, 2039, 25, 25, 80, 108},       {"H100", 989.4, 3350, 50, 50, 80, 132},
    {"H100 PCIe", 756, 2000, 50, 50, 80, 114},  {"H200", 989.4, 4800, 50, 50, 141, 132},
    {"GH200", 989.4, 4000, 170, 411, 96, 132},  {"B200", 2250, 8000, 50, 50, 180, 148},
    {"L4", 121, 300, 25, 25, 24, 58},           {"L40S", 362, 864, 25, 25, 48, 142},
    {"RTX 3090", 71, 936, 25, 25, 24, 82},      {"RTX 4090", 165.2, 1008, 25, 25, 24, 128},
    {"RTX 5090", 209.5, 1792, 50, 50, 32, 170},
};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

static const char *skip(const char *at)
{
    return at + strspn(at, " -_");
}

/* Whether `text` is the beginning of `name`. */
static bool begins(const char *name, const char *text)
{
    for (name = skip(name), text = skip(text); *text; name = skip(name + 1), text = skip(text + 1))
        if (toupper((unsigned char)*name) != toupper((unsigned char)*text))
            return false;
    return true;
}

const ebb_gpu_t *ebb_gpu_find(const char *name)
{
    for (int i = 0; *name && i < GPUS; i++)
        if (begins(gpus[i].name, name))
            return &gpus[i];
    return NULL;
}

const ebb_gpu_t *ebb_gpu_of_device(const char *device)
{
    const ebb_gpu_t *found = NULL;
    for (const char *at = device; *at; at++)
        for (int i = 0; i < GPUS; i++)
            if (begins(at, gpus[i].name) && (!found || strlen(gpus[i].name) > strlen(found->name)))
                found = &gpus[i];
    return found;
}

uint64_t ebb_gpu_device_bytes(const char *device)
{
    const ebb_gpu_t *gpu = ebb_gpu_of_device(device);
    unsigned gib = gpu ? gpu->memory_gib : 0;
    static const char digits[] = "0123456789";
    char *end;
    for (const char *at = device + strcspn(device, digits); *at; at = end + strcspn(end, digits)) {
        const unsigned long n = strtoul(at, &end, 10);
        if (n < 10000 && !strncmp(end, "GB", 2))
            gib = (unsigned)n;
    }
    return (uint64_t)gib << 30;
}

const char *ebb_gpu_names(void)
{
    static char list[256];
    list[0] = 0;
    for (int i = 0; i < GPUS; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", gpus[i].name);
    return list;
}

/* By words that kernels of matrix products have in their names. */
static bool is_product(const char *name)
{
    static const char *const words[] = {"gemm",  "matmul", "attention", "flash", "cutlass",
                                        "nvjet", "xmma",   "conv",      "s16816"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

void ebb_gpu_rescale(ebb_trace_t *t, const ebb_gpu_t *from, const ebb_gpu_t *to)
{
    for (uint32_t i = 0; i < t->operation_count; i++) {
        const double scale = is_product(t->operation[i].name) ? from->tensor_tflops / to->tensor_tflops
                                                              : from->memory_gbs / to->memory_gbs;
        t->operation[i].duration_ns = (uint64_t)((double)t->operation[i].duration_ns * scale + 0.5);
    }
    const double memory = to->memory_gbs / from->memory_gbs, out = to->out_gbs / from->out_gbs,
                 in = to->in_gbs / from->in_gbs;
    t->hardware.zero_bytes_per_ns *= memory;
    t->hardware.hash_bytes_per_ns *= memory;
    t->hardware.out_slowdown *= out / memory; /* the part of the memory's rate that a copy takes */
    t->hardware.in_slowdown *= in / memory;
    t->hardware.multiprocessors = to->multiprocessors;
}
