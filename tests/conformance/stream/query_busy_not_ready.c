/* behaviour: cuStreamQuery and cuEventQuery say NOT_READY while work before them is under way, and SUCCESS once it is done.
 * rules: none
 * source: CUDA driver API, Stream Management and Event Management
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = new_event(CU_EVENT_DISABLE_TIMING);
    EXPECT(CUDA_SUCCESS, cuStreamQuery(stream));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event)); /* never recorded */

    hold_t h = hold(stream);
    OK(cuEventRecord(event, stream));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
    let_go(h);
    OK(cuStreamSynchronize(stream));
    EXPECT(CUDA_SUCCESS, cuStreamQuery(stream));
    EXPECT(CUDA_SUCCESS, cuEventQuery(event));
}
