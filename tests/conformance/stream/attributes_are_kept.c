/* behaviour: a stream's attributes are read back as they were set and copied to other streams. What is read before they
 * are set is no value to rely on.
 * rules: none
 * source: CUDA driver API, cuStreamSetAttribute, cuStreamGetAttribute, cuStreamCopyAttributes; H200, driver 580.159.04
 */
#include "conformance.h"

CONFORMANCE
{
    CUstream a = new_stream(0), b = new_stream(0);
    CUstreamAttrValue value;
    memset(&value, 0, sizeof value);
    OK(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    value.syncPolicy = CU_SYNC_POLICY_YIELD;
    OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    memset(&value, 0, sizeof value);
    OK(cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECK(value.syncPolicy == CU_SYNC_POLICY_YIELD);
    OK(cuStreamCopyAttributes(b, a));
    memset(&value, 0, sizeof value);
    OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    CHECK(value.syncPolicy == CU_SYNC_POLICY_YIELD);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamGetAttribute(a, (CUstreamAttrID)999, &value));
}
