#include "ckpt/run/tracker/internal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *ebb_mangled_name_end(const char *p)
{
    char *end;
    const unsigned long length = strtoul(p, &end, 10);
    return length && length <= strlen(end) ? end + length : NULL;
}

/* "S_", "S1A_", "St", "Sa" and the like. */
static const char *skip_substitution(const char *p)
{
    p++;
    if (islower((unsigned char)*p))
        return p + 1;
    while (isdigit((unsigned char)*p) || isupper((unsigned char)*p))
        p++;
    return *p == '_' ? p + 1 : NULL;
}

/* "LiE": a literal, or one of a function ("LZ..E") or of an enumeration, whose type is a name. */
static const char *skip_literal(const char *p)
{
    p = ebb_mangled_type_end(p + 1);
    while (p && (isdigit((unsigned char)*p) || *p == 'n'))
        p++;
    return p && *p == 'E' ? p + 1 : NULL;
}

/* "I..E" and packs, "J..E" */
static const char *skip_arguments(const char *p)
{
    for (p++; p && *p != 'E';)
        p = *p == 'L' ? skip_literal(p) : *p == 'J' ? skip_arguments(p) : ebb_mangled_type_end(p);
    return p ? p + 1 : NULL;
}

/* "N..E" */
static const char *skip_nested(const char *p)
{
    for (p++; p && *p != 'E';)
        p = *p == 'S'                    ? skip_substitution(p)
            : *p == 'I'                  ? skip_arguments(p)
            : *p == 'K' || *p == 'V'     ? p + 1
            : isdigit((unsigned char)*p) ? ebb_mangled_name_end(p)
                                         : NULL;
    return p ? p + 1 : NULL;
}

const char *ebb_mangled_type_end(const char *p)
{
    while (*p && strchr("PROKV", *p))
        p++;
    if (*p == 'N')
        return skip_nested(p);
    if (*p == 'D') /* decltype(nullptr), char8_t, ...; not decltype(expression) and vectors */
        return p[1] && strchr("nuisahdfe", p[1]) ? p + 2 : NULL;
    if (islower((unsigned char)*p))
        return strchr("pqurk", *p) ? NULL : p + 1;
    if (*p == 'T') { /* a parameter of the template around it */
        p += 1 + strspn(p + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        p = *p == '_' ? p + 1 : NULL;
    } else if (*p == 'S') {
        const bool std = p[1] == 't';
        p = skip_substitution(p);
        p = p && std ? ebb_mangled_name_end(p) : p;
    } else {
        p = isdigit((unsigned char)*p) ? ebb_mangled_name_end(p) : NULL;
    }
    return p && *p == 'I' ? skip_arguments(p) : p;
}

const char *ebb_mangled_lambda_end(const char *p, uint32_t *parameters)
{
    *parameters = 0;
    if (!strncmp(p, "vE", 2))
        p++;
    for (; p && *p != 'E'; ++*parameters)
        p = ebb_mangled_type_end(p);
    if (!p)
        return NULL;
    p += 1 + strspn(p + 1, "0123456789");
    return *p == '_' ? p + 1 : NULL;
}
