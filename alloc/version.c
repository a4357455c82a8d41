/* version.c: what the library says of itself. */
#include "alloc/ebb_alloc.h"

__attribute__((visibility("default"))) const char *ebb_version(void)
{
    return EBB_VERSION;
}
