/* Structures that say which of their words are meant: kernels as PyTorch 2.11 has them, by their names and parameters, and what is said of
 * launches with contents of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/run/tracker/tracker.h"

enum { MOST_BYTES = 4096, WORDS = MOST_BYTES / 8, MOST_PARAMETERS = 8 };

#define NATIVE "_ZN2at6native"
#define LAMBDA NATIVE "18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI"

typedef struct kernel {
    const char *name;
    ebb_layout_parameter_t parameter[MOST_PARAMETERS];
} kernel_t;

static const kernel_t cat = {
    NATIVE "40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_"
           "10OpaqueTypeILj2EEEjLi4ELi64ELi64EEEv"
           "PT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_",
    {{0, 8}, {8, 3392}, {3400, 32}, {3432, 4}, {3436, 4}}};
static const kernel_t cat_contiguous = {
    NATIVE "40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c30CatArrayBatchedCopy_vectorizedINS1_"
           "10OpaqueTypeILj2EEEjLi4ELi128ELi1ELi16ELi8EEEv"
           "PcNS1_25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS8_Lj4EEEiS8_",
    {{0, 8}, {8, 2720}, {2728, 32}, {2760, 4}, {2764, 4}}};
static const kernel_t indexed = {
    NATIVE
    "24index_elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelIZNS0_17index_kernel_implINS0_"
    "10OpaqueTypeILi8EEEEEvRNS_18TensorIteratorBaseEN3c108ArrayRefIlEESA_EUlPcPKclE_EEvS7_SA_SA_RKT_bEUliE_"
    "EEvlT1_",
    {{0, 8}, {8, 1240}}};
static const kernel_t lists = {NATIVE
                               "63_GLOBAL__N__64fe0ca5_30_ForeachBinaryOpScalarTensor_cu25multi_tensor_apply_"
                               "kernelINS1_18TensorListMetadataILi2EEENS1_"
                               "27BinaryOpScalarTensorFunctorIlLi2ELi1ELi1EEEJSt4plusIlEPllEEEvT_T0_DpT1_",
                               {{0, 3144}, {3144, 1}, {3145, 1}, {3152, 8}, {3160, 8}}};
static const kernel_t scalar_lists = {
    NATIVE "52_GLOBAL__N__4671fab5_19_ForeachTernaryOp_cu_5285c63625multi_tensor_apply_kernelINS1_"
           "28TensorListScalarListMetadataIfLi3EEENS1_"
           "26TernaryOpScalarListFunctorIS6_Li3ELi2ELi0EEEJNS0_11LerpFunctorIS6_EEEEEvT_T0_DpT1_",
    {{0, 3328}, {3328, 1}, {3329, 1}}};
static const kernel_t wide_lists = {
    NATIVE "52_GLOBAL__N__4671fab5_19_ForeachTernaryOp_cu_5285c63625multi_tensor_apply_kernelINS1_"
           "28TensorListScalarListMetadataIN3c107complexIdEELi2EEENS1_"
           "26TernaryOpScalarListFunctorIS6_Li2ELi2ELi0EEEJNS0_11LerpFunctorIS6_EEEEEvT_T0_DpT1_",
    {{0, 4000}, {4000, 1}, {4001, 1}}};
static const kernel_t fused = {
    NATIVE "51_GLOBAL__N__f7f2fd5f_18_fused_adam_impl_cu_454205f325multi_tensor_apply_kernelINS1_"
           "32FusedOptimizerTensorListMetadataILi4EEENS1_"
           "20FusedAdamMathFunctorIN3c104HalfELi4ELNS0_9ADAM_MODEE0ELb0EEEJPKfdddddbSB_SB_EEEvT_T0_DpT1_",
    {{0, 3336}, {3336, 1}, {3344, 8}, {3352, 8}}};
static const kernel_t cleanup = {
    NATIVE "14lpnorm_cleanupIfLNS0_8NormTypeE1EfLb1EfEEvPKT3_NS0_19TensorListAddressesEi",
    {{0, 8}, {8, 3200}, {3208, 4}}};
static const kernel_t lambda = {
    LAMBDA "NS0_15CUDAFunctor_addIN3c108BFloat16EEEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
    {{0, 4}, {8, 648}}};
static const kernel_t offsets = {NATIVE "19glu_backward_kernelIf16OffsetCalculatorILi3EjLb0EEEEviT_PS4_",
                                 {{0, 4}, {4, 604}, {608, 8}}};
static const kernel_t cross = {
    NATIVE "12cross_kernelIN3c104HalfE16OffsetCalculatorILi3EjLb0EEiEEviPT_PKS6_S9_T0_T1_SB_SB_",
    {{0, 4}, {8, 8}, {16, 8}, {24, 8}, {32, 604}, {636, 4}, {640, 4}, {644, 4}}};
static const kernel_t dropout = {NATIVE
                                 "43_GLOBAL__N__50f1b6c4_10_Dropout_cu_0e96ed3824fused_dropout_kernel_"
                                 "vecIN3c108BFloat16EfjLi1ELi8EbEEvNS_4cuda6detail"
                                 "10TensorInfoIKT_T1_EENS7_IS8_SA_EENS7_IT4_SA_EESA_T0_NS_15PhiloxCudaStateE",
                                 {{0, 216}, {216, 216}, {432, 216}, {648, 4}, {652, 4}, {656, 32}}};

static const kernel_t reduction = {
    NATIVE "13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjfLi4ELi4EEEEEvT1_", {{0, 1048}}};
static const kernel_t wide_reduction = {
    NATIVE
    "13reduce_kernelILi128ELi2ENS0_8ReduceOpIN3c107complexIdEENS0_10NormOneOpsIS5_ddEEjdLi4ELi4EEEEEvT1_",
    {{0, 1056}}};

typedef struct launch {
    unsigned char block[MOST_BYTES];
    unsigned grid[3];
    uint32_t bytes;
    uint8_t role[WORDS];
} launch_t;

static uint32_t parameters_of(const kernel_t *k)
{
    uint32_t count = 0;
    while (count < MOST_PARAMETERS && k->parameter[count].size_bytes)
        count++;
    return count;
}

/* All junk, so that nothing is right by chance. */
static void begin(launch_t *l, const kernel_t *k)
{
    const uint32_t last = parameters_of(k) - 1;
    l->bytes = (k->parameter[last].offset_bytes + k->parameter[last].size_bytes + 7) / 8 * 8;
    for (uint32_t i = 0; i < MOST_BYTES; i++)
        l->block[i] = (unsigned char)rand();
    memcpy(l->grid, (unsigned[]){1, 1, 1}, sizeof l->grid);
}

