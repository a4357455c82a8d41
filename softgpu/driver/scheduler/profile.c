/* profile.c: rates of GPUs.
 *
 * Sources, all NVIDIA's and public. A100: "A100 Tensor Core GPU" data sheet (2021) and the Ampere whitepaper. H100, H200:
 * their data sheets and the Hopper whitepaper. RTX 3090: GA102 whitepaper. RTX 4090, L4, L40S: Ada whitepaper and the data
 * sheets. RTX 5090: RTX Blackwell whitepaper. B200: Blackwell architecture brief (HGX B200). Where a data sheet gives
 * tensor rates "with sparsity", half of that stands here. Consumer GPUs: FP16 with FP32 accumulation.
 *
 * Not from data sheets: what a link carries. PCIe 4 and 5 with 16 lanes have 32 and 63 GB/s on the wire; from pinned
 * memory, programs see about 26 and 55 each way, and 85 per cent of that each way while both are in use. There are machines that
 * are lopsided: GPUs whose link carries 25 GB/s out and 11 in while both are in use, and 25 each way alone (NVIDIA/nvbandwidth issue
 * 53, A100-SXM4-80GB); 170 out and 411 in (NVIDIA/Megatron-LM issue 6491, GH200). SOFTGPU_LINK makes one. Latencies (profile.h) are
 * round figures of the usual size.
 */
#include "softgpu/driver/scheduler/profile.h"
#include "softgpu/driver/sg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of a name that is the beginning of several, the first is meant: "A100" is the one with SXM and 80 GB. */
static const sg_profile_t profiles[] = {
    // clang-format off
    /*                                            FP32   TF32    BF16    FP16    FP64      GB/s PCIe GiB  SMs  L2 */
    {"A100-SXM-80GB", "A100-SXM4-80GB",          {19.5,  156,    312,    312,    9.7},     2039, 4,  80, 108, 40, 8, 0},
    {"A100-SXM-40GB", "A100-SXM4-40GB",          {19.5,  156,    312,    312,    9.7},     1555, 4,  40, 108, 40, 8, 0},
    {"A100-PCIe-80GB", "A100 80GB PCIe",         {19.5,  156,    312,    312,    9.7},     1935, 4,  80, 108, 40, 8, 0},
    {"A100-PCIe-40GB", "A100-PCIE-40GB",         {19.5,  156,    312,    312,    9.7},     1555, 4,  40, 108, 40, 8, 0},
    {"H100-SXM", "H100 80GB HBM3",               {66.9,  494.7,  989.4,  989.4,  33.5},    3350, 5,  80, 132, 50, 9, 0},
    {"H100-PCIe", "H100 PCIe",                   {51.2,  378,    756,    756,    25.6},    2000, 5,  80, 114, 50, 9, 0},
    {"H200", "H200",                             {66.9,  494.7,  989.4,  989.4,  33.5},    4800, 5, 141, 132, 50, 9, 0},
    {"B200", "B200",                             {80,    1100,   2250,   2250,   40},      8000, 5, 192, 148, 126, 10, 0},
    {"L4", "L4",                                 {30.3,  60,     121,    121,    0.473},    300, 4,  24,  58, 48, 8, 9},
    {"L40S", "L40S",                             {91.6,  183,    362,    362,    1.43},     864, 4,  48, 142, 96, 8, 9},
    {"RTX3090", "GeForce RTX 3090",              {35.6,  35.6,   71,     71,     0.556},    936, 4,  24,  82,  6, 8, 6},
    {"RTX4090", "GeForce RTX 4090",              {82.6,  82.6,   165.2,  165.2,  1.29},    1008, 4,  24, 128, 72, 8, 9},
    {"RTX5090", "GeForce RTX 5090",              {104.8, 104.8,  209.5,  209.5,  1.64},    1792, 5,  32, 170, 96, 12, 0},
    // clang-format on
};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

const sg_profile_t *sg_profile = &profiles[0];
bool sg_profile_named;
static unsigned slowdown_permille[SG_WAYS];
static double larger = 1; /* all work and all bytes, so many times */

/* Capitals, blanks, '-' and '_' do not matter. */
static bool is_prefix(const char *wanted, const char *name)
{
    for (;;) {
        wanted += strspn(wanted, " -_");
        name += strspn(name, " -_");
        if (!*wanted)
            return true;
        if (strncasecmp(wanted++, name++, 1))
            return false;
    }
}

static const sg_profile_t *find(const char *wanted)
{
    for (int i = 0; i < PROFILES; i++)
        if (is_prefix(wanted, profiles[i].name) && is_prefix(profiles[i].name, wanted))
            return &profiles[i];
    for (int i = 0; i < PROFILES; i++)
        if (is_prefix(wanted, profiles[i].name))
            return &profiles[i];
    return NULL;
}

