/* The ranges that NVTX passes to its tool, as paths: NVTX's own headers call the injection that libebb exports. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Linked in, not loaded: NVTX takes the injection from this pointer. */
#define NVTX_STATIC_INJECTION_IMPL
extern int (*InitializeInjectionNvtx2_fnptr)(const void *(*get_export_table)(uint32_t));
#include <nvtx3/nvToolsExt.h>

#include "ckpt/run/profile/profile.h"

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;

#define PATH_IS(expected) assert_string_equal(ebb_nvtx_path(), expected)

static void pushed_ranges_are_a_path_until_popped(void **state)
{
    (void)state;
    PATH_IS("");
    assert_int_equal(nvtxRangePushA("step"), 0);
    assert_int_equal(nvtxRangePushW(L"layer \u00e9\u20ac\U0001F600"), 1);
    PATH_IS("step/layer \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_int_equal(nvtxRangePop(), 1);
    PATH_IS("step");
    nvtxRangePushA("a\nb\x7f");
    PATH_IS("step/a b ");
    nvtxRangePop();
    assert_int_equal(nvtxRangePop(), 0);
    PATH_IS("");
    assert_true(nvtxRangePop() < 0);
    PATH_IS("");
}

static int push_in(nvtxDomainHandle_t domain, nvtxStringHandle_t string)
{
    nvtxEventAttributes_t e = {.version = NVTX_VERSION,
                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                               .messageType = NVTX_MESSAGE_TYPE_REGISTERED,
                               .message.registered = string};
    return nvtxDomainRangePushEx(domain, &e);
}

/* Domains nest independently: a range of one may end inside of another's. */
static void domains_close_their_own_ranges(void **state)
{
    (void)state;
    nvtxDomainHandle_t a = nvtxDomainCreateA("a"), b = nvtxDomainCreateW(L"b");
    nvtxStringHandle_t outer = nvtxDomainRegisterStringA(a, "outer"),
                       inner = nvtxDomainRegisterStringW(b, L"inner");
    nvtxEventAttributes_t plain = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = "default"};
    const uint64_t turns = ebb_nvtx_turns(); /* the program's: libraries have domains */
    assert_ptr_not_equal(a, b);
    assert_int_equal(push_in(a, outer), 0);
    assert_int_equal(push_in(b, inner), 0);
    assert_int_equal(ebb_nvtx_turns(), turns);
    assert_int_equal(nvtxRangePushEx(&plain), 0);
    assert_int_equal(ebb_nvtx_turns(), turns + 1);
    assert_int_equal(push_in(b, outer), 1);
    PATH_IS("outer/inner/default/outer");
    assert_int_equal(nvtxDomainRangePop(a), 0);
    PATH_IS("inner/default/outer");
    assert_int_equal(nvtxRangePop(), 0);
    assert_int_equal(ebb_nvtx_turns(), turns + 2);
    PATH_IS("inner/outer");
    assert_int_equal(nvtxDomainRangePop(b), 1);
    PATH_IS("inner");
    assert_int_equal(nvtxDomainRangePop(b), 0);
    PATH_IS("");
    assert_int_equal(ebb_nvtx_turns(), turns + 2);
    nvtxDomainDestroy(a);
}

static void deep_and_long_ranges_stay_within_bounds(void **state)
{
    (void)state;
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 200; i++)
        assert_true(nvtxRangePushA(i ? name : "first") >= 0);
    assert_true(strlen(ebb_nvtx_path()) < EBB_NVTX_PATH_BYTES);
    for (int i = 0; i < 199; i++)
        assert_true(nvtxRangePop() >= 0);
    PATH_IS("first");
    nvtxRangePop();
    PATH_IS("");
    for (int i = 0; i < 2; i++)
        nvtxRangePushA(name); /* ends at 511 bytes with half of a character, but for the rule */
    char wide[220];
    for (size_t i = 0; i + 1 < sizeof wide; i++)
        wide[i] = i % 2 ? '\xa9' : '\xc3';
    wide[sizeof wide - 1] = 0;
    nvtxRangePop();
    nvtxRangePushA(wide);
    const char *path = ebb_nvtx_path();
    const size_t length = strlen(path);
    assert_true(length < EBB_NVTX_PATH_BYTES && (length - strlen(name) - 1) % 2 == 0);
    nvtxRangePop();
    nvtxRangePop();
}

static void *other_thread(void *context)
{
    (void)context;
    if (*ebb_nvtx_path())
        return "it sees another thread's ranges";
    nvtxRangePushA("worker");
    nvtxRangePushA("inside");
    nvtxRangePop();
    const char *wrong = strcmp(ebb_nvtx_path(), "worker") ? "its own are not there" : NULL;
    if (ebb_nvtx_turns() != 1)
        wrong = "one outermost range has begun, none ended";
    return (void *)(uintptr_t)wrong;
}

static void every_thread_has_its_own(void **state)
{
    (void)state;
    pthread_t thread;
    void *wrong = NULL;
    nvtxRangePushA("main");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    if (wrong)
        fail_msg("%s", (const char *)wrong);
    PATH_IS("main");
    nvtxRangePop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_ranges_are_a_path_until_popped),
        cmocka_unit_test(domains_close_their_own_ranges),
        cmocka_unit_test(deep_and_long_ranges_stay_within_bounds),
        cmocka_unit_test(every_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