static void ask(launch_t *l, const kernel_t *k)
{
    ebb_layout_t layout;
    ebb_layout_make(k->name, k->parameter, parameters_of(k), &layout);
    memset(l->role, 0xff, sizeof l->role);
    ebb_layout_roles(&layout, l->block, l->bytes, l->grid, l->role);
    assert_int_equal(l->role[l->bytes / 8], 0xff);
}

/* The words from a byte to another have this role. */
static void check(const launch_t *l, uint32_t begin, uint32_t end, ebb_role_t role)
{
    for (uint32_t w = begin / 8; w < end / 8; w++)
        if (l->role[w] != role)
            fail_msg("word at %u is %d, not %d", 8 * w, l->role[w], (int)role);
}

static void put(launch_t *l, uint32_t at, uint32_t value)
{
    memcpy(l->block + at, &value, sizeof value);
}

/* As IntegerDivider.cuh has it. */
static void put_divider(launch_t *l, uint32_t at, uint32_t divisor)
{
    uint32_t shift = 0;
    while (((uint64_t)1 << shift) < divisor)
        shift++;
    const uint64_t factor = (((uint64_t)1 << 32) * (((uint64_t)1 << shift) - divisor)) / divisor + 1;
    put(l, at, divisor);
    put(l, at + 4, (uint32_t)factor);
    put(l, at + 8, shift);
}

static void cat_has_as_many_inputs_as_the_grid_is_high(void **state)
{
    (void)state;
    static launch_t l;
    for (unsigned inputs = 1; inputs <= 64; inputs++) {
        begin(&l, &cat);
        l.grid[1] = inputs;
        ask(&l, &cat);
        check(&l, 0, 8, EBB_ROLE_UNKNOWN);
        check(&l, 8, 8 + 8 * inputs, EBB_ROLE_OPERAND);
        check(&l, 8 + 8 * inputs, 8 + 8 * 64, EBB_ROLE_UNUSED);
        check(&l, 520, 520 + inputs * 4, EBB_ROLE_NUMBER);
        check(&l, (520 + inputs * 4 + 7) / 8 * 8, 520 + 256, EBB_ROLE_UNUSED);
        check(&l, 520 + 3 * 256 + 64, l.bytes, EBB_ROLE_NUMBER);
    }
    l.grid[1] = 65;
    ask(&l, &cat);
    check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
    l.grid[1] = 128;
    ask(&l, &cat_contiguous);
    check(&l, 8, 8 + 8 * 128, EBB_ROLE_OPERAND);
}

