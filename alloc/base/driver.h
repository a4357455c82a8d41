/* driver.h: the real driver, as one table of functions. Everything in ebb that calls the driver calls it
 * through here, so that ebb's own calls never meet ebb's hooks, and tests can put another driver in.
 */
#ifndef EBB_DRIVER_H
#define EBB_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "alloc/base/status.h"

/* A field for each function that ebb calls (driver_calls.h), under its symbol. Where the driver lacks an OPTIONAL
 * one, the field is NULL. */
typedef struct ebb_driver {
#define EBB_FIELD_REQUIRED(type, symbol) type symbol;
#define EBB_FIELD_OPTIONAL(type, symbol)
#define EBB_FIELD_UNUSED(type, symbol)
#define CALL(name, symbol, version, form, use) EBB_FIELD_##use(PFN_##name##_v##version, symbol)
#include "alloc/base/driver_calls.h"
#ifdef __CUDA_API_VERSION_INTERNAL /* else CUDA's header renames old forms: these fields come last, and are hidden there */
#undef EBB_FIELD_REQUIRED
#undef EBB_FIELD_OPTIONAL
#define EBB_FIELD_REQUIRED(type, symbol)
#define EBB_FIELD_OPTIONAL(type, symbol)       type symbol;
#define CALL(name, symbol, version, form, use) EBB_FIELD_##use(PFN_##name##_v##version, symbol)
#include "alloc/base/driver_calls.h"
#endif
#undef EBB_FIELD_REQUIRED
#undef EBB_FIELD_OPTIONAL
#undef EBB_FIELD_UNUSED
} ebb_driver_t;

extern ebb_driver_t ebb_driver;

/* Fills the table by the real driver's cuGetProcAddress_v2. CUDA_ERROR_NOT_FOUND if a REQUIRED function is
 * missing (logged): ebb then leaves the program alone, and what there is serves to pass its calls on. */
ebb_status_t ebb_driver_fill(PFN_cuGetProcAddress_v12000 real);

#endif
