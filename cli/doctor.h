/* doctor.h: the parts of `ebb doctor`. Each prints lines of its own on stdout. */
#ifndef EBB_DOCTOR_H
#define EBB_DOCTOR_H

#include <stdbool.h>

/* Device, driver, budget, link and NUMA node, by a context of its own. False: there is no device. */
bool ebb_doctor_device(bool measure);
/* What may be pinned, and what stands in the way. */
void ebb_doctor_host(void);
/* What ebb would hook in a program, from its files alone: nothing of it is run but the loader's list of libraries.
 * False: nothing can be hooked. */
bool ebb_doctor_program(const char *program);

#endif
