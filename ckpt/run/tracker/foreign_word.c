#include "ckpt/run/tracker/tracker.h"

#include <string.h>

#include "alloc/base/driver.h"
#include "alloc/device.h"
#include "ckpt/run/state.h"

/* Words come again and again: the driver is asked once for most. */
struct ebb_words {
    struct {
        CUdeviceptr word;
        bool foreign;
    } asked[256];
    /* Whether the device reads the host's memory as it is (HMM, or the hardware's); a bit for each device, and whether it is known. */
    uint64_t pageable, pageable_known;
};
const size_t ebb_part_words = sizeof(struct ebb_words);

/* Too small, or not canonical. */
static bool is_no_address(CUdeviceptr word)
{
    return word >> 16 == 0 || word >> 48;
}

bool ebb_word_is_foreign(ebb_device_t *dev, CUdeviceptr word)
{
    unsigned type;
    if (is_no_address(word) || ebb_address_is_served(dev->ebb, word))
        return false;
    const unsigned i = (unsigned)(word * 0x9e3779b97f4a7c15u >> 56);
    if (dev->ebb->run_shared->words->asked[i].word != word) {
        dev->ebb->run_shared->words->asked[i].word = word;
        dev->ebb->run_shared->words->asked[i].foreign =
            !ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word);
    }
    return dev->ebb->run_shared->words->asked[i].foreign;
}

static bool reads_host_memory(ebb_device_t *dev)
{
    const uint64_t bit = (uint64_t)1 << dev->number;
    int does = 1;
    if (!(dev->ebb->run_shared->words->pageable_known & bit)) {
        dev->ebb->run_shared->words->pageable_known |= bit;
        if (ebb_driver.cuDeviceGetAttribute(&does, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, dev->device) ||
            does)
            dev->ebb->run_shared->words->pageable |= bit;
    }
    return dev->ebb->run_shared->words->pageable & bit;
}

bool ebb_word_is_junk(ebb_device_t *dev, CUdeviceptr word, bool asking)
{
    if (!word || ebb_buffer_at(dev->ebb, word))
        return false;
    return is_no_address(word) || ebb_address_is_served(dev->ebb, word) ||
           (asking && !reads_host_memory(dev) && !ebb_word_is_foreign(dev, word));
}

void ebb_words_forget(ebb_t *ebb)
{
    memset(ebb->run_shared->words->asked, 0, sizeof ebb->run_shared->words->asked);
}
