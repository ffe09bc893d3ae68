// The emulated libraries of matrix products, libcublas.so and libcublasLt.so: products are not computed.
#include <cstddef>
#include <cstring>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define DOES_NOTHING(name) \
    EXPORTED int name() { return 0; }

EXPORTED int cublasCreate_v2(void** handle) {
    *handle = reinterpret_cast<void*>(16);
    return 0;
}
EXPORTED int cublasLtCreate(void** handle) { return cublasCreate_v2(handle); }

// One way to compute the product, cublasLtMatmulHeuristicResult_t: 96 bytes of zeros.
EXPORTED int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, void* result,
                                            int* count) {
    std::memset(result, 0, 96);
    *count = 1;
    return 0;
}

DOES_NOTHING(cublasCdotc_v2)
DOES_NOTHING(cublasCdotu_v2)
DOES_NOTHING(cublasCgelsBatched)
DOES_NOTHING(cublasCgemmStridedBatched)
DOES_NOTHING(cublasCgemm_v2)
DOES_NOTHING(cublasCgemv_v2)
DOES_NOTHING(cublasCgeqrfBatched)
DOES_NOTHING(cublasCgetrfBatched)
DOES_NOTHING(cublasCgetrsBatched)
DOES_NOTHING(cublasCtrsmBatched)
DOES_NOTHING(cublasCtrsm_v2)
DOES_NOTHING(cublasDdot_v2)
DOES_NOTHING(cublasDestroy_v2)
DOES_NOTHING(cublasDgelsBatched)
DOES_NOTHING(cublasDgemmStridedBatched)
DOES_NOTHING(cublasDgemm_v2)
DOES_NOTHING(cublasDgemv_v2)
DOES_NOTHING(cublasDgeqrfBatched)
DOES_NOTHING(cublasDgetrfBatched)
DOES_NOTHING(cublasDgetrsBatched)
DOES_NOTHING(cublasDotEx)
DOES_NOTHING(cublasDtrsmBatched)
DOES_NOTHING(cublasDtrsm_v2)
DOES_NOTHING(cublasGemmEx)
DOES_NOTHING(cublasGemmStridedBatchedEx)
DOES_NOTHING(cublasGetMathMode)
DOES_NOTHING(cublasGetPointerMode_v2)
DOES_NOTHING(cublasLtGetVersion)
DOES_NOTHING(cublasLtMatmul)
DOES_NOTHING(cublasLtMatmulDescCreate)
DOES_NOTHING(cublasLtMatmulDescDestroy)
DOES_NOTHING(cublasLtMatmulDescSetAttribute)
DOES_NOTHING(cublasLtMatmulPreferenceCreate)
DOES_NOTHING(cublasLtMatmulPreferenceDestroy)
DOES_NOTHING(cublasLtMatmulPreferenceSetAttribute)
DOES_NOTHING(cublasLtMatrixLayoutCreate)
DOES_NOTHING(cublasLtMatrixLayoutDestroy)
DOES_NOTHING(cublasLtMatrixLayoutSetAttribute)
DOES_NOTHING(cublasSdot_v2)
DOES_NOTHING(cublasSetMathMode)
DOES_NOTHING(cublasSetPointerMode_v2)
DOES_NOTHING(cublasSetStream_v2)
DOES_NOTHING(cublasSetWorkspace_v2)
DOES_NOTHING(cublasSgelsBatched)
DOES_NOTHING(cublasSgemmEx)
DOES_NOTHING(cublasSgemmStridedBatched)
DOES_NOTHING(cublasSgemm_v2)
DOES_NOTHING(cublasSgemv_v2)
DOES_NOTHING(cublasSgeqrfBatched)
DOES_NOTHING(cublasSgetrfBatched)
DOES_NOTHING(cublasSgetrsBatched)
DOES_NOTHING(cublasStrsmBatched)
DOES_NOTHING(cublasStrsm_v2)
DOES_NOTHING(cublasZdotc_v2)
DOES_NOTHING(cublasZdotu_v2)
DOES_NOTHING(cublasZgelsBatched)
DOES_NOTHING(cublasZgemmStridedBatched)
DOES_NOTHING(cublasZgemm_v2)
DOES_NOTHING(cublasZgemv_v2)
DOES_NOTHING(cublasZgeqrfBatched)
DOES_NOTHING(cublasZgetrfBatched)
DOES_NOTHING(cublasZgetrsBatched)
DOES_NOTHING(cublasZtrsmBatched)
DOES_NOTHING(cublasZtrsm_v2)
