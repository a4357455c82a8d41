/* channel.c: the one texture function that needs no texture: it returns a structure, so that no stub can
 * stand in for it. */
#include "softgpu/runtime/runtime.h"

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind kind)
{
    return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = kind};
}
