/* w8a8.cu - the W8A8 GEMM's interface: choice of path and of plan. */
#include "kernels/cuda/w8a8/w8a8.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/w8a8/mma_sm80.cuh"
#include "kernels/cuda/w8a8/wgmma.cuh"

using namespace yk_w8a8;

extern "C" yk_status yk_w8a8_init(const yk_gemm_gpu *gpu, yk_w8a8_gpu *out, yk_err *err)
{
  *out = {gpu, {}};
  return gpu->path == YK_GEMM_WGMMA ? yk_gemm::cuda_status(wgmma_init(*out), "w8a8 init", err) : YK_OK;
}

/* Whether rows of y may be written in pieces of 8 columns. */
static bool is_wide(const yk_w8a8_desc &desc, const yk_w8a8_call &call)
{
  const int64_t width = desc.activation.is_gated ? desc.n / 2 : desc.n;
  return call.y && width % 8 == 0 && call.y_stride % 8 == 0 && yk_cuda::is_aligned(call.y, 16);
}

static output_params output_of(const yk_w8a8_desc &desc, const yk_w8a8_call &call)
{
  const char *packed = static_cast<const char *>(call.packed);
  output_params out = {};
  out.w_scales = reinterpret_cast<const float *>(packed + yk_w8a8_scales_at(&desc));
  out.w_sums = reinterpret_cast<const int32_t *>(packed + yk_w8a8_sums_at(&desc));
  out.bias = call.bias;
  out.x_scales = call.x_scales;
  out.y = call.y;
  out.sums = call.sums;
  out.y_stride = call.y_stride;
  out.m = static_cast<int>(call.m);
  out.n = static_cast<int>(desc.n);
  out.n_rows = static_cast<int>(yk_w8a8_n_rows(&desc));
  out.zero = desc.zero;
  out.activation = desc.activation;
  out.is_bf16 = call.y_dtype == YK_BF16;
  out.is_wide = is_wide(desc, call);
  return out;
}

extern "C" yk_status yk_w8a8_forward(const yk_w8a8_gpu *gpu, const yk_w8a8_desc *desc, const yk_w8a8_call *call,
                                     cudaStream_t stream, yk_err *err)
{
  if (call->m == 0 || desc->n == 0) return YK_OK;
  const output_params out = output_of(*desc, *call);
  const cudaError_t error = gpu->gpu->path == YK_GEMM_MMA
                                ? mma_sm80_forward(*desc, *call, out, stream)
                                : wgmma_forward(*gpu, *desc, wgmma_plan(*gpu, *desc, call->m), *call, out, stream);
  return yk_gemm::cuda_status(error, "W8A8 GEMM", err);
}
