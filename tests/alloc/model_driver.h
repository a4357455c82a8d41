/* model_driver.h: a driver for tests of the allocator, put into the table ebb_driver: memory and streams as a model
 * that knows what is ordered after what.
 *
 * Every stream is a list of operations, each with a vector clock: how far each stream must have come before it. A
 * use of memory notes stream and position in every 512 bytes of the chunk that is mapped there. Two uses by
 * different owners that no clock orders are an error, whatever the timing happens to be; so is an unmapping
 * that the host cannot know to be safe, a release of what is mapped, a use without access, and a chunk above the
 * budget. Streams advance at random, seeded.
 */
#ifndef MODEL_DRIVER_H
#define MODEL_DRIVER_H

#include "alloc/ebb_alloc.h"

enum { MODEL_STREAMS = 3 };

typedef enum model_fault { NO_FAULT, CREATE, MAP, ACCESS, UNMAP, RECORD, FAULTS } model_fault_t;

/* Fills ebb_driver. At most `chunk_limit` chunks may ever exist at once. */
void model_begin(size_t chunk_limit, unsigned seed);

/* At most so much may be reserved from now on; 0: no limit. */
void model_address_space(size_t bytes);

/* One in `n` calls of a kind fails from now on (0: none), but never two calls in a row. */
void model_fail(model_fault_t kind, unsigned n);
unsigned model_faults(void); /* so far */

CUstream model_stream(unsigned i);
/* Operation on a stream that touches memory for an owner (a number above 0). */
void model_use(unsigned stream, CUdeviceptr at, size_t bytes, unsigned owner);
/* All that `stream` is given from now on comes after what `other` has been given so far. */
void model_order(unsigned stream, unsigned other);
/* The host waits for everything. */
void model_synchronise(void);
void model_advance(unsigned most); /* some operations are over; the host does not know */
unsigned model_random(unsigned n);

/* So many chunks' worth of the device are somebody else's, in this process. */
void model_others(size_t chunks);
size_t model_chunks(void);   /* that exist */
size_t model_mappings(void); /* chunks' worth of address space that is mapped */
/* The first violation, or NULL. */
const char *model_wrong(void);

#endif
