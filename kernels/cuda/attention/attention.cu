/* attention.cu - dispatch: the kernels that process the sequences of a step. */
#include "kernels/cuda/attention/attention.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/attention/flash_decoding.cuh"
#include "kernels/cuda/attention/generic.cuh"
#include "kernels/cuda/attention/params.cuh"
#include "kernels/cuda/attention/prefill_mma_sync.cuh"
#include "kernels/cuda/attention/prefill_row.cuh"
#include "kernels/cuda/attention/prefill_wgmma.cuh"
#include "kernels/cuda/attention/prefill_wide.cuh"
#include "kernels/cuda/common/limits.h"

using namespace yk_attn;

static yk_status cuda_status(cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "attention: %s: %s", what, cudaGetErrorString(error));
}

extern "C" yk_status yk_cuda_attention_init(yk_cuda_attention *attn, void *workspace, yk_err *err)
{
  int device = 0, major = 0;
  *attn = {};
  attn->workspace = workspace;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&attn->n_sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess)
    error = cudaDeviceGetAttribute(&attn->smem_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  YK_TRY(cuda_status(error, "cannot read the device's properties", err));
  if (attn->n_sms > MAX_THREAD_BLOCKS) attn->n_sms = MAX_THREAD_BLOCKS;
  if (major == 9) {
    cudaDriverEntryPointQueryResult found;
    error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &attn->encode_tensor_map, 12000,
                                             cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) attn->encode_tensor_map = nullptr;
  }
  return YK_OK;
}

/* The counters, then the partial results of decode or of prefill, in float32. Decode: two for each thread block, each
 * with o and, for every part, m and l of MAX_DECODE_HEADS heads. Prefill: one for each thread block, with o, m and l of
 * MAX_SPLIT_ROWS rows. */
extern "C" size_t yk_cuda_attention_workspace_bytes(int32_t n_sms, int32_t head_dim)
{
  const int32_t decode = 2 * MAX_DECODE_HEADS * (head_dim + 2 * parts_of(head_dim));
  const int32_t prefill = MAX_SPLIT_ROWS * ((head_dim < MAX_SPLIT_DIMS ? head_dim : MAX_SPLIT_DIMS) + 2);
  return sizeof(workspace_counters) +
         static_cast<size_t>(n_sms) * static_cast<size_t>(decode > prefill ? decode : prefill) * sizeof(float);
}

static params params_of(const yk_cuda_attention &attn, const yk_attention_args &args, yk_dtype dtype)
{
  const yk_head_layout &h = args.heads;
  const yk_batch *b = args.batch;
  params p = {};
  p.y = args.y;
  p.q = args.qkv;
  p.k = args.kv.k;
  p.v = args.kv.v;
  p.dtype = dtype;
  p.format = args.kv.format;
  p.k_channels = args.kv.k_channels;
  p.v_channels = args.kv.v_channels;
  if (p.format != YK_KV_ACT && b->max_rows_per_seq > 1) {
    p.k_staging = args.kv.k_staging;
    p.v_staging = args.kv.v_staging;
  }
  p.heads = h;
  p.q_stride = yk_head_layout_width(&h);
  p.y_stride = static_cast<int64_t>(h.n_q_heads) * h.head_dim;
  p.scale_log2 = args.scale * LOG2_E;
  p.window_tokens = args.window_tokens;
  p.n_tokens = b->n_tokens;
  p.n_seqs = b->n_seqs;
  p.block_table_stride = b->block_table_stride;
  p.row_starts = b->row_starts;
  p.kv_tokens = b->kv_tokens;
  p.block_tables = b->block_tables;
  p.seq_of_row = b->seq_of_row;
  p.sinks = args.sinks;
  p.growth = args.growth;
  p.window_is_chunk = args.window_is_chunk;
  p.is_invariant = args.is_invariant;
  p.gates_column = static_cast<int64_t>(h.n_q_heads) * h.head_dim + yk_head_layout_kv_columns(&h);
  p.counters = static_cast<workspace_counters *>(attn.workspace);
  p.partial_results = reinterpret_cast<float *>(static_cast<char *>(attn.workspace) + sizeof(workspace_counters));
  return p;
}

template <typename T, int HD>
static cudaError_t launch_decode(const yk_cuda_attention &attn, const params &p, cudaStream_t stream)
{
  switch (p.format) {
  case YK_KV_INT8: return launch_flash_decoding<codes<YK_KV_INT8>, HD>(attn, p, stream);
  case YK_KV_FP8: return launch_flash_decoding<codes<YK_KV_FP8>, HD>(attn, p, stream);
  default: return launch_flash_decoding<T, HD>(attn, p, stream);
  }
}

