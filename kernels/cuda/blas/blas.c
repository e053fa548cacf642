/* blas.c - cuBLAS, loaded by dlopen and called through a table of its functions. */
#include "kernels/cuda/blas/blas.h"

#include <cublas_v2.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/library.h"

#define LIBRARY "libcublas.so." YK_LIBRARY_STRING(CUBLAS_VER_MAJOR)

/* F(member of yk_cuda_blas, function of cublas_v2.h). cublas_v2.h defines these names as macros for other names. */
#define FUNCTIONS(F)                                                                                                   \
  F(create, cublasCreate)                                                                                              \
  F(destroy, cublasDestroy)                                                                                            \
  F(set_stream, cublasSetStream)                                                                                       \
  F(set_workspace, cublasSetWorkspace)                                                                                 \
  F(set_math_mode, cublasSetMathMode)                                                                                  \
  F(gemm_ex, cublasGemmEx)                                                                                             \
  F(gemm_batch, cublasGemmStridedBatchedEx)                                                                            \
  F(gemm_batched, cublasSgemmStridedBatched)                                                                           \
  F(get_status_string, cublasGetStatusString)

struct yk_cuda_blas {
  cublasHandle_t handle;
#define MEMBER(member, function) __typeof__(function) *member;
  FUNCTIONS(MEMBER)
#undef MEMBER
};

static yk_status load(yk_cuda_blas *blas, yk_err *err)
{
#define SYMBOL(member, function) {YK_LIBRARY_STRING(function), offsetof(yk_cuda_blas, member)},
  static const yk_library_symbol symbols[] = {FUNCTIONS(SYMBOL)};
#undef SYMBOL
  yk_status status = yk_library_load(LIBRARY, symbols, sizeof symbols / sizeof *symbols, blas, err);
  if (status != YK_OK) yk_err_prefix(err, "GPUs need cuBLAS");
  return status;
}

static yk_status open_handle(yk_cuda_blas *blas, cudaStream_t stream, void *workspace, yk_err *err)
{
  cublasStatus_t status = blas->create(&blas->handle);
  if (status == CUBLAS_STATUS_SUCCESS) status = blas->set_stream(blas->handle, stream);
  if (status == CUBLAS_STATUS_SUCCESS) status = blas->set_workspace(blas->handle, workspace, YK_CUDA_CUBLAS_BYTES);
  /* If cuBLAS splits K, it adds its partial results in float32 too. */
  if (status == CUBLAS_STATUS_SUCCESS)
    status = blas->set_math_mode(
        blas->handle, (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
  if (status == CUBLAS_STATUS_SUCCESS) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "cuBLAS: %s", blas->get_status_string(status));
}

yk_status yk_cuda_blas_create(struct CUstream_st *stream, void *workspace, yk_cuda_blas **out, yk_err *err)
{
  yk_cuda_blas *blas = calloc(1, sizeof *blas);
  if (!blas) return yk_err_set(err, YK_E_NOMEM, "no memory for cuBLAS's functions");
  yk_status status = load(blas, err);
  if (status == YK_OK) status = open_handle(blas, stream, workspace, err);
  if (status != YK_OK) {
    yk_cuda_blas_destroy(blas);
    return status;
  }
  *out = blas;
  return YK_OK;
}

void yk_cuda_blas_destroy(yk_cuda_blas *blas)
{
  if (!blas) return;
  if (blas->handle) blas->destroy(blas->handle);
  free(blas);
}

/* cuBLAS matrices are column-major, so it computes y^T = w x^T: each column is one row of y. */
yk_status yk_cuda_blas_multiply(const yk_cuda_blas *blas, const yk_cuda_blas_gemm *g, yk_err *err)
{
  const float one = 1.0f, zero = 0.0f;
  cudaDataType type = g->dtype == YK_F16 ? CUDA_R_16F : g->dtype == YK_BF16 ? CUDA_R_16BF : CUDA_R_32F;
  cublasComputeType_t compute = g->dtype == YK_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasStatus_t status = blas->gemm_ex(
      blas->handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)g->n, (int)g->m, (int)g->k, &one, g->w, type, (int)g->k, g->x, type,
      (int)g->k, &zero, g->y, g->y_dtype == YK_F32 ? CUDA_R_32F : type, (int)g->y_stride, compute, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "GEMM of %lld x %lld x %lld: %s", (long long)g->m, (long long)g->k,
                    (long long)g->n, blas->get_status_string(status));
}

yk_status yk_cuda_blas_multiply_batch(const yk_cuda_blas *blas, const yk_cuda_blas_batch *b, yk_err *err)
{
  const float one = 1.0f, zero = 0.0f;
  cudaDataType type = b->dtype == YK_F16 ? CUDA_R_16F : CUDA_R_16BF;
  cublasStatus_t status = blas->gemm_batch(
      blas->handle, b->w_is_kn ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, (int)b->n, (int)b->m, (int)b->k, &one, b->w,
      type, (int)(b->w_is_kn ? b->n : b->k), b->w_stride, b->x, type, (int)b->x_row_stride, b->x_stride, &zero, b->y,
      type, (int)b->y_row_stride, b->y_stride, b->n_batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status == CUBLAS_STATUS_SUCCESS) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%d GEMMs of %lld x %lld x %lld: %s", b->n_batch, (long long)b->m,
                    (long long)b->k, (long long)b->n, blas->get_status_string(status));
}

static yk_status check_groups(const yk_cuda_blas *blas, cublasStatus_t status, int64_t n_rows, int64_t group,
                              yk_err *err)
{
  if (status == CUBLAS_STATUS_SUCCESS) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "GEMMs of %lld rows and groups of %lld: %s", (long long)n_rows, (long long)group,
                    blas->get_status_string(status));
}

/* Column-major, x is [n_groups * group, n_rows]; a group is `group` neighbouring rows. */
yk_status yk_cuda_blas_find_grams(const yk_cuda_blas *blas, const yk_cuda_blas_grams *a, yk_err *err)
{
  const float mean = 1.0f / (float)a->n_rows, zero = 0.0f;
  int k = (int)(a->n_groups * a->group), group = (int)a->group;
  cublasStatus_t status =
      blas->gemm_batched(blas->handle, CUBLAS_OP_N, CUBLAS_OP_T, group, group, (int)a->n_rows, &mean, a->x, k, group,
                         a->x, k, group, &zero, a->grams, group, (long long)group * group, (int)a->n_groups);
  return check_groups(blas, status, a->n_rows, a->group, err);
}

yk_status yk_cuda_blas_multiply_groups(const yk_cuda_blas *blas, const yk_cuda_blas_groups *a, yk_err *err)
{
  const float one = 1.0f, zero = 0.0f;
  int k = (int)(a->n_groups * a->group), group = (int)a->group;
  cublasStatus_t status =
      blas->gemm_batched(blas->handle, CUBLAS_OP_N, CUBLAS_OP_N, group, (int)a->n_rows, group, &one, a->grams, group,
                         (long long)group * group, a->x, k, group, &zero, a->y, k, group, (int)a->n_groups);
  return check_groups(blas, status, a->n_rows, a->group, err);
}
