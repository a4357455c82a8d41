#include "ckpt/run/tracker/word.h"

#include <string.h>

#include "alloc/device.h"
#include "alloc/base/driver.h"

/* Words come again and again: the driver is asked once for most. */
static struct {
    CUdeviceptr word;
    bool foreign;
} asked[256];

/* Whether the device reads the host's memory as it is (HMM, or the hardware's); a bit for each device, and whether it is known. */
static uint64_t pageable, pageable_known;

/* Too small, or not canonical. */
static bool is_no_address(CUdeviceptr word)
{
    return word >> 16 == 0 || word >> 48;
}

bool ebb_word_is_foreign(CUdeviceptr word)
{
    unsigned type;
    if (is_no_address(word) || ebb_address_is_served(ebb_here->ebb, word))
        return false;
    const unsigned i = (unsigned)(word * 0x9e3779b97f4a7c15u >> 56);
    if (asked[i].word != word) {
        asked[i].word = word;
        asked[i].foreign = !ebb_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word);
    }
    return asked[i].foreign;
}

static bool reads_host_memory(void)
{
    const uint64_t bit = (uint64_t)1 << ebb_here->number;
    int does = 1;
    if (!(pageable_known & bit)) {
        pageable_known |= bit;
        if (ebb_driver.cuDeviceGetAttribute(&does, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                                            ebb_here->device) ||
            does)
            pageable |= bit;
    }
    return pageable & bit;
}

bool ebb_word_is_junk(CUdeviceptr word, bool asking)
{
    if (!word || ebb_buffer_at(ebb_here->ebb, word))
        return false;
    return is_no_address(word) || ebb_address_is_served(ebb_here->ebb, word) ||
           (asking && !reads_host_memory() && !ebb_word_is_foreign(word));
}

void ebb_words_forget(void)
{
    memset(asked, 0, sizeof asked);
}
