/* run_stand_in.h: in place of ckpt/run (run.h), in tests of the rooms around it: no plans, and nothing leaves the device. */
#ifndef RUN_STAND_IN_H
#define RUN_STAND_IN_H

#include "ckpt/run/run.h"

/* What a test wants to do itself; NULL: nothing. */
extern struct run_stand_in {
    ebb_status_t (*before)(ebb_operation_t *operation);
    void (*after)(const ebb_operation_t *operation, CUresult result);
    bool (*freeing)(ebb_buffer_t *buffer, ebb_stream_t *stream);
    bool (*make_room)(ebb_device_t *dev, size_t chunks);
    void (*waited)(ebb_device_t *dev);
    void (*interrupted)(const char *why);
} run_stand_in;

#endif
