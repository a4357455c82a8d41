/* local_nccl.c: a library that is linked with NCCL, and a program that loads it for itself alone, as Python loads PyTorch: NCCL's names are then
 * not among those that everybody sees. PROGRAM: the program, whose argument is the library. Exit code 0: the calls came to NCCL. */
#ifdef PROGRAM
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL,
         *symbol = library ? dlsym(library, "call_nccl") : NULL;
    int (*call)(void) = NULL;
    memcpy(&call, &symbol, sizeof call);
    if (!call)
        fprintf(stderr, "%s\n", dlerror());
    return call ? call() : 9;
}
#else
#include <nccl.h>

int call_nccl(void);
int call_nccl(void)
{
    if (ncclGroupStart() || ncclGroupEnd())
        return 1;
    return ncclGroupEnd() == ncclInvalidUsage &&
                   ncclAllReduce(0, 0, 1, ncclFloat, ncclSum, 0, 0) == ncclInvalidArgument
               ? 0
               : 2;
}
#endif
