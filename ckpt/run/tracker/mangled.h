/* mangled.h: the little that ebb wants to know of C++ names in their mangled form (Itanium C++ ABI, 5.1). Each returns where it ends, or NULL
 * where something else begins there, or a form that it does not know.
 */
#ifndef EBB_MANGLED_H
#define EBB_MANGLED_H

#include <stdint.h>

/* "4name" */
const char *ebb_mangled_name_end(const char *name);

/* A type, as "f", "N3c107complexIdEE", "PKS1_". */
const char *ebb_mangled_type_end(const char *type);

/* What is behind a lambda's "Ul", as "ffE0_": also how many parameters it has. */
const char *ebb_mangled_lambda_end(const char *signature, uint32_t *parameters);

#endif