static void multi_tensor_has_the_tensors_that_its_blocks_name(void **state)
{
    (void)state;
    static launch_t l;
    const struct {
        const kernel_t *kernel;
        uint32_t lists, tensors, scalars, blocks_at; /* blocks_at: the tensors of blocks */
    } of[] = {{&lists, 2, 64, 0, 1536},
              {&scalar_lists, 3, 48, 4, 1728},
              {&wide_lists, 2, 60, 16, 2400},
              {&fused, 4, 36, 0, 1728}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (unsigned round = 0; round < 50; round++) {
            const uint32_t tensors = 1 + (uint32_t)rand() % of[i].tensors, all = of[i].tensors;
            begin(&l, of[i].kernel);
            l.grid[0] = tensors + (uint32_t)rand() % (321 - tensors);
            for (uint32_t b = 0; b < l.grid[0]; b++)
                l.block[of[i].blocks_at + b] = (unsigned char)(b < tensors ? b : tensors - 1);
            ask(&l, of[i].kernel);
            for (uint32_t list = 0; list < of[i].lists; list++) {
                check(&l, 8 * all * list, 8 * (all * list + tensors), EBB_ROLE_OPERAND);
                check(&l, 8 * (all * list + tensors), 8 * all * (list + 1), EBB_ROLE_UNUSED);
            }
            check(&l, 8 * all * of[i].lists, 8 * (all * of[i].lists + tensors), EBB_ROLE_NUMBER);
            check(&l, 8 * (all * of[i].lists + tensors), 8 * all * (of[i].lists + 1), EBB_ROLE_UNUSED);
            check(&l, of[i].blocks_at, of[i].blocks_at + l.grid[0], EBB_ROLE_NUMBER);
            check(&l, (of[i].blocks_at + l.grid[0] + 7) / 8 * 8, of[i].blocks_at + 320, EBB_ROLE_UNUSED);
            check(&l, of[i].kernel->parameter[0].size_bytes, l.bytes, EBB_ROLE_UNKNOWN);
            if (of[i].kernel == &fused)
                check(&l, 8 * 36 * 5, 8 * (36 * 5 + tensors), EBB_ROLE_OPERAND);
        }
    l.block[1728] = 36; /* there is no such tensor */
    ask(&l, &fused);
    check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
    l.block[1728] = 0;
    l.grid[0] = 321;
    ask(&l, &fused);
    check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
}

static void cleanup_has_an_address_for_each_block(void **state)
{
    (void)state;
    static launch_t l;
    begin(&l, &cleanup);
    l.grid[0] = 39;
    ask(&l, &cleanup);
    check(&l, 0, 8, EBB_ROLE_UNKNOWN);
    check(&l, 8, 8 + 8 * 39, EBB_ROLE_OPERAND);
    check(&l, 8 + 8 * 39, 3208, EBB_ROLE_UNUSED);
    check(&l, 3208, l.bytes, EBB_ROLE_UNKNOWN);
}

static void lambda_has_the_dimensions_that_its_dividers_show(void **state)
{
    (void)state;
    static launch_t l;
    for (unsigned dimensions = 1; dimensions <= 25; dimensions++) {
        begin(&l, &lambda);
        put(&l, 8, dimensions);
        for (unsigned i = 0; i < dimensions; i++)
            put_divider(&l, 12 + 12 * i, i % 3 ? 1 + (uint32_t)rand() % 5000 : 1u << i);
        ask(&l, &lambda);
        check(&l, 0, 8, EBB_ROLE_UNKNOWN);
        check(&l, 8, 12 + 12 * dimensions, EBB_ROLE_NUMBER);
        check(&l, (12 + 12 * dimensions + 7) / 8 * 8, 12 + 300, EBB_ROLE_UNUSED);
        check(&l, 312, 312 + 12 * dimensions, EBB_ROLE_NUMBER);
        check(&l, (312 + 12 * dimensions + 7) / 8 * 8, 608, EBB_ROLE_UNUSED);
        check(&l, 616, 640, EBB_ROLE_OPERAND);
        check(&l, 640, l.bytes, EBB_ROLE_UNKNOWN);
        /* Numbers that do not belong together: it is not what it seemed. */
        put(&l, 12 + 12 * ((uint32_t)rand() % dimensions) + 4, 12345);
        ask(&l, &lambda);
        check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
    }
    begin(&l, &lambda);
    put(&l, 8, 0);
    ask(&l, &lambda);
    check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
}

static void offsets_by_themselves(void **state)
{
    (void)state;
    static launch_t l;
    begin(&l, &offsets);
    put(&l, 4, 2);
    put_divider(&l, 8, 7);
    put_divider(&l, 20, 4096);
    ask(&l, &offsets);
    check(&l, 0, 32, EBB_ROLE_NUMBER); /* the first of them is half another argument */
    check(&l, 32, 304, EBB_ROLE_UNUSED);
    check(&l, 308, 332, EBB_ROLE_NUMBER);
    check(&l, 336, 608, EBB_ROLE_UNUSED);
    check(&l, 608, 616, EBB_ROLE_UNKNOWN);
    put(&l, 4, 0);
    ask(&l, &offsets);
    check(&l, 8, 304, EBB_ROLE_UNUSED);
    check(&l, 312, 608, EBB_ROLE_UNUSED);
    begin(&l, &cross);
    put(&l, 32, 1);
    put_divider(&l, 36, 7);
    ask(&l, &cross);
    check(&l, 0, 32, EBB_ROLE_UNKNOWN);
    check(&l, 48, 336, EBB_ROLE_UNUSED);
    check(&l, 336, 348, EBB_ROLE_NUMBER);
    check(&l, 352, 632, EBB_ROLE_UNUSED);
    check(&l, 640, 648, EBB_ROLE_UNKNOWN);
}

/* As many indices as it says; the functor behind it has no members. */
static void index_has_its_indices_and_nothing_behind(void **state)
{
    (void)state;
    static launch_t l;
    begin(&l, &indexed);
    put(&l, 8, 2);
    put_divider(&l, 12, 7);
    put_divider(&l, 24, 4096);
    put(&l, 632, 2);
    ask(&l, &indexed);
    check(&l, 0, 8, EBB_ROLE_UNKNOWN);
    check(&l, 40, 312, EBB_ROLE_UNUSED);
    check(&l, 616, 632, EBB_ROLE_OPERAND);
    check(&l, 632, 640, EBB_ROLE_NUMBER);
    check(&l, 640, 656, EBB_ROLE_OPERAND);
    check(&l, 656, 840, EBB_ROLE_UNUSED);
    check(&l, 840, 1248, EBB_ROLE_NUMBER);
    put(&l, 632, 26); /* more than there is room for */
    ask(&l, &indexed);
    check(&l, 616, 1248, EBB_ROLE_UNKNOWN);
}

/* Two of them, of the input and of the output, where nothing but what is in them says where; then the addresses. */
static void reduction_has_a_second_output_if_it_says_so(void **state)
{
    (void)state;
    static launch_t l;
    const struct {
        const kernel_t *kernel;
        uint32_t end; /* of the addresses: two numbers follow, and what aligns the whole */
        uint32_t between;
    } of[] = {{&reduction, 1032, 4}, {&reduction, 1032, 0}, {&wide_reduction, 1032, 4}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (unsigned outputs = 1; outputs <= 3; outputs++)
            for (unsigned dimensions = 0; dimensions < 3; dimensions++) {
                const uint32_t addresses = of[i].end - 48, output = addresses - of[i].between - 504,
                               input = output - 404;
                begin(&l, of[i].kernel);
                put(&l, input, 1);
                put_divider(&l, input + 4, 384);
                put(&l, output, dimensions);
                for (unsigned d = 0; d < dimensions; d++)
                    put_divider(&l, output + 4 + 12 * d, 1 + (uint32_t)rand() % 100);
                put(&l, of[i].end + 12, outputs);
                ask(&l, of[i].kernel);
                check(&l, 0, input / 8 * 8, EBB_ROLE_UNKNOWN);
                if (outputs == 3) {
                    check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
                    continue;
                }
                check(&l, input + 4, input + 16, EBB_ROLE_NUMBER);
                check(&l, (input + 16 + 7) / 8 * 8, (input + 304) / 8 * 8, EBB_ROLE_UNUSED);
                check(&l, (output + 4 + 12 * dimensions + 7) / 8 * 8, (output + 304) / 8 * 8,
                      EBB_ROLE_UNUSED);
                check(&l, addresses, addresses + 16, EBB_ROLE_OPERAND);
                check(&l, addresses + 16, addresses + 24, outputs == 2 ? EBB_ROLE_OPERAND : EBB_ROLE_UNUSED);
                check(&l, addresses + 24, of[i].end, EBB_ROLE_OPERAND);
                check(&l, of[i].end, of[i].end + 16, EBB_ROLE_NUMBER);
                put(&l, input + 8, 17);
                ask(&l, of[i].kernel);
                check(&l, 0, l.bytes, EBB_ROLE_UNKNOWN);
            }
}

static void tensor_info_has_as_many_dimensions_as_it_says(void **state)
{
    (void)state;
    static launch_t l;
    begin(&l, &dropout);
    for (uint32_t i = 0; i < 3; i++) {
        put(&l, 216 * i + 208, i + 1);
        for (uint32_t d = 0; d <= i; d++)
            put(&l, 216 * i + 8 + 4 * d, 5);
    }
    ask(&l, &dropout);
    for (uint32_t i = 0; i < 3; i++) {
        check(&l, 216 * i, 216 * i + 8, EBB_ROLE_OPERAND);
        check(&l, 216 * i + 8, 216 * i + 8 + (i + 2) / 2 * 8, EBB_ROLE_NUMBER);
        check(&l, 216 * i + 8 + (i + 2) / 2 * 8, 216 * i + 104, EBB_ROLE_UNUSED);
        check(&l, 216 * i + 208, 216 * i + 216, EBB_ROLE_NUMBER);
    }
    check(&l, 648, l.bytes, EBB_ROLE_UNKNOWN);
    /* One that is not as it should be is not known, the others are. */
    for (uint32_t wrong = 0; wrong < 3; wrong++) {
        put(&l, 216 + 208, wrong == 0 ? 26 : wrong == 1 ? 0 : 2);
        put(&l, 216 + 12, wrong == 2 ? 0 : 5);
        ask(&l, &dropout);
        check(&l, 216, 432, EBB_ROLE_UNKNOWN);
        check(&l, 432, 440, EBB_ROLE_OPERAND);
    }
}

/* Another size, another library: not known. */
static void what_is_not_exactly_so_is_not_known(void **state)
{
    (void)state;
    const kernel_t *all[] = {&cat,   &cat_contiguous, &lists,   &scalar_lists, &wide_lists,
                             &fused, &cleanup,        &offsets, &cross,        &dropout};
    ebb_layout_t layout;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        kernel_t k = *all[i];
        char name[512];
        ebb_layout_make(k.name, k.parameter, parameters_of(&k), &layout);
        assert_true(layout.count > 0);
        const uint32_t known = layout.count;
        for (uint32_t p = 0; p < parameters_of(&k); p++) {
            const uint32_t size = k.parameter[p].size_bytes;
            if (size <= 200)
                continue;
            k.parameter[p].size_bytes = size + 8;
            ebb_layout_make(k.name, k.parameter, parameters_of(&k), &layout);
            assert_int_equal(layout.count, known - 1);
            k.parameter[p].size_bytes = size - 8;
            ebb_layout_make(k.name, k.parameter, parameters_of(&k), &layout);
            assert_int_equal(layout.count, known - 1);
            k.parameter[p].size_bytes = size;
        }
        snprintf(name, sizeof name, "_ZN4apex%s", k.name + strlen(NATIVE));
        ebb_layout_make(name, k.parameter, parameters_of(&k), &layout);
        assert_int_equal(layout.count, 0);
    }
    kernel_t other = lists; /* whose functor is not PyTorch's own, and may go by what it likes */
    other.name = NATIVE
        "12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEEN4mine3AddEJEEEvT_T0_DpT1_";
    ebb_layout_make(other.name, other.parameter, parameters_of(&other), &layout);
    assert_int_equal(layout.count, 0);
    other = lambda; /* and one of which the name does not say how many operands it has */
    other.name = LAMBDA "N4mine3AddEEEvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_";
    ebb_layout_make(other.name, other.parameter, parameters_of(&other), &layout);
    assert_int_equal(layout.count, 0);
    other = offsets; /* two operands, where there is room for three */
    other.name = NATIVE "19glu_backward_kernelIf16OffsetCalculatorILi2EjLb0EEEEviT_PS4_";
    ebb_layout_make(other.name, other.parameter, parameters_of(&other), &layout);
    assert_int_equal(layout.count, 0);
}

/* How many there are says the functor's name, or its signature, and nothing else: behind it there may be anything. */
static void operands_are_counted_by_the_functor(void **state)
{
    (void)state;
    static const struct {
        const char *functor;
        uint32_t size, operands;
    } of[] = {
        {"NS0_11FillFunctorIfEE", 432, 1},
        {"NS0_13AUnaryFunctorIN3c104HalfES5_bNS0_50_GLOBAL__N__8f1b29aa_17_CompareKernels_cu_"
         "8f1b29aa16CompareEqFunctorIS5_EEEE",
         544, 2},
        {"NS0_50_GLOBAL__N__8f1b29aa_17_CompareKernels_cu_8f1b29aa14CompareFunctorIlEE", 648, 3},
        {"ZZZNS0_15neg_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_clEvENKUlvE7_clEvEUlN3c108BFloat16EE_E",
         536, 2},
        {"ZNS0_43_GLOBAL__N__50f1b6c4_10_Dropout_cu_0e96ed3819masked_scale_kernelIbffEEvRNS_6TensorERKS5_S8_"
         "T1_EUlfbE_E",
         648, 3},
        {"ZZZNS0_49_GLOBAL__N__71e06f4e_16_TensorCompare_cu_71e06f4e17where_kernel_implERNS_"
         "14TensorIteratorEENKUlvE_clEvENKUlvE1_clEvEUlbN3c108BFloat16ES9_E_E",
         752, 4},
        /* Their functors are larger than what another operand would take. */
        {"ZZNS0_62_GLOBAL__N__c0eda84e_23_FlattenIndicesKernel_cu_ef1a7132_1876821_flatten_indices_implINS3_"
         "18CUDAKernelLauncherEiLl8EEENS_6TensorERKS6_N3c108ArrayRefIlEEENKUlvE0_clEvEUllE_E",
         632, 2},
        {"ZZNS0_62_GLOBAL__N__c0eda84e_23_FlattenIndicesKernel_cu_ef1a7132_1876821_flatten_indices_implINS3_"
         "18CUDAKernelLauncherEiLl8EEENS_6TensorERKS6_N3c108ArrayRefIlEEENKUlvE0_clEvEUllE_E",
         672, 2},
    };
    static const char *const behind[] = {"EvRNS_18TensorIteratorBaseERKT_EUliE_EEviT1_",
                                         "EvS4_RKT_EUliE_EEviS9_"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < 2; k++) {
            static launch_t l;
            char name[1024];
            snprintf(name, sizeof name, "%s%s%s", LAMBDA, of[i].functor, behind[k]);
            const kernel_t one = {name, {{0, 4}, {8, of[i].size}}};
            const uint32_t addresses = 8 + (304 + 100 * of[i].operands + 7) / 8 * 8;
            begin(&l, &one);
            put(&l, 8, 1);
            put_divider(&l, 12, 96);
            ask(&l, &one);
            check(&l, 24, 308 / 8 * 8, EBB_ROLE_UNUSED);
            check(&l, addresses, addresses + 8 * of[i].operands, EBB_ROLE_OPERAND);
            check(&l, addresses + 8 * of[i].operands, l.bytes, EBB_ROLE_UNKNOWN);
        }
}

int main(void)
{
    const char *given = getenv("TEST_SEED");
    const unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cat_has_as_many_inputs_as_the_grid_is_high),
        cmocka_unit_test(multi_tensor_has_the_tensors_that_its_blocks_name),
        cmocka_unit_test(cleanup_has_an_address_for_each_block),
        cmocka_unit_test(lambda_has_the_dimensions_that_its_dividers_show),
        cmocka_unit_test(offsets_by_themselves),
        cmocka_unit_test(index_has_its_indices_and_nothing_behind),
        cmocka_unit_test(reduction_has_a_second_output_if_it_says_so),
        cmocka_unit_test(tensor_info_has_as_many_dimensions_as_it_says),
        cmocka_unit_test(what_is_not_exactly_so_is_not_known),
        cmocka_unit_test(operands_are_counted_by_the_functor),
    };
    printf("TEST_SEED=%u\n", seed);
    srand(seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
