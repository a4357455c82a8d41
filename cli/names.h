/* names.h: names of kernels, for people. */
#ifndef EBB_CLI_NAMES_H
#define EBB_CLI_NAMES_H

#include <stddef.h>

enum { EBB_NAME_ROOM = 512 }; /* for one in full */

/* "void attention<float, 64>(float*, int)" as "attention<float, 64>", from its mangled name, by the C++ library if the machine has one;
 * else, or where the name is cut off, its last identifier. Other names as they are. Cut off with "..." where there is no room.
 * `out`, always ended. One thread. */
const char *ebb_cli_name(const char *name, char *out, size_t out_bytes);

#endif
