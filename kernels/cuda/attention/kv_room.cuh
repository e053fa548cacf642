/* kv_room.cuh - pages of 8 bits as pages of the activation type T, for prefill: what the sequences with several query
 * rows see of the cache is dequantised into the room that yk_kv_layer has for it, block for block, so that the prefill
 * kernels read the same block tables. A page that several sequences share is written by each of them, alike.
 *
 * head_dim: a multiple of 16. Asynchronous on stream. */
#ifndef YK_KERNELS_CUDA_ATTENTION_KV_ROOM_CUH
#define YK_KERNELS_CUDA_ATTENTION_KV_ROOM_CUH

#include "kernels/cuda/attention/params.cuh"

namespace yk_attn {

/* k_room, v_room: act [n_blocks, n_kv_heads, PAGE_TOKENS, head_dim]. */
template <typename T>
cudaError_t launch_fill_room(const yk_cuda_attention &device, const params &p, void *k_room, void *v_room,
                             cudaStream_t stream);

} // namespace yk_attn

#endif
