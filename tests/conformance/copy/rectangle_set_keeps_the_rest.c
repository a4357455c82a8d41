/* behaviour: a 2D memset writes whole rows of elements and leaves the padding.
 * rules: none
 * source: CUDA driver API, cuMemsetD2D8, cuMemsetD2D16, cuMemsetD2D32
 */
#include "conformance.h"

CONFORMANCE
{
    enum { PITCH = 512, ROWS = 7 };
    CUdeviceptr p = device_alloc(PITCH * ROWS);
    static unsigned char got[PITCH * ROWS];
    OK(cuMemsetD8(p, 1, PITCH * ROWS));
    OK(cuMemsetD2D32(p, PITCH, 0x01020304, 10, ROWS));
    OK(cuMemsetD2D16(p + 100, PITCH, 0x0506, 3, ROWS));
    CUstream s = new_stream(0);
    OK(cuMemsetD2D8Async(p + 200, PITCH, 9, 5, ROWS, s));
    OK(cuStreamSynchronize(s));
    OK(cuMemcpyDtoH(got, p, sizeof got));
    for (int y = 0; y < ROWS; y++) {
        const unsigned char *row = got + y * PITCH;
        CHECK(row[0] == 4 && row[39] == 1 && row[36] == 4 && row[40] == 1 && row[41] == 1);
        CHECK(row[100] == 6 && row[101] == 5 && row[105] == 5 && row[106] == 1);
        CHECK(row[199] == 1 && row[200] == 9 && row[204] == 9 && row[205] == 1);
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD2D32(p + 2, PITCH, 0, 1, 1));
}
