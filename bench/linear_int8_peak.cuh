/* linear_int8_peak.cuh - the peak rate of int8 products that bench_linear uses as the roofline. */
#ifndef YK_BENCH_LINEAR_INT8_PEAK_CUH
#define YK_BENCH_LINEAR_INT8_PEAK_CUH

#include <cublasLt.h>

#include "bench/linear_gemm.cuh"
#include "bench/linear_timing.cuh"

namespace linear {

/* The fastest of cuBLASLt's heuristic choices for a product of int8 matrices, 4096 x 4096 x 24576, in TOPS. */
inline double measure_int8_peak(cudaStream_t stream)
{
  constexpr uint64_t K = 4096, N = 24576, M = 4096, WORKSPACE_BYTES = 64u << 20;
  constexpr int MOST_ALGORITHMS = 5;
  const int32_t one = 1, zero = 0;
  const cublasOperation_t transposed = CUBLAS_OP_T;
  const device_array<uint32_t> w_data(K * N / 4), x_data(K * M / 4);
  const device_array<int32_t> y_data(M * N);
  const device_array<uint8_t> workspace(WORKSPACE_BYTES);
  fill_words<<<1024, 256, 0, stream>>>(w_data.data, w_data.count, 5);
  fill_words<<<1024, 256, 0, stream>>>(x_data.data, x_data.count, 6);
  cublasLtHandle_t blas;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t w, x, y;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
  int n_found = 0;
  check(cublasLtCreate(&blas), "cuBLASLt");
  check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32I, CUDA_R_32I), "cuBLASLt");
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        "cuBLASLt");
  check(cublasLtMatrixLayoutCreate(&w, CUDA_R_8I, K, N, K), "cuBLASLt");
  check(cublasLtMatrixLayoutCreate(&x, CUDA_R_8I, K, M, K), "cuBLASLt");
  check(cublasLtMatrixLayoutCreate(&y, CUDA_R_32I, N, M, N), "cuBLASLt");
  check(cublasLtMatmulPreferenceCreate(&preference), "cuBLASLt");
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_BYTES,
                                             sizeof WORKSPACE_BYTES),
        "cuBLASLt");
  check(cublasLtMatmulAlgoGetHeuristic(blas, product, w, x, y, y, preference, MOST_ALGORITHMS, found, &n_found),
        "cuBLASLt");
  double best_us = 0;
  for (int a = 0; a < n_found; a++) {
    const auto run = [&] {
      return cublasLtMatmul(blas, product, &one, w_data.data, w, x_data.data, x, &zero, y_data.data, y, y_data.data, y,
                            &found[a].algo, workspace.data, WORKSPACE_BYTES, stream);
    };
    if (run() != CUBLAS_STATUS_SUCCESS) continue;
    const double us = time_graph(stream, 8, 5, WARM_UP_MS, [&](int) { check(run(), "cuBLASLt"); }).median_us;
    if (best_us == 0 || us < best_us) best_us = us;
  }
  cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t matrix : {w, x, y}) cublasLtMatrixLayoutDestroy(matrix);
  cublasLtMatmulDescDestroy(product);
  cublasLtDestroy(blas);
  return best_us > 0 ? 2e-6 * M * K * N / best_us : 0;
}

} // namespace linear

#endif
