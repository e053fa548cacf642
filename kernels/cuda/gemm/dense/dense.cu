/* dense.cu - the WNA16 GEMM's interface: checks of arguments, choice of the kernel family (path) and of plans. */
#include "kernels/cuda/gemm/dense/dense.h"

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/dense/mma_sm80.cuh"
#include "kernels/cuda/gemm/dense/plan.h"
#include "kernels/cuda/gemm/dense/sliced.cuh"
#include "kernels/cuda/gemm/dense/small_batch.cuh"
#include "kernels/cuda/gemm/dense/wgmma.cuh"

using namespace yk_gemm;

static cudaError_t init_sm90(yk_gemm_gpu *gpu)
{
  cudaDriverEntryPointQueryResult found;
  cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &gpu->encode_tensor_map, 12000,
                                                       cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  if (found != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
  error = small_batch_init();
  if (error == cudaSuccess) error = sliced_init();
  return error == cudaSuccess ? wgmma_init(gpu) : error;
}

extern "C" yk_status yk_gemm_gpu_init(yk_gemm_gpu *gpu, yk_gemm_path path, yk_err *err)
{
  int device = 0;
  cudaDeviceProp properties = {};
  *gpu = {};
  YK_TRY(cuda_status(cudaGetDevice(&device), "GEMM init", err));
  YK_TRY(cuda_status(cudaGetDeviceProperties(&properties, device), "GEMM init", err));
  const int major = properties.major, minor = properties.minor;
  gpu->n_multiprocessors = properties.multiProcessorCount;
  snprintf(gpu->name, sizeof gpu->name, "%s", properties.name);
  bool is_90 = major == 9 && minor == 0;
  if (major < 8 || (path == YK_GEMM_WGMMA && !is_90))
    return yk_err_set(err, YK_E_UNSUPPORTED, "GEMM: %s needs compute capability %s, found %d.%d",
                      path == YK_GEMM_WGMMA ? "the wgmma path" : "the GEMM", path == YK_GEMM_WGMMA ? "9.0" : "8.0",
                      major, minor);
  gpu->path = path != YK_GEMM_AUTO ? path : is_90 ? YK_GEMM_WGMMA : YK_GEMM_MMA;
  return cuda_status(gpu->path == YK_GEMM_MMA ? mma_sm80_init() : init_sm90(gpu), "GEMM init", err);
}

/* For a desc that is valid otherwise. */
static yk_status check_slices(const yk_gemm_desc *desc, yk_err *err)
{
  const bool is_power =
      desc->k_slices > 0 && desc->k_slices <= YK_GEMM_MOST_SLICES && (desc->k_slices & (desc->k_slices - 1)) == 0;
  if (!is_power || (desc->k_slices > 1 && desc->k % (TILE_K * desc->k_slices)))
    return yk_err_set(err, YK_E_INVAL,
                      "GEMM: slices of K must be 1, 2, 4 or 8 of a multiple of %d inputs each, found %d of %lld inputs",
                      TILE_K, desc->k_slices, (long long)desc->k);
  if (desc->encoding != YK_GEMM_INT4 || (desc->f32_output && desc->activation.kind != YK_ACTIVATION_NONE))
    return yk_err_set(err, YK_E_INVAL,
                      "GEMM: slices of K need 4-bit integers, and no activation for float32 results, found encoding "
                      "%d, activation %d",
                      (int)desc->encoding, (int)desc->activation.kind);
  return YK_OK;
}

extern "C" yk_status yk_gemm_desc_check(const yk_gemm_desc *desc, yk_err *err)
{
  /* With this limit products of sizes stay far inside 64 bits, counts of panels and of K tiles inside 32. */
  const long long max_size = 1 << 24;
  int columns = desc->activation.is_gated ? 16 : 8;
  if (desc->k <= 0 || desc->k % 32 || desc->k > max_size)
    return yk_err_set(err, YK_E_INVAL, "GEMM: k must be a multiple of 32 from 32 to %lld, found %lld", max_size,
                      (long long)desc->k);
  if (desc->n <= 0 || desc->n % columns || desc->n > max_size)
    return yk_err_set(err, YK_E_INVAL, "GEMM: n must be a multiple of %d from %d to %lld, found %lld", columns, columns,
                      max_size, (long long)desc->n);
  const int unit = YK_GEMM_GROUP_UNIT(desc->encoding);
  if (desc->group <= 0 || (desc->group < desc->k && desc->group % unit))
    return yk_err_set(err, YK_E_INVAL, "GEMM: group must be a multiple of %d or cover k = %lld, found %lld", unit,
                      (long long)desc->k, (long long)desc->group);
  if (desc->dtype != YK_F16 && desc->dtype != YK_BF16)
    return yk_err_set(err, YK_E_INVAL, "GEMM: activations must be float16 or bfloat16, found %s",
                      yk_dtype_name(desc->dtype));
  if (desc->k_slices) return check_slices(desc, err);
  if (desc->f32_output &&
      (desc->encoding != YK_GEMM_INT8 || groups_per_k_tile(*desc) > 1 || desc->activation.kind != YK_ACTIVATION_NONE))
    return yk_err_set(
        err, YK_E_INVAL,
        "GEMM: float32 results need 8-bit integers, groups of multiples of 128 inputs or of all %lld, and "
        "no activation, found %d bits, groups of %lld, activation %d",
        (long long)desc->k, yk_gemm_traits(desc->encoding).bits, (long long)desc->group, (int)desc->activation.kind);
  return YK_OK;
}

extern "C" size_t yk_gemm_workspace_bytes(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, int64_t m_max)
{
  if (m_max <= 0) return 0;
  if (desc->k_slices) return sliced_workspace_bytes(*gpu);
  return gpu->path == YK_GEMM_WGMMA ? wgmma_workspace_bytes(*gpu) : mma_sm80_workspace_bytes(*gpu, *desc, m_max);
}

extern "C" void yk_gemm_plans_choose(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, int64_t half_tokens,
                                     yk_gemm_plans *plans)
{
  *plans = {};
  if (gpu->path != YK_GEMM_WGMMA) return;
  const gemm_costs &costs = costs_of(*gpu, desc->encoding);
  for (int i = 0; i < YK_GEMM_ROW_BUCKETS; i++) {
    const int64_t m = bucket_rows(i);
    plans->of_bucket[i] = desc->k_slices     ? sliced_plan(*gpu, *desc, m)
                          : m <= half_tokens ? best_half_plan(costs, *gpu, *desc, m)
                                             : best_plan(costs, *gpu, *desc, m);
  }
}

static bool takes(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, const yk_gemm_plans &plans, fusion f, int64_t m)
{
  if (gpu.path != YK_GEMM_WGMMA || m < 1) return false;
  const yk_gemm_plan plan = plans.of_bucket[row_bucket(m)];
  return plan.kernel == PLAN_SMALL_BATCH && small_batch_fuses(gpu, desc, plan, f, m);
}

extern "C" bool yk_gemm_takes_norm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans,
                                   int64_t m)
{
  return takes(*gpu, *desc, *plans, fusion::NORM, m);
}

