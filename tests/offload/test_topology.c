/* The GPU's place in the machine. Machines of several nodes are made up (hwloc's synthetic topologies), the
 * GPU's PCI device is a folder with a `local_cpus`. */
#include "offload/machine.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "offload_test.h"

#define MIB ((size_t)1 << 20)

static ebb_topology_t topology;

static ebb_driver_t real;
static char bus_id[64];
static CUresult bus_id_result;

static CUresult made_up_bus_id(char *out, int bytes, CUdevice device)
{
    (void)device;
    snprintf(out, (size_t)bytes, "%s", bus_id);
    return bus_id_result;
}

/* A GPU whose near CPUs are `mask`. Skips the test where there is no /sys to reach its folder through. */
static void make_device(const char *mask)
{
    if (access("/sys/bus/pci/devices", F_OK) != 0) {
        print_message("no /sys/bus/pci/devices here: nothing to test\n");
        skip();
    }
    char folder[] = "/tmp/ebbXXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/local_cpus", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", mask);
    fclose(f);
    snprintf(bus_id, sizeof bus_id, "../../../..%s", folder); /* from /sys/bus/pci/devices */
    /* Look-ups have the bus id in lower case. */
    char lower[64];
    snprintf(lower, sizeof lower, "%s", bus_id);
    for (char *c = lower; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
    if (strcmp(lower, bus_id)) {
        unlink(path);
        rmdir(folder);
        make_device(mask);
    }
}

static int teardown(void **state)
{
    (void)state;
    char path[160];
    if (strncmp(bus_id, "../", 3) == 0) {
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/local_cpus", bus_id);
        unlink(path);
        *strrchr(path, '/') = 0;
        rmdir(path);
    }
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    ebb_topology_forget(&topology);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    ebb_driver.cuDeviceGetPCIBusId = made_up_bus_id;
    bus_id_result = CUDA_SUCCESS;
    snprintf(bus_id, sizeof bus_id, "none");
    return 0;
}

static void two_nodes(void)
{
    setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    ebb_topology_forget(&topology);
}

static void nothing_known_binds_nothing(void **state)
{
    (void)state;
    char page[64];
    assert_int_equal(ebb_topology_node(NULL), -1);
    assert_false(ebb_topology_bind_memory(NULL, page, sizeof page));
}

/* The software device and whatever machine this is: an answer, and no trouble. */
static void this_machine_is_looked_at(void **state)
{
    (void)state;
    ebb_driver.cuDeviceGetPCIBusId = real.cuDeviceGetPCIBusId;
    const ebb_place_t *place = ebb_topology_find(&topology, 0);
    assert_ptr_equal(ebb_topology_find(&topology, 0), place);
    print_message("node of the device: %d\n", ebb_topology_node(place));
    assert_true(ebb_topology_node(place) >= -1);
}

static void device_near_one_node_has_its_place(void **state)
{
    (void)state;
    make_device("2");
    two_nodes();
    const ebb_place_t *place = ebb_topology_find(&topology, 0);
    assert_non_null(place);
    assert_int_equal(ebb_topology_node(place), 1);
    assert_ptr_equal(ebb_topology_find(&topology, 0), place);
}

static void several_devices_have_their_own_places(void **state)
{
    (void)state;
    two_nodes();
    make_device("2");
    const ebb_place_t *one = ebb_topology_find(&topology, 0);
    teardown(NULL);
    two_nodes();
    make_device("1");
    const ebb_place_t *zero = ebb_topology_find(&topology, 0);
    snprintf(bus_id + strlen(bus_id), 2, "x");
    assert_null(ebb_topology_find(&topology, 1)); /* no such device */
    bus_id[strlen(bus_id) - 1] = 0;
    assert_ptr_equal(ebb_topology_find(&topology, 0), zero);
    assert_null(ebb_topology_find(&topology, 1)); /* remembered */
    assert_int_equal(ebb_topology_node(zero), 0);
    (void)one;
}

static void device_near_everything_has_no_place(void **state)
{
    (void)state;
    make_device("3");
    two_nodes();
    assert_null(ebb_topology_find(&topology, 0));
}

static void device_without_bus_id_has_no_place(void **state)
{
    (void)state;
    make_device("2");
    two_nodes();
    bus_id_result = CUDA_ERROR_INVALID_DEVICE;
    assert_null(ebb_topology_find(&topology, 0));
}

static void one_node_is_no_choice(void **state)
{
    (void)state;
    make_device("2");
    setenv("HWLOC_SYNTHETIC", "numa:1 core:2 pu:1", 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    ebb_topology_forget(&topology);
    assert_null(ebb_topology_find(&topology, 0));
}

static void memory_prefers_the_node(void **state)
{
    (void)state;
    make_device("1");
    two_nodes();
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!ebb_topology_bind_memory(ebb_topology_find(&topology, 0), p, MIB)) {
        munmap(p, MIB);
        skip(); /* a kernel or container without mbind */
    }
    int mode = -1;
    unsigned long nodes[16] = {0};
    /* The policy of an address: MPOL_F_ADDR. */
    assert_int_equal(syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, p, 2), 0);
    assert_int_not_equal(mode, 0); /* MPOL_DEFAULT */
    assert_int_equal(nodes[0], 1);
    memset(p, 1, MIB);
    munmap(p, MIB);
}

static void node_that_is_not_there_is_no_trouble(void **state)
{
    (void)state;
    if (access("/sys/devices/system/node/node1", F_OK) == 0)
        skip();
    make_device("2");
    two_nodes();
    char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(ebb_topology_bind_memory(ebb_topology_find(&topology, 0), p, MIB));
    memset(p, 1, MIB);
    munmap(p, MIB);
}

static int suite_setup(void **state)
{
    driver_setup(state);
    real = ebb_driver;
    return 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nothing_known_binds_nothing),
        TEST(this_machine_is_looked_at),
        TEST(device_near_one_node_has_its_place),
        TEST(several_devices_have_their_own_places),
        TEST(device_near_everything_has_no_place),
        TEST(device_without_bus_id_has_no_place),
        TEST(one_node_is_no_choice),
        TEST(memory_prefers_the_node),
        TEST(node_that_is_not_there_is_no_trouble),
    };
    return cmocka_run_group_tests_name("topology", tests, suite_setup, NULL);
}