/* Prefill reads pages of T: those of the cache, or the staging pages that decode has dequantised (kv_staging.cuh). */
template <typename T, int HD>
static cudaError_t launch_prefill(const yk_cuda_attention &attn, const params &cached, cudaStream_t stream)
{
  params p = cached;
  if (p.k_staging) {
    p.k = p.k_staging;
    p.v = p.v_staging;
  }
  if constexpr (HD == 512)
    return launch_prefill_wide<T>(attn, p, stream);
  else
    return attn.encode_tensor_map ? launch_prefill_wgmma<T, HD>(attn, p, stream)
                                  : launch_prefill_mma_sync<T, HD>(attn, p, stream);
}

/* With is_invariant: a prefill row reads its visible key tiles from the last to the first, so that its bits do not
 * depend on the other rows of its work tile. Where no decode kernel has these bits, prefill takes all sequences. */
template <typename T, int HD>
static cudaError_t launch_invariant(const yk_cuda_attention &attn, const params &all, const yk_attention_args &args,
                                    cudaStream_t stream)
{
  params p = all;
  if constexpr (HD <= 128) {
    if (prefill_row_takes(attn, p)) {
      const cudaError_t error = launch_prefill_row<T, HD>(attn, p, stream);
      if (error != cudaSuccess || args.batch->max_rows_per_seq <= 1) return error;
      return launch_prefill<T, HD>(attn, p, stream);
    }
  }
  p.takes_single_rows = true;
  return launch_prefill<T, HD>(attn, p, stream);
}

/* Decode processes the sequences with one row, prefill those with more. Decode runs first, since it also dequantises
 * for prefill. Returns cudaErrorNotSupported if the GPU has too little shared memory. */
template <typename T, int HD>
static cudaError_t launch_tensor_cores(const yk_cuda_attention &attn, const params &p, const yk_attention_args &args,
                                       cudaStream_t stream)
{
  if (p.is_invariant) return launch_invariant<T, HD>(attn, p, args, stream);
  const cudaError_t error = launch_decode<T, HD>(attn, p, stream);
  if (error != cudaSuccess || args.batch->max_rows_per_seq <= 1) return error;
  return launch_prefill<T, HD>(attn, p, stream);
}

/* The generic kernel runs all other cases. The smallest prefill tile has 64 rows and holds at least one token with all
 * query heads of its KV head: hence at most 64 heads. */
template <typename T>
static cudaError_t launch(const yk_cuda_attention &attn, const params &p, const yk_attention_args &args,
                          cudaStream_t stream)
{
  /* Decode omits the offsets of static keys and values. Offsets of keys shift all scores of a query equally, and
   * offsets of values shift the result, unless the softmax has a sink, which offsets do not shift. */
  const bool needs_offsets = p.sinks && p.k_channels;
  cudaError_t error = cudaErrorNotSupported;
  if (max_heads_per_kv(p.heads) <= 64 && !needs_offsets) {
    switch (p.heads.head_dim) {
    case 64: error = launch_tensor_cores<T, 64>(attn, p, args, stream); break;
    case 80: error = launch_tensor_cores<T, 80>(attn, p, args, stream); break;
    case 96: error = launch_tensor_cores<T, 96>(attn, p, args, stream); break;
    case 128: error = launch_tensor_cores<T, 128>(attn, p, args, stream); break;
    case 256: error = launch_tensor_cores<T, 256>(attn, p, args, stream); break;
    case 512: error = launch_tensor_cores<T, 512>(attn, p, args, stream); break;
    }
  }
  return error == cudaErrorNotSupported ? launch_generic<T>(attn, p, stream) : error;
}

extern "C" yk_status yk_cuda_attention_run(const yk_cuda_attention *attn, const yk_attention_args *args, yk_dtype dtype,
                                           cudaStream_t stream, yk_err *err)
{
  const yk_head_layout &h = args->heads;
  if (h.head_dim <= 0 || h.head_dim > YK_CUDA_MAX_HEAD_DIM || h.head_dim % YK_CUDA_HEAD_DIM_UNIT != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "attention: head_dim %d: expected a multiple of %d up to %d", h.head_dim,
                      YK_CUDA_HEAD_DIM_UNIT, YK_CUDA_MAX_HEAD_DIM);
  if (dtype != YK_F16 && dtype != YK_BF16)
    return yk_err_set(err, YK_E_UNSUPPORTED, "attention: dtype %s: expected float16 or bfloat16", yk_dtype_name(dtype));
  if (args->batch->n_seqs <= 0 || args->batch->n_tokens <= 0 || h.n_q_heads <= 0) return YK_OK;
  const params p = params_of(*attn, *args, dtype);
  return cuda_status(dtype == YK_F16 ? launch<__half>(*attn, p, *args, stream)
                                     : launch<__nv_bfloat16>(*attn, p, *args, stream),
                     "launch failed", err);
}
