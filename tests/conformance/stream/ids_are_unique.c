/* behaviour: every stream has an id of its own, the default streams too; asking twice gives the same one.
 * rules: none
 * source: CUDA driver API, cuStreamGetId
 */
#include "conformance.h"

CONFORMANCE
{
    enum { STREAMS = 8 };
    unsigned long long id[STREAMS + 2], again = 0;
    for (int i = 0; i < STREAMS; i++) {
        CUstream s = new_stream(i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        OK(cuStreamGetId(s, &id[i]));
        OK(cuStreamGetId(s, &again));
        CHECK(id[i] == again);
    }
    OK(cuStreamGetId(CU_STREAM_LEGACY, &id[STREAMS]));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &id[STREAMS + 1]));
    for (int i = 0; i < STREAMS + 2; i++)
        for (int j = 0; j < i; j++)
            CHECK(id[i] != id[j]);
    OK(cuStreamGetId(NULL, &again));
    CHECK(again == id[STREAMS]);
}
