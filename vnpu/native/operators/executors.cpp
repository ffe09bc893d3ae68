// libnnopbase.so: what of the aclnn interface does not belong to single functions. Of it only the end of an executor
// that is not run, such as that of the largest workspace: running one destroys it.
#include "operator_abi.h"

extern "C" __attribute__((visibility("default"))) int aclDestroyAclOpExecutor(void* executor) {
    auto* execution = static_cast<virtual_npu::Execution*>(executor);
    if (execution != nullptr && execution->kind == virtual_npu::ObjectKind::kExecution) execution->destroy(execution);
    return virtual_npu::kSuccess;
}
