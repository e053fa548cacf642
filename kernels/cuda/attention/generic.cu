/* generic.cu - attention without tensor cores, for any head size that is a multiple of 4 up to 512: one warp for each
 * query row and head iterates over the visible tokens, with online softmax. Slow: for head sizes without a tensor core
 * kernel. */
#include "kernels/cuda/attention/generic.cuh"

#include "kernels/cuda/common/kv_codes.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"

namespace yk_attn {

constexpr int GENERIC_WARPS = 8;

template <typename T> __device__ float4 load_4(const T *src)
{
  T v[4];
  *reinterpret_cast<uint2 *>(v) = *reinterpret_cast<const uint2 *>(src);
  return make_float4(static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2]),
                     static_cast<float>(v[3]));
}

/* Loads dimensions d .. d+3 of a token of a page of K or V. channels: as in yk_kv_layer. */
template <typename T>
__device__ float4 load_cached_4(const params &p, const void *cache, const float *channels, int64_t page, int32_t token,
                                int32_t d)
{
  const int32_t hd = p.heads.head_dim;
  if (p.format == YK_KV_ACT) return load_4(static_cast<const T *>(cache) + (page * PAGE_TOKENS + token) * hd + d);
  const char *codes = static_cast<const char *>(cache) + page * PAGE_TOKENS * yk_cuda::kv_token_bytes(hd);
  const float t = reinterpret_cast<const float *>(codes + PAGE_TOKENS * hd)[token];
  float4 x = yk_cuda::kv_decode_4(p.format, *reinterpret_cast<const uint32_t *>(codes + token * hd + d));
  if (channels) {
    const float *c = channels + page % p.heads.n_kv_heads * hd + d, *z = c + p.heads.n_kv_heads * hd;
    x = make_float4(c[0] * (x.x - z[0]), c[1] * (x.y - z[1]), c[2] * (x.z - z[2]), c[3] * (x.w - z[3]));
  }
  return make_float4(t * x.x, t * x.y, t * x.z, t * x.w);
}

/* o times the sigmoid of the gates of dimensions d .. d+3 of a head. */
template <typename T>
__device__ float4 apply_gates(const params &p, int32_t row, int32_t head, int32_t d, const float4 &o)
{
  const int64_t gates = p.gates_column + head * static_cast<int64_t>(p.heads.head_dim);
  const float4 g = load_4(static_cast<const T *>(p.q) + row * p.q_stride + gates + d);
  return make_float4(o.x / (1.0f + __expf(-g.x)), o.y / (1.0f + __expf(-g.y)), o.z / (1.0f + __expf(-g.z)),
                     o.w / (1.0f + __expf(-g.w)));
}

/* VECTORS: of 4 dimensions, that a lane holds; 32 lanes have the head. */
template <typename T, int VECTORS> __device__ void generic_row(const params &p, int32_t row, int32_t head)
{
  const int32_t lane = threadIdx.x % 32, hd = p.heads.head_dim;
  const int32_t seq = p.seq_of_row[row], last_row = p.row_starts[seq + 1] - 1;
  if (row < p.row_starts[seq] || row > last_row) return; /* a row of no sequence, in the padding of a captured step */
  const int32_t position = p.kv_tokens[seq] - 1 - (last_row - row);
  const int32_t kv_head = (p.heads.q_head_first + head) / p.heads.q_per_kv - p.heads.kv_head_first;
  const float scale_log2 = scale_log2_at(p, position);
  float4 q[VECTORS], o[VECTORS];
  float m = -INFINITY, l = 0.0f;
  for (int j = 0; j < VECTORS; j++) {
    const int32_t d = (j * 32 + lane) * 4;
    q[j] = o[j] = make_float4(0, 0, 0, 0);
    if (d < hd) q[j] = load_4(static_cast<const T *>(p.q) + row * p.q_stride + static_cast<int64_t>(head) * hd + d);
  }
  for (int32_t token = first_visible_at(p, position); token <= position; token++) {
    const int64_t block = p.block_tables[static_cast<int64_t>(seq) * p.block_table_stride + token / PAGE_TOKENS];
    const int64_t page = block * p.heads.n_kv_heads + kv_head;
    float s = 0.0f;
    for (int j = 0; j < VECTORS; j++) {
      const int32_t d = (j * 32 + lane) * 4;
      if (d >= hd) continue;
      float4 k = load_cached_4<T>(p, p.k, p.k_channels, page, token % PAGE_TOKENS, d);
      s += q[j].x * k.x + q[j].y * k.y + q[j].z * k.z + q[j].w * k.w;
    }
    for (int offset = 16; offset > 0; offset /= 2) s += __shfl_xor_sync(~0u, s, offset);
    s *= scale_log2;
    const float m_new = fmaxf(m, s), rescale = exp2_approx(m - m_new), probability = exp2_approx(s - m_new);
    m = m_new;
    l = l * rescale + probability;
    for (int j = 0; j < VECTORS; j++) {
      const int32_t d = (j * 32 + lane) * 4;
      if (d >= hd) continue;
      float4 v = load_cached_4<T>(p, p.v, p.v_channels, page, token % PAGE_TOKENS, d);
      o[j] = make_float4(o[j].x * rescale + probability * v.x, o[j].y * rescale + probability * v.y,
                         o[j].z * rescale + probability * v.z, o[j].w * rescale + probability * v.w);
    }
  }
  l = add_sink(p, head, m, l);
  for (int j = 0; j < VECTORS; j++) {
    const int32_t d = (j * 32 + lane) * 4;
    if (d >= hd || l == 0.0f) continue;
    float4 y = make_float4(o[j].x / l, o[j].y / l, o[j].z / l, o[j].w / l);
    if (p.heads.has_gates) y = apply_gates<T>(p, row, head, d, y);
    *reinterpret_cast<uint2 *>(static_cast<T *>(p.y) + row * p.y_stride + static_cast<int64_t>(head) * hd + d) =
        make_uint2(round_pair<T>(y.x, y.y), round_pair<T>(y.z, y.w));
  }
}

template <typename T, int VECTORS> __global__ void __launch_bounds__(GENERIC_WARPS * 32) generic_kernel(const params p)
{
  const int64_t n_items = static_cast<int64_t>(p.n_tokens) * p.heads.n_q_heads;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(GENERIC_WARPS) + threadIdx.x / 32; i < n_items;
       i += static_cast<int64_t>(gridDim.x) * GENERIC_WARPS)
    generic_row<T, VECTORS>(p, static_cast<int32_t>(i / p.heads.n_q_heads),
                            static_cast<int32_t>(i % p.heads.n_q_heads));
}

template <typename T> cudaError_t launch_generic(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  const auto kernel = p.heads.head_dim <= 256 ? generic_kernel<T, 2> : generic_kernel<T, 4>;
  kernel<<<device.n_sms * 8, GENERIC_WARPS * 32, 0, stream>>>(p);
  return cudaPeekAtLastError();
}

template cudaError_t launch_generic<__half>(const yk_cuda_attention &, const params &, cudaStream_t);
template cudaError_t launch_generic<__nv_bfloat16>(const yk_cuda_attention &, const params &, cudaStream_t);

} // namespace yk_attn
