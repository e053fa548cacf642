/* prefill_wgmma_kernel.cuh - prefill on Hopper: wgmma fed by TMA, with producer and consumer warps. attention.h
 * describes the data flow and the barriers. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_KERNEL_CUH

#include <cuda.h>

#include "kernels/cuda/attention/prefill_tensor_map.cuh"
#include "kernels/cuda/attention/prefill_wgmma.cuh"
#include "kernels/cuda/attention/prefill_wgmma_consumer.cuh"
#include "kernels/cuda/attention/prefill_wgmma_producers.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_attn {

/* Grid: one thread block per multiprocessor. tokens_per_tile: as many as fill a work tile for the KV head with most
 * query heads. */
template <typename T, int HD>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    prefill_wgmma_kernel(const params p, const __grid_constant__ CUtensorMap k_map,
                         const __grid_constant__ CUtensorMap v_map, int32_t tokens_per_tile)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  prefill_shared<HD> &s = *reinterpret_cast<prefill_shared<HD> *>(memory);
  const int warpgroup = threadIdx.x / 128;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) {
      mbarrier_init(&s.work_full[i], 1);
      mbarrier_init(&s.q_full[i], Q_PRODUCER_THREADS);
      mbarrier_init(&s.q_empty[i], N_CONSUMER_WARPS + N_KV_PRODUCER_WARPS);
    }
    for (int i = 0; i < prefill_tiles<HD>::KV_STAGES; i++) {
      mbarrier_init(&s.kv_full[i], 1);
      mbarrier_init(&s.kv_empty[i], N_CONSUMER_WARPS);
    }
    mbarrier_init(&s.v_tail, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  int32_t n_key_tiles = 0; /* for the first warp of the Q producers */
  if (prefill_tiles<HD>::SPLITS && !p.is_invariant && threadIdx.x / 32 == 2)
    n_key_tiles = count_key_tiles<prefill_tiles<HD>::TILE_N>(p, tokens_per_tile);
  wait_for_previous_kernel();
  if (p.takes_single_rows) let_next_kernel_start(); /* few work tiles: the next GEMM loads weights meanwhile */
  if (warpgroup == 0) {
    lower_registers<PRODUCER_REGISTERS>();
    if (threadIdx.x < 32) {
      kv_producer<HD, true>{s, p, &k_map, 0}.run();
    } else if (threadIdx.x < 64) {
      kv_producer<HD, false>{s, p, &v_map, 0}.run();
    } else {
      q_producer<T, HD>{s, p}.run(tokens_per_tile, n_key_tiles);
    }
  } else {
    raise_registers<CONSUMER_REGISTERS>();
    prefill_consumer<T, HD> consumer = {s, p, warpgroup - 1, {}, {}, {}, {}};
    consumer.run();
  }
#endif
}

template <typename T, int HD>
cudaError_t launch_prefill_wgmma(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  CUtensorMap k_map, v_map;
  cudaError_t error = encode_page_map<T>(device, p, p.k, &k_map);
  if (error == cudaSuccess) error = encode_page_map<T>(device, p, p.v, &v_map);
  if (error != cudaSuccess) return error;
  return launch_kernel(prefill_wgmma_kernel<T, HD>, device.n_sms, WGMMA_THREADS, sizeof(prefill_shared<HD>), stream, p,
                       k_map, v_map, WGMMA_TILE_M / max_heads_per_kv(p.heads));
}

} // namespace yk_attn

#endif
