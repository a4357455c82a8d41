/* names.c: see names.h. */
#include "cli/names.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report_text.h"

/* abi::__cxa_demangle (Itanium C++ ABI, 3.4): the caller's, to be freed. */
typedef char *demangle_t(const char *name, char *out, size_t *out_bytes, int *status);

static demangle_t *find_demangler(void)
{
    static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};
    static demangle_t *found;
    static bool tried;
    for (size_t i = 0; !tried && !found && i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_LOCAL);
        if (library)
            *(void **)&found = dlsym(library, "__cxa_demangle");
    }
    tried = true;
    return found;
}

/* Anonymous namespaces have a name that is longer than it is worth. In place. */
static void drop_anonymous(char *name)
{
    static const char anonymous[] = "(anonymous namespace)::";
    for (char *at = strstr(name, anonymous); at; at = strstr(at, anonymous))
        memmove(at, at + sizeof anonymous - 1, strlen(at + sizeof anonymous - 1) + 1);
}

/* Without the parameters: up to the parenthesis that is in no template argument. */
static size_t length_without_parameters(const char *name)
{
    int depth = 0;
    size_t n = 0;
    for (; name[n] && (depth || name[n] != '('); n++)
        depth += (name[n] == '<') - (name[n] == '>');
    return n;
}

const char *ebb_cli_name(const char *name, char *out, size_t out_bytes)
{
    char brief[EBB_TEXT_NAME];
    demangle_t *const demangle = strncmp(name, "_Z", 2) ? NULL : find_demangler();
    char *const whole = demangle ? demangle(name, NULL, NULL, NULL) : NULL;
    const char *text = whole;
    size_t length = 0;
    if (whole) {
        drop_anonymous(whole);
        text += strncmp(whole, "void ", 5) ? 0 : 5;
        length = length_without_parameters(text);
    } else {
        ebb_text_short_name(name, brief);
        text = brief;
        length = strlen(brief);
    }
    const bool fits = length < out_bytes;
    snprintf(out, out_bytes, "%.*s%s",
             (int)(fits            ? length
                   : out_bytes > 4 ? out_bytes - 4
                                   : 0),
             text, fits ? "" : "...");
    free(whole);
    return out;
}