extern "C" bool yk_gemm_takes_sum(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans,
                                  int64_t m)
{
  return takes(*gpu, *desc, *plans, fusion::SUM, m);
}

static bool is_aligned(const void *pointer, uintptr_t bytes)
{
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

extern "C" yk_status yk_gemm_forward(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_gemm_plans *plans,
                                     const yk_gemm_call *call, struct CUstream_st *stream, yk_err *err)
{
  YK_TRY(yk_gemm_desc_check(desc, err));
  const long long max_tokens = 1 << 24;
  if (call->m < 0 || call->m > max_tokens)
    return yk_err_set(err, YK_E_INVAL, "GEMM: tokens must be 0 to %lld, found %lld", max_tokens, (long long)call->m);
  if (call->m == 0) return YK_OK;
  if (!is_aligned(call->packed, 128) || !is_aligned(call->x, 16) || !is_aligned(call->y, desc->f32_output ? 4 : 16) ||
      !is_aligned(call->workspace, 256))
    return yk_err_set(err, YK_E_INVAL,
                      "GEMM: weights must be 128, x and y 16 (float32: y 4), the workspace 256 bytes aligned");
  if (desc->f32_output && (call->bias || call->y_stride < desc->n))
    return yk_err_set(err, YK_E_INVAL,
                      "GEMM: float32 results need rows of at least %lld elements and no bias, found %lld%s",
                      (long long)desc->n, (long long)call->y_stride, call->bias ? " and a bias" : "");
  if (gpu->path == YK_GEMM_MMA && desc->k_slices)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GEMM: slices of K need compute capability 9.0");
  if ((call->norm_w && !yk_gemm_takes_norm(gpu, desc, plans, call->m)) ||
      (call->adds && (call->norm_w || !yk_gemm_takes_sum(gpu, desc, plans, call->m))))
    return yk_err_set(err, YK_E_INVAL, "GEMM: no kernel with a %s for %lld tokens", call->adds ? "sum" : "norm",
                      (long long)call->m);
  if (gpu->path == YK_GEMM_MMA) return cuda_status(mma_sm80_forward(*gpu, *desc, *call, stream), "GEMM", err);
  const yk_gemm_plan plan = plans->of_bucket[row_bucket(call->m)];
  if (plan.kernel == PLAN_SLICED) return cuda_status(sliced_forward(*gpu, *desc, plan, *call, stream), "GEMM", err);
  return cuda_status(plan.kernel == PLAN_SMALL_BATCH ? small_batch_forward(*gpu, *desc, plan, *call, stream)
                                                     : wgmma_forward(*gpu, *desc, plan, *call, stream),
                     "GEMM", err);
}
