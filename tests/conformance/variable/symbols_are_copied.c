/* behaviour: cudaMemcpyToSymbol and FromSymbol reach variables by their name, static ones and those of an unnamed namespace too,
 * at an offset, in a stream; kernels of a file, static, unnamed or of a template, see them. More than the variable holds is
 * cudaErrorInvalidValue; what is no variable is cudaErrorInvalidSymbol.
 * rules: none
 * source: CUDA runtime API, cudaMemcpyToSymbol, cudaMemcpyFromSymbol, cudaGetSymbolAddress, cudaGetSymbolSize
 * uses: cudart
 */
#include "conformance.h"

int symbols_failures(void); /* symbols_are_copied.cu */

CONFORMANCE
{
    CHECK(symbols_failures() == 0);
}