static void warn_unknown(const char *wanted)
{
    char names[512];
    size_t at = 0;
    for (int i = 0; i < PROFILES; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", profiles[i].name);
    sg_log(1, "SOFTGPU_PROFILE=%s is not known; there are %s", wanted, names);
}

/* A way of the link, in 10^9 bytes a second; that is bytes a nanosecond. */
typedef struct way {
    double alone, both; /* both: while the other way is in use */
} way_t;
static way_t ways[SG_WAYS];

static bool read_way(const char *text, way_t out[SG_WAYS])
{
    int end = 0;
    return sscanf(text, "%lf,%lf,%lf,%lf%n", &out[SG_TO_HOST].alone, &out[SG_TO_DEVICE].alone,
                  &out[SG_TO_HOST].both, &out[SG_TO_DEVICE].both, &end) == SG_WAYS * 2 &&
           !text[end];
}

static bool is_sound(const way_t *w)
{
    return w->both >= 0.01 && w->both <= w->alone && w->alone <= 10000;
}

static void read_link(void)
{
    const double alone = sg_profile->pcie_generation >= 5 ? 55 : 26;
    const way_t usual = {alone, 0.85 * alone};
    const char *text = getenv("SOFTGPU_LINK");
    ways[SG_TO_HOST] = ways[SG_TO_DEVICE] = usual;
    if (!text || !*text)
        return;
    way_t wanted[SG_WAYS];
    if (read_way(text, wanted) && is_sound(&wanted[SG_TO_HOST]) && is_sound(&wanted[SG_TO_DEVICE]))
        memcpy(ways, wanted, sizeof ways);
    else
        sg_log(1, "SOFTGPU_LINK=%s is not OUT,IN,OUT-WHILE-IN,IN-WHILE-OUT in GB/s; using %g each way", text,
               alone);
}

/* What a copy takes of the memory's rate is not there for kernels. */
static void read_slowdown(void)
{
    for (int way = 0; way < SG_WAYS; way++)
        slowdown_permille[way] = (unsigned)(ways[way].alone * 1000 / sg_profile->memory_gb_s + 0.5);
    const char *text = getenv("SOFTGPU_COPY_SLOWDOWN");
    if (!text || !*text)
        return;
    char *end;
    unsigned long percent = strtoul(text, &end, 10);
    if (*end || percent > 50)
        sg_log(1,
               "SOFTGPU_COPY_SLOWDOWN=%s is not a number of percent from 0 to 50; using %u/1000 and %u/1000",
               text, slowdown_permille[SG_TO_HOST], slowdown_permille[SG_TO_DEVICE]);
    else
        slowdown_permille[SG_TO_HOST] = slowdown_permille[SG_TO_DEVICE] = (unsigned)percent * 10;
}

static void read_larger(void)
{
    const char *text = getenv("SOFTGPU_LARGER");
    if (!text || !*text)
        return;
    char *end;
    const double wanted = strtod(text, &end);
    if (*end || !(wanted >= 1 && wanted <= 1e6))
        sg_log(1, "SOFTGPU_LARGER=%s is not a number from 1 to 1000000; using 1", text);
    else
        larger = wanted;
}

void sg_profile_init(void)
{
    const char *wanted = getenv("SOFTGPU_PROFILE");
    if (wanted && *wanted) {
        const sg_profile_t *found = find(wanted);
        if (found)
            sg_profile = found;
        else
            warn_unknown(wanted);
        sg_profile_named = found;
    }
    read_link();
    read_slowdown();
    read_larger();
}

static uint64_t round_up(double ns)
{
    uint64_t whole = (uint64_t)ns;
    return whole + ((double)whole < ns);
}

/* Rates in 10^9 a second are rates a nanosecond. */
uint64_t sg_profile_link_ns(sg_way_t way, size_t bytes)
{
    return SG_COPY_NS + round_up(larger * (double)bytes / ways[way].alone);
}

unsigned sg_profile_both_permille(sg_way_t way)
{
    const double part = ways[way].both * 1000 / ways[way].alone;
    return part < 1 ? 1 : (unsigned)(part + 0.5);
}

uint64_t sg_profile_memory_ns(double bytes)
{
    return SG_COPY_NS + round_up(larger * bytes / sg_profile->memory_gb_s);
}

uint64_t sg_profile_kernel_ns(softgpu_cost_t cost)
{
    unsigned kind = (unsigned)cost.kind < SOFTGPU_ARITHMETIC_COUNT ? (unsigned)cost.kind : SOFTGPU_FP32;
    double arithmetic = cost.operations / (sg_profile->tera_ops[kind] * 1000);
    double memory = cost.bytes / sg_profile->memory_gb_s;
    double ns = larger * (arithmetic > memory ? arithmetic : memory);
    /* What is wrong (negative, no number) counts as nothing, what is absurd as a day. */
    return SG_KERNEL_NS + (ns > 0 ? round_up(ns < 86400e9 ? ns : 86400e9) : 0);
}

/* Each thread reads one float, does something with it and writes one. */
softgpu_cost_t sg_profile_default_cost(const softgpu_launch_t *l)
{
    double threads = (double)l->grid[0] * l->grid[1] * l->grid[2] * l->block[0] * l->block[1] * l->block[2];
    return (softgpu_cost_t){.operations = 2 * threads, .kind = SOFTGPU_FP32, .bytes = 8 * threads};
}

unsigned sg_profile_copy_slowdown_permille(sg_way_t way)
{
    return slowdown_permille[way];
}
