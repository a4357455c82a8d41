/* Which devices a program sees (CUDA_VISIBLE_DEVICES), each case in a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

/* The numbers that the devices have in a machine of four, as digits; "-": the driver says that there is none. */
static void see(char out[16])
{
    int count = 0;
    char bus[32];
    const CUresult result = cuInit(0);
    snprintf(out, 16, "%s", result == CUDA_ERROR_NO_DEVICE ? "-" : result ? "?" : "");
    if (result || cuDeviceGetCount(&count))
        return;
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        CUdevice device;
        int attribute = -1;
        if (cuDeviceGetPCIBusId(bus, sizeof bus, i) || cuDeviceGetUuid(&uuid, i) ||
            cuDeviceGetByPCIBusId(&device, bus) || device != i ||
            cuDeviceGetAttribute(&attribute, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i) ||
            attribute != uuid.bytes[15] - '0' || attribute != bus[6] - '0')
            snprintf(out, 16, "?");
        else
            snprintf(out + strlen(out), 16 - strlen(out), "%d", attribute);
    }
}

static void expect(const char *visible, const char *numbers)
{
    int ends[2];
    char seen[16] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t process = fork();
    if (!process) {
        setenv("SOFTGPU_DEVICES", "4", 1);
        if (visible)
            setenv("CUDA_VISIBLE_DEVICES", visible, 1);
        else
            unsetenv("CUDA_VISIBLE_DEVICES");
        see(seen);
        _exit(write(ends[1], seen, sizeof seen) != sizeof seen);
    }
    assert_int_equal(read(ends[0], seen, sizeof seen), sizeof seen);
    waitpid(process, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    if (strcmp(seen, numbers))
        fail_msg("CUDA_VISIBLE_DEVICES=%s: %s instead of %s", visible ? visible : "(unset)", seen, numbers);
}

#define UUID(digit) "GPU-736f6674-6770-752d-6465-766963652d3" digit

static void devices_are_those_that_are_named(void **state)
{
    (void)state;
    expect(NULL, "0123");
    expect("2,1", "21");
    expect(" 3 , 0", "30");
    expect("3", "3");
    expect(UUID("2") ",0," UUID("1"), "201");
    expect("gpu-736F6674-6770-752d-6465-766963652d33", "3");
}

static void what_is_none_ends_the_list(void **state)
{
    (void)state;
    expect("0,2,-1,1", "02");
    expect("1,4,2", "1");
    expect("1,x", "1");
    expect("1 2", "1");
    expect("2,GPU-736f6674", "2"); /* all of them begin so */
    expect(UUID("9") ",1", "-");
    expect(UUID("1") "0", "-");
    expect("", "-");
    expect("-1", "-");
    expect("NoDevFiles", "-");
}

static void one_that_is_named_twice_leaves_none(void **state)
{
    (void)state;
    expect("0,1,0", "-");
    expect("1," UUID("1"), "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_those_that_are_named),
        cmocka_unit_test(what_is_none_ends_the_list),
        cmocka_unit_test(one_that_is_named_twice_leaves_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
