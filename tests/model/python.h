/* python.h: other people's code, where it is installed. */
#ifndef EBB_TESTS_MODEL_PYTHON_H
#define EBB_TESTS_MODEL_PYTHON_H

#include <stdio.h>
#include <stdlib.h>

/* TEST_PYTHON, or python3; NULL, and it is said: it cannot import these modules ("torch, peft"), and the test is to be skipped. */
static inline const char *python_with(const char *modules)
{
    char command[600];
    const char *python = getenv("TEST_PYTHON") != NULL ? getenv("TEST_PYTHON") : "python3";
    snprintf(command, sizeof command, "%s -c 'import %s' 2>/dev/null", python, modules);
    if (system(command) == 0)
        return python;
    printf("no Python with %s: set TEST_PYTHON to one\n", modules);
    return NULL;
}

#endif
