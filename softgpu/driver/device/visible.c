/* visible.c: CUDA_VISIBLE_DEVICES, by NVIDIA's programming guide (5.2.1.1): indices or UUIDs, the latter as short as they are unambiguous; in
 * their order the program's devices are counted. The first that is none ends the list. One that is there twice leaves no device at all
 * (so PyTorch takes it, torch/cuda/__init__.py, which says that CUDA does). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "softgpu/driver/sg.h"

void sg_device_uuid(unsigned installed, unsigned char bytes[16])
{
    memcpy(bytes, "softgpu-device-", 15);
    bytes[15] = (unsigned char)('0' + installed);
}

/* As nvidia-smi -L writes it. */
static void write_uuid(unsigned installed, char out[41])
{
    unsigned char bytes[16];
    char *at = out + sprintf(out, "GPU-");
    sg_device_uuid(installed, bytes);
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", bytes[i]);
}

/* -1: none, or several. */
static int find_uuid(const char *word, size_t length, unsigned installed)
{
    int found = -1;
    for (unsigned i = 0; i < installed; i++) {
        char uuid[41];
        write_uuid(i, uuid);
        if (length > 40 || strncasecmp(uuid, word, length))
            continue;
        if (found >= 0)
            return -1;
        found = (int)i;
    }
    return found;
}

static int find(const char *word, size_t length, unsigned installed)
{
    char *end;
    if (length > 4 && !strncasecmp(word, "GPU-", 4))
        return find_uuid(word, length, installed);
    const long index = isdigit((unsigned char)*word) ? strtol(word, &end, 10) : -1;
    return index >= 0 && index < (long)installed && end == word + length ? (int)index : -1;
}

unsigned sg_read_visible(unsigned installed, uint8_t visible[SG_MAX_DEVICES])
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    unsigned count = 0;
    for (unsigned i = 0; !text && i < installed; i++)
        visible[count++] = (uint8_t)i;
    while (text && *text) {
        text += strspn(text, " ");
        const size_t length = strcspn(text, ", ");
        const int device = find(text, length, installed);
        if (device < 0)
            break;
        if (memchr(visible, device, count))
            return 0;
        visible[count++] = (uint8_t)device;
        text += length + strspn(text + length, " ");
        if (*text && *text++ != ',')
            break;
    }
    return count;
}
