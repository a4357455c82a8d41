/* launch.h: options of a launch (launch_attributes.c), for launch.c. */
#ifndef SG_LAUNCH_H
#define SG_LAUNCH_H

#include "softgpu/driver/stream/streams.h"

typedef struct sg_launch_options {
    bool cooperative;
    CUevent events[2]; /* recorded behind the kernel; NULL: none */
} sg_launch_options_t;

/* Checks a configuration's attributes and reads those with an effect. */
CUresult sg_launch_attributes(const CUlaunchConfig *config, sg_launch_options_t *out);
/* After the launch: no earlier than all blocks have triggered or begun, hence when the kernel is done. */
CUresult sg_launch_record_events(const sg_launch_options_t *options, CUstream stream);
CUresult cuEventRecord(CUevent event, CUstream stream);
/* The flags of an event; false if it is none (stream.c). */
bool sg_event_flags(CUevent event, unsigned *flags);

#endif
